// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the user of the live view asks of its source: another interval of tracing, pause and steps of a replay, or the end.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::lock::lock;

/// How often the stop flag is checked: a signal cannot wake the condition variable.
const STOP_CHECK_INTERVAL: Duration = Duration::from_millis(100);

#[derive(Debug, Default)]
struct Request {
    interval: Option<Duration>,
    is_paused: bool,
    steps: u32,
}

/// Shared by the live view and its source.
#[derive(Debug)]
pub(crate) struct Pace {
    request: Mutex<Request>,
    changed: Condvar,
    /// Set when the user quits, or by a signal.
    stop: Arc<AtomicBool>,
}

impl Pace {
    pub(crate) fn new(stop: Arc<AtomicBool>) -> Self {
        Self { request: Mutex::default(), changed: Condvar::new(), stop }
    }

    fn change(&self, change: impl FnOnce(&mut Request)) {
        change(&mut lock(&self.request));
        self.changed.notify_all();
    }

    pub(crate) fn set_interval(&self, interval: Duration) {
        self.change(|request| request.interval = Some(interval));
    }

    pub(crate) fn play(&self, plays: bool) {
        self.change(|request| (request.is_paused, request.steps) = (!plays, 0));
    }

    pub(crate) fn step(&self) {
        self.change(|request| request.steps += 1);
    }

    pub(crate) fn quit(&self) {
        self.stop.store(true, Ordering::Relaxed);
        self.changed.notify_all();
    }

    pub(crate) fn has_quit(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// The requested interval. `None`: the user has not changed it.
    pub(crate) fn interval(&self) -> Option<Duration> {
        lock(&self.request).interval
    }

    /// Waits until the next snapshot of a replay is due, after `recorded` unless the user asked for another interval.
    /// `false`: the user has quit.
    pub(crate) fn wait_for_next(&self, recorded: Duration) -> bool {
        let shown = Instant::now();
        let mut request = lock(&self.request);
        loop {
            if self.has_quit() {
                return false;
            }
            if request.steps > 0 {
                request.steps -= 1;
                return true;
            }
            let left = request.interval.unwrap_or(recorded).saturating_sub(shown.elapsed());
            if !request.is_paused && left.is_zero() {
                return true;
            }
            let timeout = if request.is_paused { Duration::MAX } else { left };
            request = self.wait(request, timeout);
        }
    }

    /// Waits for this time. `true`: the user has quit.
    pub(crate) fn wait_for_quit(&self, time: Duration) -> bool {
        let began = Instant::now();
        let mut request = lock(&self.request);
        while !self.has_quit() && began.elapsed() < time {
            request = self.wait(request, time.saturating_sub(began.elapsed()));
        }
        self.has_quit()
    }

    fn wait<'a>(&self, request: MutexGuard<'a, Request>, timeout: Duration) -> MutexGuard<'a, Request> {
        let timeout = timeout.min(STOP_CHECK_INTERVAL);
        self.changed.wait_timeout(request, timeout).unwrap_or_else(PoisonError::into_inner).0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_paused_replay_advances_by_steps_only() {
        let pace = Pace::new(Arc::default());
        assert!(pace.wait_for_next(Duration::ZERO), "it plays at first");
        pace.play(false);
        pace.step();
        assert!(pace.wait_for_next(Duration::from_hours(1)), "a step is due at once");
        pace.set_interval(Duration::ZERO);
        pace.play(true);
        assert!(pace.wait_for_next(Duration::from_hours(1)), "the requested interval counts");
        pace.quit();
        assert!(!pace.wait_for_next(Duration::ZERO) && pace.wait_for_quit(Duration::from_hours(1)));
    }
}
