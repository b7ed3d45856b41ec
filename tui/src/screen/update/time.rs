// SPDX-License-Identifier: MIT OR Apache-2.0
//! Time on the screen: freezing, stepping through what was, the interval.

use std::time::Duration;

use mpwatch_model::metric::{Unit, display};

use super::super::app::{App, Origin, Request};
use super::super::key::Action;

/// Intervals that the two keys go through, milliseconds.
const INTERVALS: [u64; 9] = [100, 200, 500, 1_000, 2_000, 5_000, 10_000, 30_000, 60_000];

impl App {
    pub(super) fn time(&mut self, action: Action) -> Option<Request> {
        match action {
            Action::Pause => {
                self.frozen = if self.frozen.is_some() { None } else { Some(self.history.latest()) };
                self.rebuild();
                let plays = self.frozen.is_none();
                self.is_replay().then_some(Request::Play(plays))
            }
            Action::StepBack => {
                let was_running = self.frozen.is_none();
                let turn = self.turn().saturating_sub(1).max(self.history.oldest());
                self.frozen = Some(turn);
                self.rebuild();
                (was_running && self.is_replay()).then_some(Request::Play(false))
            }
            Action::StepForward => {
                let turn = self.turn();
                let was_running = self.frozen.is_none();
                if turn < self.history.latest() {
                    self.frozen = Some(turn + 1);
                    self.rebuild();
                    return None;
                }
                self.frozen = Some(turn);
                match (self.is_replay(), was_running) {
                    (true, true) => Some(Request::Play(false)),
                    (true, false) => Some(Request::Step),
                    (false, _) => None,
                }
            }
            _ => self.pace(action == Action::Slower),
        }
    }

    fn pace(&mut self, slower: bool) -> Option<Request> {
        if let Origin::Daemon(_) = self.settings.origin {
            self.say("the interval is the daemon's: set `interval` in its configuration");
            return None;
        }
        let shown = self.snapshot().map_or(1.0, |snapshot| snapshot.interval_s);
        let current = self.interval.map_or(shown, |interval| interval.as_secs_f64());
        let millis = |place: &u64| *place as f64 / 1e3;
        let next = if slower {
            INTERVALS.iter().find(|place| millis(place) > current * 1.2)
        } else {
            INTERVALS.iter().rev().find(|place| millis(place) < current * 0.8)
        };
        let interval = Duration::from_millis(*next?);
        self.interval = Some(interval);
        let what = if self.is_replay() { "a snapshot is shown for" } else { "interval" };
        self.say(&format!("{what} {}", display(Unit::Seconds, Some(interval.as_secs_f64()))));
        Some(Request::Interval(interval))
    }
}
