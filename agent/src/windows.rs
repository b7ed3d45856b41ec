// SPDX-License-Identifier: MIT OR Apache-2.0
//! When the windows of a sampled ledger open and close: one in each period, at a random time, so that periodic work is met at all its stages.

use std::time::{Duration, Instant};

use mpwatch_ebpf::tracer::{Opening, Tracer};
use mpwatch_model::cpu::LedgerMode;
use mpwatch_model::unit::Nanos;

use crate::energy::ticks;

/// Length of a window: 5 % of the period.
const LENGTH: Duration = Duration::from_millis(50);
/// One window opens in each period, if the budget allows.
pub(crate) const PERIOD: Duration = Duration::from_secs(1);
/// The first windows follow each other faster, so that short runs have figures too.
const FIRST_PERIOD: Duration = Duration::from_millis(250);
const FIRST_WINDOWS: u32 = 4;

/// Result of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// The ledger goes on.
    Ok,
    /// The kernel has refused to attach a program, so the ledger is off from now on.
    Refused,
}

/// What is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Wait,
    Open,
    Close,
}

/// Opens and closes windows.
pub(crate) struct Windows {
    /// When the open window closes, or the next one opens.
    due: Instant,
    /// When the current period ends.
    period_end: Instant,
    /// Length of a period.
    period: Duration,
    is_open: bool,
    opened: u32,
    has_closed: bool,
    /// The tick that the window that is due has waited for.
    waited_for: Option<Instant>,
    /// The latest window could not be opened.
    has_skipped: bool,
    /// The kernel's idle time of all CPUs when the open window opened, and in all windows.
    idle_before: Nanos,
    idle: Nanos,
    random: u32,
}

impl Windows {
    /// The first window is open from the start of tracing. `None`: the ledger is not sampled.
    pub(crate) fn start(tracer: &Tracer, now: Instant) -> Option<Self> {
        (tracer.ledger_mode() == LedgerMode::Sampled).then(|| Self::new(now))
    }

    fn new(now: Instant) -> Self {
        Self {
            due: now + LENGTH,
            period_end: now + FIRST_PERIOD,
            period: PERIOD,
            is_open: true,
            opened: 1,
            has_closed: false,
            waited_for: None,
            has_skipped: false,
            idle_before: ticks::idle_time(),
            idle: Nanos(0),
            random: std::process::id().wrapping_mul(2_654_435_761) | 1,
        }
    }

    /// How long until the next step.
    pub(crate) fn due_in(&self, now: Instant) -> Duration {
        self.due.saturating_duration_since(now)
    }

    /// Whether a window is open. It closes when it is due, also if a tick is overdue.
    pub(crate) fn is_open(&self) -> bool {
        self.is_open
    }

    /// Opens or closes a window if one is due.
    pub(crate) fn step(&mut self, tracer: &mut Tracer, now: Instant, tick: Instant) -> Step {
        match self.next(now, tick) {
            Next::Wait => {}
            Next::Close => {
                self.close(tracer);
                self.plan(now);
            }
            Next::Open => return self.open(tracer, now),
        }
        Step::Ok
    }

    /// A window that would not end before `tick`, which may take long, waits for it, but for one tick only: on a busy machine every tick is
    /// overdue.
    fn next(&mut self, now: Instant, tick: Instant) -> Next {
        if now < self.due {
            return Next::Wait;
        }
        if self.is_open {
            return Next::Close;
        }
        if now + LENGTH > tick && self.waited_for.replace(tick).is_none() {
            self.due = tick.max(now + Duration::from_millis(1));
            return Next::Wait;
        }
        self.waited_for = None;
        Next::Open
    }

    fn open(&mut self, tracer: &mut Tracer, now: Instant) -> Step {
        match tracer.open_window() {
            Opening::Open => {
                (self.is_open, self.due) = (true, Instant::now() + LENGTH);
                self.idle_before = ticks::idle_time();
                self.opened += 1;
                self.has_skipped = false;
            }
            Opening::Skipped => {
                if !std::mem::replace(&mut self.has_skipped, true) {
                    tracing::warn!(
                        "windows of the CPU ledger are skipped: the kernel lacks descriptors or memory"
                    );
                }
                self.plan(now);
            }
            Opening::Refused => return Step::Refused,
        }
        Step::Ok
    }

    /// Closes the window if one is open.
    pub(crate) fn close(&mut self, tracer: &mut Tracer) {
        if self.is_open {
            self.idle += ticks::idle_time().since(self.idle_before);
            tracer.close_window();
            (self.is_open, self.has_closed) = (false, true);
        }
    }

    /// What the kernel counted as idle time of all CPUs in windows that have closed. Its rounding to 10 ms averages out.
    pub(crate) fn idle(&self) -> Nanos {
        self.idle
    }

    /// Whether a window has closed since the last call.
    pub(crate) fn take_closed(&mut self) -> bool {
        std::mem::take(&mut self.has_closed)
    }

    /// Sets the length of a period, from the next one on.
    pub(crate) fn set_period(&mut self, period: Duration) {
        self.period = period;
    }

    /// Plans the next window: at a random time of the next period.
    fn plan(&mut self, now: Instant) {
        let period = if self.opened < FIRST_WINDOWS { FIRST_PERIOD } else { self.period };
        let begin = self.period_end.max(now);
        self.period_end = begin + period;
        self.due = begin + period.saturating_sub(LENGTH).mul_f64(self.next_random());
    }

    /// From 0 to 1: xorshift32, whose quality suffices to be independent of the traffic.
    fn next_random(&mut self) -> f64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 17;
        self.random ^= self.random << 5;
        f64::from(self.random) / f64::from(u32::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_opens_in_every_period_at_a_different_time() {
        let start = Instant::now();
        let mut windows = Windows::new(start);
        windows.opened = FIRST_WINDOWS;
        let (mut offsets, mut end) = (Vec::new(), windows.period_end);
        for _ in 0..100 {
            windows.plan(end);
            let offset = windows.due - end;
            assert!(offset + LENGTH <= PERIOD, "{offset:?}");
            offsets.push(offset.as_secs_f64());
            end = windows.period_end;
        }
        assert_eq!(end - start, FIRST_PERIOD + PERIOD * 100);
        let mean = offsets.iter().sum::<f64>() / 100.0;
        assert!((0.35..0.6).contains(&mean), "{mean}");
    }

    #[test]
    fn windows_open_and_close_also_if_every_tick_is_overdue() {
        let mut now = Instant::now();
        let mut windows = Windows::new(now);
        let mut opened = 0;
        for _ in 0..100 {
            now += PERIOD;
            match windows.next(now, now.checked_sub(PERIOD).unwrap()) {
                Next::Wait => {}
                Next::Open => {
                    (windows.is_open, windows.due) = (true, now + LENGTH);
                    opened += 1;
                }
                Next::Close => {
                    windows.is_open = false;
                    windows.plan(now);
                }
            }
        }
        assert!(opened >= 20, "{opened}");
    }
}
