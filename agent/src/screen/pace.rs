// SPDX-License-Identifier: MIT OR Apache-2.0
//! How fast the user of the screen wants snapshots: the interval of tracing, or how a replay goes on.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How soon a signal is noticed.
const PATIENCE: Duration = Duration::from_millis(100);

#[derive(Debug)]
struct Wish {
    interval: Option<Duration>,
    plays: bool,
    steps: u32,
}

/// What the user wishes, shared by the screen and its source.
#[derive(Debug)]
pub(crate) struct Pace {
    wish: Mutex<Wish>,
    changed: Condvar,
    /// Set when the user leaves, or by a signal.
    stop: Arc<AtomicBool>,
}

impl Pace {
    pub(crate) fn new(stop: Arc<AtomicBool>) -> Self {
        let wish = Wish { interval: None, plays: true, steps: 0 };
        Self { wish: Mutex::new(wish), changed: Condvar::new(), stop }
    }

    fn wish(&self) -> MutexGuard<'_, Wish> {
        self.wish.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut Wish)) {
        change(&mut self.wish());
        self.changed.notify_all();
    }

    pub(crate) fn set_interval(&self, interval: Duration) {
        self.change(|wish| wish.interval = Some(interval));
    }

    pub(crate) fn play(&self, plays: bool) {
        self.change(|wish| {
            wish.plays = plays;
            wish.steps = 0;
        });
    }

    pub(crate) fn step(&self) {
        self.change(|wish| wish.steps += 1);
    }

    /// The user leaves.
    pub(crate) fn leave(&self) {
        self.stop.store(true, Ordering::Relaxed);
        self.changed.notify_all();
    }

    fn has_left(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// The interval that was asked for, if any was.
    pub(crate) fn interval(&self) -> Option<Duration> {
        self.wish().interval
    }

    /// Of a replay: waits until the next snapshot is due, usually after this time. False: the user has left.
    pub(crate) fn wait(&self, usual: Duration) -> bool {
        let shown = Instant::now();
        let mut wish = self.wish();
        loop {
            if self.has_left() {
                return false;
            }
            if wish.steps > 0 {
                wish.steps -= 1;
                return true;
            }
            let due = wish.interval.unwrap_or(usual).saturating_sub(shown.elapsed());
            if wish.plays && due.is_zero() {
                return true;
            }
            let patience = if wish.plays { due.min(PATIENCE) } else { PATIENCE };
            wish = self.changed.wait_timeout(wish, patience).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Waits until the user leaves, or for this time; true: the user has left.
    pub(crate) fn wait_for_leave(&self, time: Duration) -> bool {
        let began = Instant::now();
        let mut wish = self.wish();
        while !self.has_left() && began.elapsed() < time {
            let patience = time.saturating_sub(began.elapsed()).min(PATIENCE);
            wish = self.changed.wait_timeout(wish, patience).unwrap_or_else(PoisonError::into_inner).0;
        }
        self.has_left()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replay_that_stands_goes_on_by_steps_only() {
        let pace = Pace::new(Arc::default());
        assert!(pace.wait(Duration::ZERO), "it plays at first");
        pace.play(false);
        pace.step();
        assert!(pace.wait(Duration::from_hours(1)), "a step is due at once");
        pace.set_interval(Duration::ZERO);
        pace.play(true);
        assert!(pace.wait(Duration::from_hours(1)), "the interval that was asked for counts");
        pace.leave();
        assert!(!pace.wait(Duration::ZERO) && pace.wait_for_leave(Duration::from_hours(1)));
    }
}
