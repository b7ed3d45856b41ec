// SPDX-License-Identifier: MIT OR Apache-2.0
//! Evaluates one run with several detection methods: each method has a tracker, and all trackers process the same events.

use std::cell::RefCell;

use mpwatch_engine::tracker::{Closed, Tracker};
use mpwatch_model::flow::bottleneck::DetectionMethod;
use mpwatch_model::kernel::event::{KernelEvent, Start};
use mpwatch_model::snapshot::Snapshot;

use crate::closures;

/// A tracker that detects bottlenecks with this method.
pub(crate) fn tracker(start: &Start, closed: Closed, method: DetectionMethod) -> Tracker {
    let tracker = Tracker::new(start.clone(), closed);
    // As in the product, mpwatch's own method uses the rates of all connections.
    if method == DetectionMethod::default() { tracker } else { tracker.with_method(method, closures::new) }
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
