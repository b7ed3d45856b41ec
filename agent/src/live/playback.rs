// SPDX-License-Identifier: MIT OR Apache-2.0
//! Requests of the live view's user to the source of its snapshots: interval, pause and steps of a replay, and the end.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::system::lock;

/// Time between two checks of the stop flag: a signal cannot wake the condition variable.
const STOP_CHECK_INTERVAL: Duration = Duration::from_millis(100);

#[derive(Debug, Default)]
struct Requests {
    interval: Option<Duration>,
    is_paused: bool,
    steps: u32,
}

/// Shared by the live view and the source of its snapshots.
#[derive(Debug)]
pub(crate) struct Playback {
    requests: Mutex<Requests>,
    changed: Condvar,
    /// Set when the user quits, or by a signal.
    stop: Arc<AtomicBool>,
}

impl Playback {
    pub(crate) fn new(stop: Arc<AtomicBool>) -> Self {
        Self { requests: Mutex::default(), changed: Condvar::new(), stop }
    }

    fn change(&self, change: impl FnOnce(&mut Requests)) {
        change(&mut lock(&self.requests));
        self.changed.notify_all();
    }

    pub(crate) fn set_interval(&self, interval: Duration) {
        self.change(|requests| requests.interval = Some(interval));
    }

    pub(crate) fn play(&self, plays: bool) {
        self.change(|requests| (requests.is_paused, requests.steps) = (!plays, 0));
    }

    pub(crate) fn step(&self) {
        self.change(|requests| requests.steps += 1);
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
        lock(&self.requests).interval
    }

    /// Waits until the next snapshot of a replay is due: after the user's interval, else after `recorded`. `false`: the user has quit.
    pub(crate) fn wait_for_next(&self, recorded: Duration) -> bool {
        let shown = Instant::now();
        let mut requests = lock(&self.requests);
        loop {
            if self.has_quit() {
                return false;
            }
            if requests.steps > 0 {
                requests.steps -= 1;
                return true;
            }
            let left = requests.interval.unwrap_or(recorded).saturating_sub(shown.elapsed());
            if !requests.is_paused && left.is_zero() {
                return true;
            }
            let timeout = if requests.is_paused { Duration::MAX } else { left };
            requests = self.wait(requests, timeout);
        }
    }

    /// Waits for this time, or until the user quits. `true`: the user has quit.
    pub(crate) fn wait_for_quit(&self, time: Duration) -> bool {
        let began = Instant::now();
        let mut requests = lock(&self.requests);
        while !self.has_quit() && began.elapsed() < time {
            requests = self.wait(requests, time.saturating_sub(began.elapsed()));
        }
        self.has_quit()
    }

    fn wait<'a>(&self, requests: MutexGuard<'a, Requests>, timeout: Duration) -> MutexGuard<'a, Requests> {
        let timeout = timeout.min(STOP_CHECK_INTERVAL);
        self.changed.wait_timeout(requests, timeout).unwrap_or_else(PoisonError::into_inner).0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_paused_replay_advances_by_steps_only() {
        let playback = Playback::new(Arc::default());
        assert!(playback.wait_for_next(Duration::ZERO), "a new replay plays");
        playback.play(false);
        playback.step();
        assert!(playback.wait_for_next(Duration::from_hours(1)), "a step is due at once");
        playback.set_interval(Duration::ZERO);
        playback.play(true);
        assert!(playback.wait_for_next(Duration::from_hours(1)), "the requested interval applies");
        playback.quit();
        assert!(!playback.wait_for_next(Duration::ZERO) && playback.wait_for_quit(Duration::from_hours(1)));
    }
}
