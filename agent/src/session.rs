// SPDX-License-Identifier: MIT OR Apache-2.0
//! The loop that all commands share: events from a source into the tracker (and, when recording, into a file), a snapshot
//! after every tick.

use std::ops::ControlFlow;

use anyhow::Result;
use mpwatch_model::bottleneck::DetectionMethod;
use mpwatch_model::event::KernelEvent;
use mpwatch_model::snapshot::{Report, Snapshot};

use crate::recording::Recorder;
use crate::source::EventSource;
use mpwatch_engine::tracker::{Closed, Tracker};

/// What is made of the events.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outlook {
    /// What becomes of connections that have closed.
    pub(crate) closed: Closed,
    /// How shared bottlenecks are found.
    pub(crate) method: DetectionMethod,
}

/// Runs until the source ends or `each` has seen enough; the report over everything that was seen.
pub(crate) fn run(
    source: &mut dyn EventSource,
    outlook: Outlook,
    mut recorder: Option<&mut Recorder>,
    mut each: impl FnMut(Snapshot) -> Result<ControlFlow<()>>,
) -> Result<Report> {
    let mut tracker = Tracker::new(source.start().clone(), outlook.closed).with_method(outlook.method);
    loop {
        let more = source.next_tick(&mut |event: &KernelEvent| {
            if let Some(recorder) = recorder.as_deref_mut() {
                recorder.write(event);
            }
            tracker.apply(event);
            Ok(())
        })?;
        let is_over = each(tracker.snapshot())?.is_break();
        // What could not be written is still told.
        if !more || is_over || recorder.as_deref().is_some_and(Recorder::has_failed) {
            let mut report = tracker.report();
            report.run.cut_short = source.cut_short().map(str::to_owned);
            return Ok(report);
        }
    }
}
