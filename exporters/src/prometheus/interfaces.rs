// SPDX-License-Identifier: MIT OR Apache-2.0
//! The current state of the paths behind each interface. Only interfaces with series of their own are kept apart.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap};

use mpwatch_model::flow::subflow::Subflow;
use mpwatch_model::kernel::endpoint::Name;
use mpwatch_model::metric::{Kind, Unit};
use mpwatch_model::unit::Micros;

use super::sums::Sums;

/// A gauge of an interface: name, help and unit.
pub(super) type Gauge = (&'static str, &'static str, (Kind, Unit));

/// In the order of the values.
pub(super) const GAUGES: [Gauge; 4] = [
    ("mpwatch_interface_subflows", "Open subflows of an interface.", (Kind::Gauge, Unit::Count)),
    (
        "mpwatch_interface_stale_subflows",
        "Open subflows of an interface that get no acknowledgements.",
        (Kind::Gauge, Unit::Count),
    ),
    (
        "mpwatch_interface_backup_subflows",
        "Open subflows of an interface that are backups: MPTCP uses them only while no other subflow works.",
        (Kind::Gauge, Unit::Count),
    ),
    (
        "mpwatch_interface_srtt_seconds",
        "Median of the smoothed RTTs of the open subflows of an interface that get acknowledgements.",
        (Kind::Gauge, Unit::Seconds),
    ),
];

/// The subflows of an interface.
#[derive(Clone, Debug, Default)]
struct Paths {
    all: usize,
    /// Payload of all of them.
    size: u64,
    open: usize,
    stale: usize,
    backup: usize,
    /// How many of the open ones have each smoothed RTT.
    rtts: BTreeMap<Micros, usize>,
}

impl Paths {
    fn add(&mut self, path: &Path) {
        self.all += 1;
        self.size += path.size;
        if path.is_open {
            self.open += 1;
            self.stale += usize::from(path.is_stale);
            self.backup += usize::from(path.is_backup);
            path.rtt.into_iter().for_each(|rtt| *self.rtts.entry(rtt).or_default() += 1);
        }
    }

    fn remove(&mut self, path: &Path) {
        self.all -= 1;
        self.size -= path.size;
        if path.is_open {
            self.open -= 1;
            self.stale -= usize::from(path.is_stale);
            self.backup -= usize::from(path.is_backup);
            if let Some(rtt) = path.rtt
                && let Entry::Occupied(mut count) = self.rtts.entry(rtt)
            {
                *count.get_mut() -= 1;
                if *count.get() == 0 {
                    count.remove();
                }
            }
        }
    }

    fn merge(&mut self, other: &Self) {
        self.open += other.open;
        self.stale += other.stale;
        self.backup += other.backup;
        for (rtt, count) in &other.rtts {
            *self.rtts.entry(*rtt).or_default() += count;
        }
    }

    /// The values of the gauges.
    fn values(&self) -> Sums {
        let middle = self.rtts.values().sum::<usize>() / 2;
        let mut upto = 0;
        let median = self.rtts.iter().find(|(_, count)| {
            upto += **count;
            upto > middle
        });
        let [open, stale, backup] = [self.open, self.stale, self.backup].map(|count| Some(count as f64));
        vec![open, stale, backup, median.map(|(rtt, _)| rtt.seconds())]
    }
}

/// The values of the gauges of an interface without open subflows.
pub(super) fn no_paths() -> Sums {
    Paths::default().values()
}

/// An interface with series of its own, or all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Interface {
    /// `None`: no route in the socket's cache.
    Own(Option<Name>),
    Other,
}

/// Part of a subflow that is kept while it is idle.
#[derive(Clone, Copy)]
pub(super) struct Path {
    pub(super) interface: Option<Name>,
    pub(super) is_open: bool,
    /// Payload in both directions.
    pub(super) size: u64,
    is_stale: bool,
    is_backup: bool,
    /// Of a path that gets acknowledgements.
    rtt: Option<Micros>,
}

impl Path {
    pub(super) fn from_subflow(subflow: &Subflow) -> Self {
        Self {
            interface: subflow.interface,
            is_open: subflow.closed.is_none(),
            size: (subflow.bytes_sent + subflow.bytes_received).0,
            is_stale: subflow.is_failed(),
            is_backup: subflow.backup,
            rtt: subflow.current_srtt(),
        }
    }
}

/// All subflows by interface, kept up to date as they change.
#[derive(Debug, Default)]
pub(super) struct Interfaces {
    paths: HashMap<Option<Name>, Paths>,
}

impl Interfaces {
    pub(super) fn add(&mut self, path: &Path) {
        self.paths.entry(path.interface).or_default().add(path);
    }

    /// Removes a path that was added.
    pub(super) fn remove(&mut self, path: &Path) {
        if let Some(paths) = self.paths.get_mut(&path.interface) {
            paths.remove(path);
            if paths.all == 0 {
                self.paths.remove(&path.interface);
            }
        }
    }

    /// The payload of each interface.
    pub(super) fn sizes(&self) -> HashMap<Option<Name>, u64> {
        self.paths.iter().map(|(name, paths)| (*name, paths.size)).collect()
    }

    /// The values of the gauges of each interface with open subflows. Interfaces without series of their own are merged
    /// into one.
    pub(super) fn gauges(&self, has_series: impl Fn(Option<Name>) -> bool) -> HashMap<Interface, Sums> {
        let (own, others): (Vec<_>, Vec<_>) =
            self.paths.iter().filter(|(_, paths)| paths.open > 0).partition(|(name, _)| has_series(**name));
        let mut other = Paths::default();
        for (_, paths) in &others {
            other.merge(paths);
        }
        let other = (!others.is_empty()).then(|| (Interface::Other, other.values()));
        own.into_iter().map(|(name, paths)| (Interface::Own(*name), paths.values())).chain(other).collect()
    }
}
