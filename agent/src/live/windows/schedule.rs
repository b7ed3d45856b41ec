// SPDX-License-Identifier: MIT OR Apache-2.0
//! Decides when windows of a sampled ledger open and close: at most one per period, at a random time, so that periodic work is sampled at
//! all its stages. An open window slows down every process of the machine, but without windows the CPU time of flows is only estimated. So
//! the next window opens once flows have used enough CPU time since the latest window.

use std::time::{Duration, Instant};

use mpwatch_ebpf::tracer::FlowWork;
use mpwatch_model::unit::Nanos;

/// Length of a window: 5 % of the period.
pub(super) const LENGTH: Duration = Duration::from_millis(50);
/// At most one window opens in each period, if the budget allows.
pub(crate) const PERIOD: Duration = Duration::from_secs(1);
/// Period of the first windows, which is shorter, so that short runs have figures too.
pub(super) const FIRST_PERIOD: Duration = Duration::from_millis(250);
pub(super) const FIRST_WINDOWS: u32 = 4;
/// A new window opens after flows have used this much CPU time: 25 windows for each CPU second, because each has an error of 10 % or more.
const TIME_PER_WINDOW: Nanos = Nanos(40_000_000);
/// A window is due after this time in any case, because windows also measure the work of applications and interrupts.
const MAX_GAP: Duration = Duration::from_secs(16);
/// Time between two decisions whether a window is due.
const DECISION_INTERVAL: Duration = Duration::from_millis(50);
/// Assumed CPU time per work unit before the first measurement, nanoseconds, and the weight of that assumption in work units.
const ASSUMED_TIME: f64 = 100.0;
const ASSUMED_WEIGHT: f64 = 10_000.0;

/// Estimated CPU time of flows between two readings: their work multiplied by the CPU time per work unit that windows measured.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a time, never negative")]
pub(super) fn estimated_time(before: FlowWork, now: FlowWork) -> Nanos {
    let per_unit = (now.time_in_windows.0 as f64 + ASSUMED_TIME * ASSUMED_WEIGHT)
        / (now.in_windows as f64 + ASSUMED_WEIGHT);
    Nanos((now.all.saturating_sub(before.all) as f64 * per_unit) as u64)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    Wait,
    /// [`Schedule::decide`] is due.
    Decide,
    Open,
    Close,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// No window is due.
    Idle,
    Planned,
    Open,
}

#[derive(Debug)]
pub(crate) struct Schedule {
    phase: Phase,
    /// When the open window closes, the planned window opens, or the next decision is due.
    due: Instant,
    /// When the latest window closed.
    closed: Instant,
    /// End of the current period.
    period_end: Instant,
    /// Length of the periods that begin from now on.
    pub(crate) period: Duration,
    /// Number of windows so far.
    opened: u32,
    /// The tick for which a due window waits. `None`: no window waits.
    waited_for: Option<Instant>,
    random: u32,
}

impl Schedule {
    /// The first window is open.
    pub(super) fn new(now: Instant, seed: u32) -> Self {
        Self {
            phase: Phase::Open,
            due: now + LENGTH,
            closed: now,
            period_end: now + FIRST_PERIOD,
            period: PERIOD,
            opened: 1,
            waited_for: None,
            random: seed.wrapping_mul(2_654_435_761) | 1,
        }
    }

    /// Time until the next step.
    pub(crate) fn due_in(&self, now: Instant) -> Duration {
        self.due.saturating_duration_since(now)
    }

    /// Whether a window is open. It closes when due, even if a tick is overdue.
    pub(crate) fn is_open(&self) -> bool {
        self.phase == Phase::Open
    }

    /// The next step. A window that would not end before `tick` opens after it, because a tick may take long. A window waits for one tick
    /// only, because on a busy machine every tick is overdue.
    pub(super) fn next(&mut self, now: Instant, tick: Instant) -> Next {
        if now < self.due {
            return Next::Wait;
        }
        match self.phase {
            Phase::Open => return Next::Close,
            Phase::Idle => return Next::Decide,
            Phase::Planned => {}
        }
        if now + LENGTH > tick && self.waited_for.replace(tick).is_none() {
            self.due = tick.max(now + Duration::from_millis(1));
            return Next::Wait;
        }
        self.waited_for = None;
        Next::Open
    }

    /// Plans a window if it is due. `used`: estimated CPU time of flows since the latest window. `is_first`: the first flows have begun, so
    /// windows follow each other as fast as at the start.
    pub(super) fn decide(&mut self, now: Instant, used: Nanos, is_first: bool) {
        let since = now.saturating_duration_since(self.closed);
        if is_first {
            self.opened = self.opened.min(FIRST_WINDOWS - 1);
        }
        if self.opened < FIRST_WINDOWS || used >= TIME_PER_WINDOW || since >= MAX_GAP {
            self.plan(now);
        } else {
            self.due = now + DECISION_INTERVAL;
        }
    }

    /// Plans the next window: at a random time of the next period.
    pub(super) fn plan(&mut self, now: Instant) {
        let period = if self.opened < FIRST_WINDOWS { FIRST_PERIOD } else { self.period };
        let begin = self.period_end.max(now);
        self.period_end = begin + period;
        self.due = begin + period.saturating_sub(LENGTH).mul_f64(self.next_random());
        self.phase = Phase::Planned;
    }

    pub(super) fn note_opened(&mut self, now: Instant) {
        (self.phase, self.due) = (Phase::Open, now + LENGTH);
        self.opened += 1;
    }

