// SPDX-License-Identifier: MIT OR Apache-2.0
//! Evaluates one run with several detection methods: each method has a tracker, and all trackers process the same events.

use std::cell::RefCell;

use mpwatch_engine::tracker::{Closed, Tracker};
use mpwatch_model::flow::bottleneck::DetectionMethod;
use mpwatch_model::kernel::event::{KernelEvent, Start};
use mpwatch_model::snapshot::Snapshot;

use crate::closed_subflows::recorded_method;

/// A tracker that detects bottlenecks with this method.
pub(crate) fn tracker(start: &Start, closed: Closed, method: DetectionMethod) -> Tracker {
    let tracker = Tracker::new(start.clone(), closed);
    // mpwatch's own method must run without `with_method`: only then does it use the rates of all connections, as in the daemon.
    if method == DetectionMethod::default() { tracker } else { tracker.with_method(method, recorded_method) }
}

/// The trackers of all methods except the method of the report.
pub(crate) struct OtherMethods(RefCell<Vec<Tracker>>);

impl OtherMethods {
    /// Creates a tracker for each of these methods.
    pub(crate) fn new(start: &Start, methods: &[DetectionMethod]) -> Self {
        let trackers = methods.iter().map(|method| tracker(start, Closed::Forget, *method));
        Self(RefCell::new(trackers.collect()))
    }

    /// Applies an event to all trackers.
    pub(crate) fn apply(&self, event: &KernelEvent) {
        self.0.borrow_mut().iter_mut().for_each(|tracker| tracker.apply(event));
    }

    /// The snapshot of each tracker, in the order of the methods.
    pub(crate) fn snapshots(&self) -> Vec<Snapshot> {
        self.0.borrow_mut().iter_mut().map(Tracker::end_tick).collect()
    }
}
