// SPDX-License-Identifier: MIT OR Apache-2.0
//! Several methods of detection on one run: a tracker for each reads the same events.

use std::cell::RefCell;

use mpwatch_engine::tracker::{Closed, Tracker};
use mpwatch_model::flow::bottleneck::DetectionMethod;
use mpwatch_model::kernel::event::{KernelEvent, Start};
use mpwatch_model::snapshot::Snapshot;

use crate::source::{EventSink, EventSource};

/// Trackers beside the one that writes the report.
pub(super) struct OtherMethods(RefCell<Vec<Tracker>>);

impl OtherMethods {
    /// One for each of these methods.
    pub(super) fn new(start: &Start, methods: &[DetectionMethod]) -> Self {
        let tracker = |method: &_| Tracker::new(start.clone(), Closed::Forget).with_method(*method);
        Self(RefCell::new(methods.iter().map(tracker).collect()))
    }

    /// A source whose events they read too.
    pub(super) fn beside<'a>(&'a self, source: &'a mut dyn EventSource) -> SharedSource<'a> {
        SharedSource { source, others: self }
    }

    /// What each of them sees, in the order of the methods.
    pub(super) fn snapshots(&self) -> Vec<Snapshot> {
        self.0.borrow_mut().iter_mut().map(Tracker::end_tick).collect()
    }
}

/// Passes its events on to all trackers.
pub(super) struct SharedSource<'a> {
    source: &'a mut dyn EventSource,
    others: &'a OtherMethods,
}

impl EventSource for SharedSource<'_> {
    fn start(&self) -> &Start {
        self.source.start()
    }

    fn next_tick(&mut self, sink: &mut EventSink<'_>) -> anyhow::Result<bool> {
        let mut trackers = self.others.0.borrow_mut();
        self.source.next_tick(&mut |event: &KernelEvent| {
            trackers.iter_mut().for_each(|tracker| tracker.apply(event));
            sink(event)
        })
    }

    fn cut_short(&self) -> Option<&str> {
        self.source.cut_short()
    }
}
