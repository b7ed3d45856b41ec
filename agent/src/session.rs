// SPDX-License-Identifier: MIT OR Apache-2.0
//! The loop of all commands: feeds events to the tracker, and to a file when recording, and takes a snapshot after every tick.

use std::time::{Duration, Instant};

use anyhow::Result;
use mpwatch_ebpf::heap;
use mpwatch_engine::tracker::{Closed, Tracker};
use mpwatch_model::bottleneck::DetectionMethod;
use mpwatch_model::event::KernelEvent;
use mpwatch_model::snapshot::{Report, Snapshot};

use crate::recording::Recorder;
use crate::source::EventSource;

/// How often free memory is returned to the kernel.
const TRIM_INTERVAL: Duration = Duration::from_mins(1);

/// How the tracker treats events.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TrackerSettings {
    /// Whether closed connections stay in memory for the report.
    pub(crate) closed: Closed,
    /// How shared bottlenecks are detected.
    pub(crate) method: DetectionMethod,
}

/// Runs until the source ends or `each` returns `false`. Returns the report over the whole run.
pub(crate) fn run(
    source: &mut dyn EventSource,
    settings: TrackerSettings,
    mut recorder: Option<&mut Recorder>,
    mut each: impl FnMut(Snapshot) -> Result<bool>,
) -> Result<Report> {
    let mut tracker = Tracker::new(source.start().clone(), settings.closed).with_method(settings.method);
    let mut trimmed = Instant::now();
    loop {
        let more = source.next_tick(&mut |event: &KernelEvent| {
            if let Some(recorder) = recorder.as_deref_mut() {
                recorder.write(event);
            }
            tracker.apply(event);
            Ok(())
        })?;
        let goes_on = each(tracker.snapshot())?;
        if trimmed.elapsed() >= TRIM_INTERVAL {
            heap::trim();
            trimmed = Instant::now();
        }
        // A full disk ends the run, but the report still has the events that could not be written.
        if !more || !goes_on || recorder.as_deref().is_some_and(Recorder::has_failed) {
            let mut report = tracker.report();
            report.run.cut_short = source.cut_short().map(str::to_owned);
            return Ok(report);
        }
    }
}
