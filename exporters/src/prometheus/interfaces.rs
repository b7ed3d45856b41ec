// SPDX-License-Identifier: MIT OR Apache-2.0
//! Gauges of the subflows of each interface: how many are open, stale or backup, and their median RTT.

use std::collections::{BTreeMap, HashMap};

use mpwatch_model::flow::subflow::Subflow;
use mpwatch_model::kernel::endpoint::Name;
use mpwatch_model::metric::{Kind, Unit};
use mpwatch_model::unit::Micros;

use super::values::{OTHER, Sums, UNKNOWN};

/// A gauge of an interface: name, help and unit.
pub(super) type Gauge = (&'static str, &'static str, (Kind, Unit));

pub(super) const GAUGES: [Gauge; 4] = [
    ("mpwatch_interface_subflows", "Open subflows of an interface.", (Kind::Gauge, Unit::Count)),
    (
        "mpwatch_interface_stale_subflows",
        "Open subflows of an interface whose path has failed.",
        (Kind::Gauge, Unit::Count),
    ),
    (
        "mpwatch_interface_backup_subflows",
        "Open subflows of an interface that are backups: MPTCP uses them only while no other subflow works.",
        (Kind::Gauge, Unit::Count),
    ),
    (
        "mpwatch_interface_srtt_seconds",
        "Median of the smoothed RTTs of the open subflows of an interface whose path works.",
        (Kind::Gauge, Unit::Seconds),
    ),
];

/// The subflows of an interface.
#[derive(Clone, Debug, Default)]
struct Paths {
    /// Numbers of subflows: all, open, open and stale, open and backup.
    counts: [u64; 4],
    /// Payload of all subflows, in bytes.
    size: u64,
    /// Number of open subflows with each smoothed RTT.
    rtts: BTreeMap<Micros, u64>,
}

impl Paths {
    /// Adds a subflow, or removes a subflow that was added.
    fn change(&mut self, path: &Path, is_added: bool) {
        let change = |sum: &mut u64, by: u64| *sum = if is_added { *sum + by } else { *sum - by };
        self.counts.iter_mut().zip(path.counts()).for_each(|(sum, count)| change(sum, count));
        change(&mut self.size, path.size);
        if let Some(rtt) = path.rtt {
            let count = self.rtts.entry(rtt).or_default();
            change(count, 1);
            if *count == 0 {
                self.rtts.remove(&rtt);
            }
        }
    }

    fn merge(&mut self, other: &Self) {
        self.counts.iter_mut().zip(other.counts).for_each(|(sum, count)| *sum += count);
        for (rtt, count) in &other.rtts {
            *self.rtts.entry(*rtt).or_default() += count;
        }
    }

    fn values(&self) -> Sums {
        let middle = self.rtts.values().sum::<u64>() / 2;
        let mut upto = 0;
        let median = self.rtts.iter().find(|(_, count)| {
            upto += **count;
            upto > middle
        });
        let [_, open, stale, backup] = self.counts.map(|count| Some(count as f64));
        vec![open, stale, backup, median.map(|(rtt, _)| rtt.seconds())]
    }
}

/// The label of an interface. A reserved name gets a leading slash, which no interface name contains.
pub(super) fn label(name: Name) -> String {
    let text = name.text().into_owned();
    if [OTHER, UNKNOWN].contains(&text.as_str()) { format!("/{text}") } else { text }
}

/// The values of a subflow that the gauges use. They are kept while the subflow is idle and snapshots do not list it.
#[derive(Clone, Copy)]
pub(super) struct Path {
    pub(super) interface: Option<Name>,
    pub(super) incoming: Option<Name>,
    pub(super) is_open: bool,
    /// Payload in both directions, in bytes.
    pub(super) size: u64,
    is_stale: bool,
    is_backup: bool,
    /// Smoothed RTT. `None`: unknown, or the subflow is closed or gets no acknowledgements.
    rtt: Option<Micros>,
}

impl Path {
    pub(super) fn from_subflow(subflow: &Subflow) -> Self {
        Self {
            interface: subflow.interface,
            incoming: subflow.incoming_interface,
            is_open: subflow.closed.is_none(),
            size: (subflow.bytes_sent + subflow.bytes_received).0,
            is_stale: subflow.is_failed(),
            is_backup: subflow.backup,
            rtt: subflow.current_srtt().filter(|_| subflow.closed.is_none()),
        }
    }

    fn counts(&self) -> [u64; 4] {
        let Self { is_open, is_stale, is_backup, .. } = *self;
        [true, is_open, is_open && is_stale, is_open && is_backup].map(u64::from)
    }
}

/// All subflows by interface, updated as they change.
#[derive(Debug, Default)]
pub(super) struct Interfaces {
    paths: HashMap<Option<Name>, Paths>,
}

impl Interfaces {
    /// Adds a subflow, or removes a subflow that was added. An interface that only receives segments has series, too.
    pub(super) fn change(&mut self, path: &Path, is_added: bool) {
        for (interface, is_incoming) in [(path.interface, false), (path.incoming, true)] {
            let paths = self.paths.entry(interface).or_default();
            match (is_incoming, is_added) {
                (false, _) => paths.change(path, is_added),
                (true, true) => paths.counts[0] += 1,
                (true, false) => paths.counts[0] -= 1,
            }
            if paths.counts[0] == 0 {
                self.paths.remove(&interface);
            }
        }
    }

    pub(super) fn sizes(&self) -> HashMap<Option<Name>, u64> {
        self.paths.iter().map(|(name, paths)| (*name, paths.size)).collect()
    }

    pub(super) fn gauges(&self, interface: Option<Name>) -> Sums {
        self.paths.get(&interface).map_or_else(|| Paths::default().values(), Paths::values)
    }

    /// The gauges of the interfaces that have no series of their own, merged into one set.
    pub(super) fn gauges_of_others(&self, has_series: impl Fn(Option<Name>) -> bool) -> Sums {
        let mut others = Paths::default();
        self.paths.iter().filter(|(name, _)| !has_series(**name)).for_each(|(_, paths)| others.merge(paths));
        others.values()
    }
}
