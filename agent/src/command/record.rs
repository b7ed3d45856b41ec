// SPDX-License-Identifier: MIT OR Apache-2.0
//! `mpwatch record` and `mpwatch replay`: the same events, once from the kernel and once from a file, give the same report.

use std::ops::ControlFlow;
use std::path::Path;
use std::time::{Duration, Instant};

use super::{print_line, print_report, trace};
use crate::cli::{ReportOptions, Scope};
use crate::live::stop_on_signals;
use crate::recording::{Recorder, Replay};
use crate::session;
use crate::source::Source;
use crate::tracker::Closed;

pub(super) fn record(
    file: &Path,
    seconds: Option<u64>,
    interval: Duration,
    options: &ReportOptions,
    scope: &Scope,
) -> anyhow::Result<()> {
    let mut live = trace(interval, scope, stop_on_signals()?)?;
    let mut recorder = Recorder::create(file, live.start())?;
    eprintln!("mpwatch: recording to {}; Ctrl-C ends it", file.display());
    let end = seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds));
    let report = session::run(&mut live, Closed::Keep, Some(&mut recorder), |_| {
        let over = end.is_some_and(|end| Instant::now() >= end);
        Ok(if over { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    })?;
    recorder.finish()?;
    print_report(&scope.narrow_report(report), options.format)
}

pub(super) fn replay(
    file: &Path,
    snapshots: bool,
    options: &ReportOptions,
    scope: &Scope,
) -> anyhow::Result<()> {
    let mut replay = Replay::open(file)?;
    let report = session::run(&mut replay, Closed::Keep, None, |snapshot| {
        if snapshots {
            print_line(&scope.narrow(snapshot))?;
        }
        Ok(ControlFlow::Continue(()))
    })?;
    if replay.is_torn() {
        eprintln!(
            "mpwatch: {} ends abruptly (the recorder was killed?); everything up to its last tick is shown",
            file.display()
        );
    }
    if snapshots { Ok(()) } else { print_report(&scope.narrow_report(report), options.format) }
}
