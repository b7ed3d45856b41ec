// SPDX-License-Identifier: MIT OR Apache-2.0
//! Actions on time: pause, step through the history, change the interval.

use std::time::Duration;

use mpwatch_model::metric::{Unit, display};

use crate::state::app::App;
use crate::state::key::Action;
use crate::state::message::Request;
use crate::state::settings::Origin;

/// The intervals that the actions `slower` and `faster` select, in milliseconds.
const INTERVALS: [u64; 9] = [100, 200, 500, 1_000, 2_000, 5_000, 10_000, 30_000, 60_000];

impl App {
    pub(super) fn time(&mut self, action: Action) -> Option<Request> {
        let was_running = self.frozen.is_none();
        match action {
            Action::Pause => {
                self.frozen = if was_running { Some(self.history.latest()) } else { None };
                self.rebuild();
                self.is_replay().then_some(Request::Play(!was_running))
            }
            Action::StepBack => {
                self.frozen = Some(self.tick().saturating_sub(1).max(self.history.oldest()));
                self.rebuild();
                (was_running && self.is_replay()).then_some(Request::Play(false))
            }
            Action::StepForward => {
                let tick = self.tick();
                if tick < self.history.latest() {
                    self.frozen = Some(tick + 1);
                    self.rebuild();
                    return None;
                }
                self.frozen = Some(tick);
                let request = if was_running { Request::Play(false) } else { Request::Step };
                self.is_replay().then_some(request)
            }
            _ => self.change_interval(action == Action::Slower),
        }
    }

    fn change_interval(&mut self, slower: bool) -> Option<Request> {
        if let Origin::Daemon(_) = self.settings.origin {
            self.notify("the daemon sets the interval: see `interval` in its configuration");
            return None;
        }
        let shown = self.snapshot().and_then(|snapshot| snapshot.interval_s).unwrap_or(1.0);
        let current = self.interval.map_or(shown, |interval| interval.as_secs_f64());
        let seconds = |millis: &u64| *millis as f64 / 1e3;
        let next = if slower {
            INTERVALS.iter().find(|millis| seconds(millis) > current * 1.2)
        } else {
            INTERVALS.iter().rev().find(|millis| seconds(millis) < current * 0.8)
        };
        let interval = Duration::from_millis(*next?);
        self.interval = Some(interval);
        let what = if self.is_replay() { "time per snapshot" } else { "interval" };
        self.notify(&format!("{what} {}", display(Unit::Seconds, Some(interval.as_secs_f64()))));
        Some(Request::Interval(interval))
    }
}
