// SPDX-License-Identifier: MIT OR Apache-2.0
//! Standard output and report files.

use std::io::{self, BufWriter, IsTerminal as _, Write as _};

use anyhow::Context as _;
use mpwatch_exporters::json::{self, Layout};
use mpwatch_exporters::{csv, html, links, markdown, text};
use mpwatch_model::series::CounterSeries;
use mpwatch_model::snapshot::{Report, Snapshot};

use crate::cli::{Format, ReportOptions};

/// Prints a report, or writes it to the file of the options. `series`: counters over time for drawings; only a database has them.
pub(super) fn print_report(
    report: &Report,
    series: &CounterSeries,
    options: &ReportOptions,
) -> anyhow::Result<()> {
    let text = match options.format {
        Format::Text => text::report(report),
        Format::Markdown => markdown::report(report),
        Format::Html => html::report(report, series),
        Format::Json => json::text(report, Layout::Pretty)?,
        Format::Csv => csv::list(&report.connections)?,
        Format::Links => links::per_minute(report, series)?,
    };
    match &options.output {
        None => print(&text),
        Some(file) => std::fs::write(file, text)
            .with_context(|| format!("cannot write the report to {}", file.display())),
    }
}

/// Prints text. Unlike `println!`, it fails instead of panicking when the reader has closed the pipe.
pub(super) fn print(text: &str) -> anyhow::Result<()> {
    let mut output = io::stdout().lock();
    output.write_all(text.as_bytes())?;
    if !text.ends_with('\n') {
        output.write_all(b"\n")?;
    }
    Ok(output.flush()?)
}

/// Prints a snapshot as one line of JSON.
pub(super) fn print_line(snapshot: &Snapshot) -> anyhow::Result<()> {
    let mut output = BufWriter::with_capacity(64 << 10, io::stdout().lock());
    json::line(snapshot, &mut output)?;
    Ok(output.flush()?)
}

pub(super) fn on_a_terminal() -> bool {
    io::stdout().is_terminal()
}
