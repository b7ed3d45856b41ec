// SPDX-License-Identifier: MIT OR Apache-2.0
//! `mpwatch replay --screen`: a recording in the live view, at its own pace, another, or step by step.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::ensure;
use mpwatch_tui::screen::{Link, Origin, Settings};

use super::on_a_terminal;
use crate::cli::Scope;
use crate::live::stop_on_signals;
use crate::recording::Replay;
use crate::screen::{FOREVER, Screen, load_settings};
use crate::session;
use mpwatch_engine::tracker::Closed;

pub(super) fn run(file: &Path, scope: &Scope) -> anyhow::Result<()> {
    ensure!(on_a_terminal(), "--screen needs a terminal; without it the report is printed");
    let stop = stop_on_signals()?;
    let mut replay = Replay::open(file)?;
    let origin = Origin::Replay(file.display().to_string());
    let settings = Settings { origin, ..load_settings()? };
    let screen = Screen::open(settings, Arc::clone(&stop))?;
    let pace = screen.pace();
    let outcome = session::run(&mut replay, scope.outlook(Closed::Forget), None, |snapshot| {
        let usual = Duration::try_from_secs_f64(snapshot.interval_s).unwrap_or_default();
        screen.show(scope.narrow(snapshot));
        Ok(if pace.wait(usual) { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
    });
    if outcome.is_ok() {
        screen.link(Link::Ended);
        pace.wait_for_leave(FOREVER);
    }
    let closed = screen.close();
    outcome.map(drop).and(closed)
}
