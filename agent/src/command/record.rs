// SPDX-License-Identifier: MIT OR Apache-2.0
//! `mpwatch record`: traces this machine, writes all events to a file, and prints a report at the end.

use std::sync::Arc;
use std::time::{Duration, Instant};

use mpwatch_engine::tracker::Closed;
use mpwatch_model::flow::series::SeriesCollector;

use super::database::Database;
use super::live_view::DEFAULT_INTERVAL;
use super::output::{check_outputs, print_report};
use super::trace::{describe, interval, labels_by_name};
use crate::cli::{Format, RecordOptions};
use crate::live::recording::{self, Recorder};
use crate::live::session::{self, TrackerSettings};
use crate::system::stop_flag;

pub(super) fn run(options: &RecordOptions) -> anyhow::Result<()> {
    let RecordOptions { file, force, seconds, store, label, report: report_options, filter, trace, .. } =
        options;
    let interval = interval(options.interval, DEFAULT_INTERVAL, store.samples)?;
    let labels = labels_by_name(&label.labels)?;
    check_outputs(file, store.db.as_deref(), report_options)?;
    recording::check(file, *force)?;
    filter.ensure_namespace()?;
    let mut live = trace.start(interval, stop_flag()?)?;
    describe(&mut live, labels, filter.netns.as_deref());
    let mut database = Database::open(store.db.as_deref(), store.samples, &live.start)?;
    let mut recorder = Recorder::create(file, *force, &live.start)?;
    eprintln!("mpwatch: recording to {}; Ctrl-C stops", file.display());
    let end = seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds));
    let mut series = SeriesCollector::default();
    let report = session::run_selecting(
        &mut live,
        TrackerSettings::new(Closed::Keep, trace.method),
        Some(&mut recorder),
        filter.selection(),
        |snapshot| {
            if report_options.format == Format::Html {
                series.add(&snapshot);
            }
            database.offer(&Arc::new(snapshot));
            Ok(end.is_none_or(|end| Instant::now() < end))
        },
    )?;
    // The report is printed even if the disk is full.
    let written = recorder.finish();
    let stored = database.close(None);
    let report = filter.apply_to_report(report);
    print_report(&report, &series.finish(), report_options)?;
    if let (Err(_), Err(error)) = (&written, &stored) {
        eprintln!("mpwatch: {error:#}");
    }
    written?;
    stored
}
