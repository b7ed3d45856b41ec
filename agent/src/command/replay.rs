// SPDX-License-Identifier: MIT OR Apache-2.0
//! `mpwatch replay`: a recording as the report that `record` printed, as snapshots, or in the live view at any pace.

use std::sync::Arc;
use std::time::Duration;

use anyhow::ensure;
use mpwatch_engine::tracker::Closed;
use mpwatch_model::series::CounterSeries;
use mpwatch_tui::screen::{Link, Origin, Settings};

use super::database::Database;
use super::files;
use super::output::{on_a_terminal, print_line, print_report};
use crate::cli::ReplayOptions;
use crate::recording::Replay;
use crate::screen::{FOREVER, Screen, ensure_cursor, load_settings};
use crate::session::{self, TrackerSettings};
use crate::signals::stop_flag;
use crate::source::EventSource as _;

pub(super) fn run(options: &ReplayOptions) -> anyhow::Result<()> {
    if options.screen { show(options) } else { print(options) }
}

fn tracker(options: &ReplayOptions, closed: Closed) -> TrackerSettings {
    TrackerSettings { closed, method: options.method.unwrap_or_default() }
}

fn print(options: &ReplayOptions) -> anyhow::Result<()> {
    let ReplayOptions { file, db, filter, .. } = options;
    files::ensure_distinct(&[Some(file), db.as_deref(), options.report.output.as_deref()])?;
    let mut replay = Replay::open(file)?;
    let mut database = Database::open(db.as_deref(), replay.start())?;
    let report = session::run(&mut replay, tracker(options, Closed::Keep), None, |snapshot| {
        let snapshot = Arc::new(snapshot);
        if let Some(database) = &mut database {
            database.deliver(&snapshot);
        }
        if options.snapshots {
            print_line(&filter.apply(Arc::unwrap_or_clone(snapshot)))?;
        }
        Ok(true)
    })?;
    database.map(Database::close).transpose()?;
    if let Some(reason) = replay.cut_short() {
        eprintln!("mpwatch: {}: {reason}; the output has everything before that", file.display());
    }
    if options.snapshots {
        return Ok(());
    }
    print_report(&filter.apply_to_report(report), &CounterSeries::new(), &options.report)
}

fn show(options: &ReplayOptions) -> anyhow::Result<()> {
    ensure!(on_a_terminal(), "--screen needs a terminal; omit it to print the report");
    ensure_cursor("mpwatch replay without --screen")?;
    let stop = stop_flag()?;
    let mut replay = Replay::open(&options.file)?;
    let origin = Origin::Replay(options.file.display().to_string());
    let screen = Screen::open(Settings { origin, ..load_settings()? }, Arc::clone(&stop))?;
    let pace = screen.pace();
    let outcome = session::run(&mut replay, tracker(options, Closed::Forget), None, |snapshot| {
        let recorded = Duration::try_from_secs_f64(snapshot.interval_s).unwrap_or_default();
        screen.show(options.filter.apply(snapshot));
        Ok(pace.wait_for_next(recorded))
    });
    if outcome.is_ok() {
        screen.set_link(Link::Ended);
        pace.wait_for_quit(FOREVER);
    }
    let closed = screen.close();
    outcome.map(drop).and(closed)
}
