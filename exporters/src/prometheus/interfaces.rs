// SPDX-License-Identifier: MIT OR Apache-2.0
//! The current state of the paths behind each interface. Only interfaces with series of their own are kept apart.

use std::collections::HashMap;

use mpwatch_model::endpoint::Name;
use mpwatch_model::metric::{Kind, Unit};
use mpwatch_model::snapshot::Snapshot;
use mpwatch_model::unit::Micros;

use super::sums::Sums;

/// A gauge of an interface: name, help and unit.
pub(super) type Gauge = (&'static str, &'static str, (Kind, Unit));

/// In the order of the values.
pub(super) const GAUGES: [Gauge; 3] = [
    ("mpwatch_interface_subflows", "Open subflows of an interface.", (Kind::Gauge, Unit::Count)),
    (
        "mpwatch_interface_stale_subflows",
        "Open subflows of an interface that get no acknowledgements.",
        (Kind::Gauge, Unit::Count),
    ),
    (
        "mpwatch_interface_srtt_seconds",
        "Median of the smoothed RTTs of the open subflows of an interface that get acknowledgements.",
        (Kind::Gauge, Unit::Seconds),
    ),
];

/// The open subflows of an interface.
#[derive(Clone, Debug, Default)]
pub(super) struct Paths {
    open: usize,
    stale: usize,
    rtts: Vec<Micros>,
}

impl Paths {
    /// The values of the gauges.
    pub(super) fn values(&mut self) -> Sums {
        let middle = self.rtts.len() / 2;
        let median = (!self.rtts.is_empty()).then(|| self.rtts.select_nth_unstable(middle).1.seconds());
        vec![Some(self.open as f64), Some(self.stale as f64), median]
    }
}

/// An interface with series of its own, or all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Interface {
    /// `None`: no route in the socket's cache.
    Own(Option<Name>),
    Other,
}

/// Sorts the open subflows by interface.
pub(super) fn paths(
    snapshot: &Snapshot,
    has_series: impl Fn(Option<Name>) -> bool,
) -> HashMap<Interface, Paths> {
    let mut found: HashMap<_, Paths> = HashMap::new();
    let all = snapshot.connections.iter().flat_map(|connection| &connection.subflows);
    for subflow in all.filter(|subflow| subflow.closed.is_none()) {
        let name = subflow.interface;
        let interface = if has_series(name) { Interface::Own(name) } else { Interface::Other };
        let paths = found.entry(interface).or_default();
        paths.open += 1;
        paths.stale += usize::from(subflow.stale);
        paths.rtts.extend(subflow.srtt.filter(|_| !subflow.stale));
    }
    found
}
