// SPDX-License-Identifier: MIT OR Apache-2.0
//! `mpwatch report`: prints a report on a period of a database. The database may be larger than memory.

use anyhow::Context as _;
use jiff::Zoned;
use mpwatch_model::flow::series::CounterSeries;
use mpwatch_model::host::setup::Label;
use mpwatch_model::snapshot::Report;
use mpwatch_store::{Archive, Period, SheetKind};

use super::files;
use super::output::{print_report, write_pieces};
use super::sheet::sheet;
use crate::cli::{FilterOptions, Format, PeriodOptions};
use crate::time_spec::period;

/// Number of connections that are read at once.
const PART: usize = 5_000;
/// Memory that a connection takes in a report and its text, as measured for connections with one subflow.
const BYTES_PER_CONNECTION: usize = 5_000;

pub(super) fn run(options: &PeriodOptions) -> anyhow::Result<()> {
    let period = period(options.since, options.until, &Zoned::now())?;
    files::ensure_distinct(&[Some(&options.db), options.report.output.as_deref()])?;
    let archive = Archive::open(&options.db)?;
    let kind = match options.report.format {
        Format::Csv => SheetKind::Subflows,
        Format::CsvConnections => SheetKind::Connections,
        Format::CsvSamples => SheetKind::Samples,
        _ => {
            let mut series = CounterSeries::new();
            let keep = |samples| series.extend(samples);
            let mut report = whole(&archive, period, None, &options.filter, keep)?;
            (report.run.since, report.run.until) = (period.since, period.until);
            return print_report(&report, &series, &options.report);
        }
    };
    write_pieces(options.report.output.as_deref(), |output| {
        let mut is_first = true;
        archive.parts(period, None, PART, |report, samples| {
            let text = sheet(&options.filter.apply_to_report(report), &samples, kind)?;
            let rows = text.split_once("\r\n").map_or("", |(_, rows)| rows);
            output.write_all(if is_first { &text } else { rows }.as_bytes())?;
            is_first = false;
            Ok(())
        })
    })
}

/// The report on the selected connections of the runs with this label; `None`: of all runs. If they do not fit into half of the available
/// memory, the oldest are omitted. `keep` gets the samples.
pub(super) fn whole(
    archive: &Archive,
    period: Period,
    label: Option<&Label>,
    filter: &FilterOptions,
    mut keep: impl FnMut(CounterSeries),
) -> anyhow::Result<Report> {
    let limit = available_memory().map_or(usize::MAX, |bytes| bytes / 2 / BYTES_PER_CONNECTION);
    let mut connections = Vec::new();
    let (mut last, mut filtered_out, mut left_out) = (None, 0, 0);
    archive.parts(period, label, PART, |report, samples| {
        let mut part = filter.apply_to_report(report);
        connections.append(&mut part.connections);
        keep(samples);
        filtered_out += part.filtered_out;
        last = Some(part);
        if connections.len() > limit {
            left_out += connections.drain(..connections.len() - limit / 2).count();
        }
        anyhow::Ok(())
    })?;
    let mut report = last.context("the database was not read")?.with(connections);
    report.filtered_out = filtered_out;
    if left_out > 0 {
        report.run.cut_short = Some(format!(
            "{left_out} older connections do not fit into memory: select fewer with --filter or --netns (report also has --since, --until and --format csv)"
        ));
    }
    Ok(report)
}

/// Bytes of memory that are available. `None`: unknown.
fn available_memory() -> Option<usize> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix(" kB")?.parse::<usize>().ok().map(|kilobytes| kilobytes << 10)
}
