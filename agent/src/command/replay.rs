// SPDX-License-Identifier: MIT OR Apache-2.0
//! `mpwatch replay`: prints the report or the snapshots of a recording, or shows it in the live view at any pace.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{bail, ensure};
use mpwatch_engine::tracker::Closed;
use mpwatch_model::flow::series::SeriesCollector;
use mpwatch_tui::screen::{Link, Origin, Settings};

use super::database::Database;
use super::output::{check_outputs, on_a_terminal, print_line, print_report};
use crate::cli::{Format, ReplayOptions};
use crate::live::recording::Replay;
use crate::live::session::{self, TrackerSettings};
use crate::live::source::EventSource as _;
use crate::screen::{FOREVER, Screen, ensure_cursor, load_settings};
use crate::system::stop_flag;

pub(super) fn run(options: &ReplayOptions) -> anyhow::Result<()> {
    if options.screen { show(options) } else { print(options) }
}

fn print(options: &ReplayOptions) -> anyhow::Result<()> {
    let ReplayOptions { file, store, filter, .. } = options;
    check_outputs(file, store.db.as_deref(), &options.report)?;
    let mut replay = Replay::open(file)?;
    let mut database = Database::open(store.db.as_deref(), store.samples, replay.start())?;
    let mut series = SeriesCollector::default();
    let settings = TrackerSettings::new(Closed::Keep, options.method);
    let report = session::run_selecting(&mut replay, settings, None, filter.selection(), |snapshot| {
        if options.report.format == Format::Html {
            series.add(&snapshot);
        }
        let snapshot = Arc::new(snapshot);
        database.deliver(&snapshot);
        if options.snapshots {
            print_line(&filter.apply(Arc::unwrap_or_clone(snapshot)))?;
        }
        Ok(true)
    })?;
    database.close(replay.cut_short())?;
    if !options.snapshots {
        print_report(&filter.apply_to_report(report), &series.finish(), &options.report)?;
    }
    ensure_complete(file, &replay)
}

/// Fails if the recording ended too early, so that scripts notice. The part before the damage has been shown.
fn ensure_complete(file: &Path, replay: &Replay) -> anyhow::Result<()> {
    match replay.cut_short() {
        None => Ok(()),
        Some(reason) => bail!("{}: {reason}; the output has everything before that", file.display()),
    }
}

fn show(options: &ReplayOptions) -> anyhow::Result<()> {
    ensure!(on_a_terminal(), "--screen needs a terminal; omit it to print the report");
    ensure_cursor("mpwatch replay without --screen")?;
    let stop = stop_flag()?;
    let mut replay = Replay::open(&options.file)?;
    let origin = Origin::Replay(options.file.display().to_string());
    let screen = Screen::open(Settings { origin, ..load_settings()? }, Arc::clone(&stop))?;
    let playback = Arc::clone(&screen.playback);
    let outcome =
        session::run(&mut replay, TrackerSettings::new(Closed::Forget, options.method), None, |snapshot| {
            let recorded =
                Duration::try_from_secs_f64(snapshot.interval_s.unwrap_or(0.0)).unwrap_or_default();
            screen.show(options.filter.apply(snapshot));
            Ok(playback.wait_for_next(recorded))
        });
    if outcome.is_ok() {
        screen.set_link(Link::Ended);
        playback.wait_for_quit(FOREVER);
    }
    let closed = screen.close();
    outcome.map(drop).and(closed)?;
    ensure_complete(&options.file, &replay)
}
