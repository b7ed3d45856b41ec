// SPDX-License-Identifier: MIT OR Apache-2.0
//! `mpwatch record` and `mpwatch replay`: the same events, once from the kernel and once from a file, give the same report.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mpwatch_model::series::CounterSeries;

use super::database::Database;
use super::{files, print_line, print_report, trace};
use crate::cli::{ReportOptions, Scope};
use crate::live::stop_on_signals;
use crate::recording::{Recorder, Replay};
use crate::session;
use crate::source::EventSource;
use mpwatch_engine::tracker::Closed;

/// How long to record, and how often to look.
#[derive(Clone, Copy)]
pub(super) struct Limits {
    pub(super) seconds: Option<u64>,
    pub(super) interval: Duration,
}

pub(super) fn record(
    file: &Path,
    limits: Limits,
    db: Option<&Path>,
    options: &ReportOptions,
    scope: &Scope,
) -> anyhow::Result<()> {
    files::distinct(&[Some(file), db, options.output.as_deref()])?;
    let mut live = trace(limits.interval, scope, stop_on_signals()?)?;
    let mut database = Database::open(db, live.start())?;
    let mut recorder = Recorder::create(file, live.start())?;
    eprintln!("mpwatch: recording to {}; Ctrl-C ends it", file.display());
    let end = limits.seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds));
    let report = session::run(&mut live, scope.outlook(Closed::Keep), Some(&mut recorder), |snapshot| {
        if let Some(database) = &mut database {
            database.offer(&Arc::new(snapshot));
        }
        let over = end.is_some_and(|end| Instant::now() >= end);
        Ok(if over { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    })?;
    // A full disk must not cost the report as well.
    let written = recorder.finish();
    let stored = database.map(Database::close).transpose();
    print_report(&scope.narrow_report(report), &CounterSeries::new(), options)?;
    written?;
    stored?;
    Ok(())
}

pub(super) fn replay(
    file: &Path,
    snapshots: bool,
    db: Option<&Path>,
    options: &ReportOptions,
    scope: &Scope,
) -> anyhow::Result<()> {
    files::distinct(&[Some(file), db, options.output.as_deref()])?;
    let mut replay = Replay::open(file)?;
    let mut database = Database::open(db, replay.start())?;
    let report = session::run(&mut replay, scope.outlook(Closed::Keep), None, |snapshot| {
        let snapshot = Arc::new(snapshot);
        if let Some(database) = &mut database {
            database.deliver(&snapshot);
        }
        if snapshots {
            print_line(&scope.narrow(Arc::unwrap_or_clone(snapshot)))?;
        }
        Ok(ControlFlow::Continue(()))
    })?;
    database.map(Database::close).transpose()?;
    if let Some(why) = replay.cut_short() {
        eprintln!("mpwatch: {}: {why}; everything before that is shown", file.display());
    }
    if snapshots {
        Ok(())
    } else {
        print_report(&scope.narrow_report(report), &CounterSeries::new(), options)
    }
}
