// SPDX-License-Identifier: MIT OR Apache-2.0
//! The loop of all commands: feeds events to the tracker and, when recording, to a file. Passes on a snapshot after every tick.

use std::time::{Duration, Instant};

use anyhow::Result;
use mpwatch_ebpf::heap;
use mpwatch_engine::tracker::{Closed, Selection, Tracker};
use mpwatch_model::flow::bottleneck::DetectionMethod;
use mpwatch_model::kernel::event::KernelEvent;
use mpwatch_model::snapshot::{Report, Snapshot};

use crate::live::recording::Recorder;
use crate::live::source::EventSource;
use crate::system::companion;

/// Maximum time between two returns of free memory to the kernel.
const TRIM_INTERVAL: Duration = Duration::from_mins(1);
/// After a snapshot with more connections than this, memory is returned once [`SMALL_IN_A_ROW`] snapshots in a row have less than a quarter
/// of its connections. Until then, the large snapshot may still wait for the database.
const LARGE_BURST: usize = 5_000;
const SMALL_IN_A_ROW: u32 = 5;

#[derive(Clone, Copy, Debug)]
pub(crate) struct TrackerSettings {
    /// Whether closed connections stay in memory for the report.
    pub(crate) closed: Closed,
    pub(crate) method: DetectionMethod,
    /// Whether snapshots share idle connections (`Snapshot::idle`) instead of listing them.
    pub(crate) shares_idle: bool,
}

impl TrackerSettings {
    /// Settings with which snapshots list every connection. `method`: the option `--method`. `None`: the default method.
    pub(crate) fn new(closed: Closed, method: Option<DetectionMethod>) -> Self {
        Self { closed, method: method.unwrap_or_default(), shares_idle: false }
    }
}

/// Decides when to return free memory.
struct Memory {
    returned: Instant,
    most_listed: usize,
    small_in_a_row: u32,
}

impl Memory {
    fn since(returned: Instant) -> Self {
        Self { returned, most_listed: 0, small_in_a_row: 0 }
    }

    /// Whether memory should be returned after a snapshot that lists this many connections.
    fn is_due(&mut self, listed: usize, now: Instant) -> bool {
        self.most_listed = self.most_listed.max(listed);
        let is_small = self.most_listed > LARGE_BURST && listed < self.most_listed / 4;
        self.small_in_a_row = if is_small { self.small_in_a_row + 1 } else { 0 };
        let is_due = self.small_in_a_row >= SMALL_IN_A_ROW
            || now.saturating_duration_since(self.returned) >= TRIM_INTERVAL;
        if is_due {
            *self = Self::since(now);
        }
        is_due
    }
}

/// Runs until the source ends or `each` returns `false`. Returns the report over the whole run.
pub(crate) fn run(
    source: &mut dyn EventSource,
    settings: TrackerSettings,
    recorder: Option<&mut Recorder>,
    each: impl FnMut(Snapshot) -> Result<bool>,
) -> Result<Report> {
    run_selecting(source, settings, recorder, None, each)
}

/// Like [`run`]. The report has only the closed connections that `selection` selects. `None`: all.
pub(crate) fn run_selecting(
    source: &mut dyn EventSource,
    settings: TrackerSettings,
    mut recorder: Option<&mut Recorder>,
    selection: Option<Selection>,
    each: impl FnMut(Snapshot) -> Result<bool>,
) -> Result<Report> {
    let mut tracker = Tracker::new(source.start().clone(), settings.closed).selecting(selection);
    if let Some(new) = companion::published(settings.method) {
        tracker = tracker.with_method(settings.method, new);
    }
    if settings.shares_idle {
        tracker = tracker.with_shared_idle();
    }
    // A full disk ends the run, but the report still has the events that could not be written.
    let mut observe =
        |event: &KernelEvent| recorder.as_deref_mut().is_none_or(|recorder| recorder.write(event));
    track(source, tracker, &mut observe, each)
}

/// Like [`run`], but with a given tracker. `observe` receives each event; the run ends if it returns `false` for a tick.
pub(crate) fn track(
    source: &mut dyn EventSource,
    mut tracker: Tracker,
    observe: &mut dyn FnMut(&KernelEvent) -> bool,
    mut each: impl FnMut(Snapshot) -> Result<bool>,
) -> Result<Report> {
    let mut memory = Memory::since(Instant::now());
    loop {
        let mut is_observed = true;
        let more = source.next_tick(&mut |event: &KernelEvent| {
            is_observed = observe(event);
            tracker.apply(event);
            Ok(())
        })?;
        let free = source.free_questions();
        if free > 0 {
            source.ask(tracker.take_unexplained(free));
        }
        let snapshot = tracker.end_tick();
        let listed = snapshot.connections.len();
        let goes_on = each(snapshot)?;
        if memory.is_due(listed, Instant::now()) {
            heap::trim();
        }
        if !more || !goes_on || !is_observed {
            let mut report = tracker.report();
            report.run.cut_short = source.cut_short().map(str::to_owned);
            return Ok(report);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_returned_every_minute_and_when_a_burst_is_over() {
        let start = Instant::now();
        let mut memory = Memory::since(start);
        let mut due = |listed, second| memory.is_due(listed, start + Duration::from_secs(second));
        assert!(!due(LARGE_BURST, 1));
        assert!((2..20).all(|second| !due(0, second)), "no large burst");
        assert!(due(0, 60) && !due(0, 61));
        assert!(!due(LARGE_BURST * 4, 62));
        assert!((63..67).all(|second| !due(10, second)));
        assert!(due(10, 67) && !due(10, 68));
    }
}
