// SPDX-License-Identifier: MIT OR Apache-2.0
//! `mpwatch replay --screen`: a recording in the live view, at its own pace, another, or step by step.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use anyhow::ensure;
use mpwatch_tui::screen::{Link, Origin, Settings};

use super::on_a_terminal;
use super::record::Judged;
use crate::cli::Scope;
use crate::live::stop_on_signals;
use crate::recording::Replay;
use crate::screen::{FOREVER, Screen, load_settings};
use crate::session;
use crate::source::Source as _;
use crate::tracker::{Closed, Tracker};

pub(super) fn run(judged: Judged<'_>, scope: &Scope) -> anyhow::Result<()> {
    ensure!(on_a_terminal(), "--screen needs a terminal; without it the report is printed");
    let stop = stop_on_signals()?;
    let mut replay = Replay::open(judged.file)?;
    let origin = Origin::Replay(judged.file.display().to_string());
    let settings = Settings { origin, ..load_settings()? };
    let screen = Screen::open(settings, Arc::clone(&stop))?;
    let pace = screen.pace();
    let tracker = Tracker::new(replay.start().clone(), Closed::Forget).with_method(judged.method);
    let outcome = session::run_with(tracker, &mut replay, None, |snapshot| {
        let usual = Duration::try_from_secs_f64(snapshot.interval_s).unwrap_or_default();
        screen.show(Arc::new(scope.narrow(snapshot)));
        Ok(if pace.wait(usual) { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
    });
    if outcome.is_ok() {
        screen.link(Link::Ended);
        pace.wait_for_leave(FOREVER);
    }
    let closed = screen.close();
    outcome.map(drop).and(closed)
}
