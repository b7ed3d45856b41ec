// SPDX-License-Identifier: MIT OR Apache-2.0
//! `mpwatch record`: traces this machine, writes all events to a file, and prints a report at the end; on a terminal its summary.

use std::sync::Arc;
use std::time::{Duration, Instant};

use mpwatch_engine::tracker::Closed;
use mpwatch_model::series::CounterSeries;

use super::database::Database;
use super::files;
use super::output::{print_report, print_summary};
use crate::cli::RecordOptions;
use crate::recording::{self, Recorder};
use crate::session;
use crate::signals::stop_flag;
use crate::source::EventSource as _;

pub(super) fn run(options: &RecordOptions) -> anyhow::Result<()> {
    let RecordOptions { file, force, seconds, interval, db, report: report_options, filter, trace } = options;
    files::ensure_distinct(&[Some(file), db.as_deref(), report_options.output.as_deref()])?;
    recording::check(file, *force)?;
    filter.warn_about_unknown_namespace();
    let mut live = trace.start(*interval, stop_flag()?)?;
    let mut database = Database::open(db.as_deref(), live.start())?;
    let mut recorder = Recorder::create(file, *force, live.start())?;
    eprintln!("mpwatch: recording to {}; Ctrl-C stops", file.display());
    let end = seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds));
    let report = session::run(&mut live, trace.tracker(Closed::Keep), Some(&mut recorder), |snapshot| {
        if let Some(database) = &mut database {
            database.offer(&Arc::new(snapshot));
        }
        Ok(end.is_none_or(|end| Instant::now() < end))
    })?;
    // The report is printed even if the disk is full.
    let written = recorder.finish();
    let stored = database.map(Database::close).transpose();
    let report = filter.apply_to_report(report);
    if print_summary(&report, report_options)? {
        eprintln!("mpwatch: `mpwatch replay {}` prints everything about each connection", file.display());
    } else {
        print_report(&report, &CounterSeries::new(), report_options)?;
    }
    written?;
    stored?;
    Ok(())
}