    pub(super) fn note_closed(&mut self, now: Instant) {
        (self.phase, self.due, self.closed) = (Phase::Idle, now, now);
    }

    /// A number from 0 to 1, by xorshift32: random enough to be independent of the traffic.
    fn next_random(&mut self) -> f64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 17;
        self.random ^= self.random << 5;
        f64::from(self.random) / f64::from(u32::MAX)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a test")]

    use super::*;

    const STEP: Duration = Duration::from_millis(10);
    const MINUTE: Duration = Duration::from_mins(1);

    /// Times from the start at which windows open within ten minutes, for flows that use `share` of a CPU all the time.
    fn opened(share: f64, period: Duration) -> Vec<Duration> {
        let start = Instant::now();
        let (mut schedule, mut opened) = (Schedule::new(start, 7), Vec::new());
        schedule.opened = FIRST_WINDOWS;
        schedule.period = period;
        let mut now = start;
        while now < start + 10 * MINUTE {
            now += STEP;
            match schedule.next(now, now + MINUTE) {
                Next::Wait => {}
                Next::Decide => {
                    let since = (now - schedule.closed).as_nanos() as f64;
                    schedule.decide(now, Nanos((since * share) as u64), false);
                }
                Next::Open => {
                    opened.push(now - start);
                    schedule.note_opened(now);
                }
                Next::Close => schedule.note_closed(now),
            }
        }
        opened
    }

    #[test]
    fn the_number_of_windows_follows_the_cpu_time_of_flows() {
        // Columns: share of a CPU, period, least and most windows per minute.
        let table = [
            (0.0, PERIOD, 3.4, 3.8),
            (0.000_5, PERIOD, 3.4, 3.8),
            (0.01, PERIOD, 12.0, 15.0),
            (0.02, PERIOD, 22.0, 26.0),
            (0.06, PERIOD, 44.0, 51.0),
            (0.3, PERIOD, 58.0, 61.0),
            (2.0, PERIOD, 59.0, 61.0),
            (0.01, 4 * PERIOD, 8.0, 11.0),
            (2.0, 4 * PERIOD, 14.5, 15.5),
            (2.0, 16 * PERIOD, 3.4, 4.0),
        ];
        for (share, period, least, most) in table {
            let per_minute = opened(share, period).len() as f64 / 10.0;
            assert!((least..=most).contains(&per_minute), "{share} of a CPU, {period:?}: {per_minute}");
        }
    }

    #[test]
    fn windows_open_at_random_times_of_a_period() {
        let times = opened(2.0, PERIOD);
        let offset = |time: &Duration| (time.as_secs_f64() - FIRST_PERIOD.as_secs_f64()).fract();
        let offsets: Vec<f64> = times.iter().map(offset).collect();
        let mean = offsets.iter().sum::<f64>() / offsets.len() as f64;
        assert!((0.4..0.56).contains(&mean), "{mean}");
        for quarter in 0..4 {
            let within = offsets.iter().filter(|offset| (**offset * 4.0) as u32 == quarter).count();
            assert!(within * 6 > offsets.len(), "{within} of {} in quarter {quarter}", offsets.len());
        }
    }

    #[test]
    fn a_flow_that_begins_after_a_quiet_hour_is_sampled_within_two_seconds() {
        let start = Instant::now();
        let mut schedule = Schedule::new(start, 3);
        schedule.opened = FIRST_WINDOWS;
        let now = start + Duration::from_hours(1);
        schedule.note_closed(now);
        schedule.decide(now + PERIOD, Nanos(0), false);
        assert_eq!(schedule.next(now + PERIOD, now + MINUTE), Next::Wait);
        schedule.decide(now + 2 * PERIOD, TIME_PER_WINDOW, false);
        assert!(schedule.due_in(now + 2 * PERIOD) <= PERIOD);
    }

    #[test]
    fn a_window_opens_at_the_first_flow() {
        let start = Instant::now();
        let mut schedule = Schedule::new(start, 3);
        schedule.opened = 10;
        schedule.period = 16 * PERIOD;
        let now = start + 3 * PERIOD;
        schedule.note_closed(now);
        schedule.decide(now, Nanos(1_000), true);
        assert!(schedule.due_in(now) <= FIRST_PERIOD, "{:?}", schedule.due_in(now));
    }

    #[test]
    fn work_is_converted_to_time_by_windows() {
        let work = |all, in_windows, time| FlowWork { all, in_windows, time_in_windows: Nanos(time) };
        assert_eq!(estimated_time(work(0, 0, 0), work(1_000, 0, 0)), Nanos(100_000), "nothing measured yet");
        let measured = work(40_000_000, 1_000_000, 300_000_000);
        let probable = estimated_time(work(39_000_000, 0, 0), measured).0;
        assert!(probable.abs_diff(300_000_000) < 3_000_000, "{probable}");
    }

    #[test]
    fn windows_open_and_close_also_if_every_tick_is_overdue() {
        let mut now = Instant::now();
        let mut schedule = Schedule::new(now, 1);
        let mut opened = 0;
        for _ in 0..100 {
            now += PERIOD;
            match schedule.next(now, now.checked_sub(PERIOD).unwrap()) {
                Next::Wait => {}
                Next::Decide => schedule.decide(now, TIME_PER_WINDOW, false),
                Next::Open => {
                    schedule.note_opened(now);
                    opened += 1;
                }
                Next::Close => schedule.note_closed(now),
            }
        }
        assert!(opened >= 20, "{opened}");
    }
}
