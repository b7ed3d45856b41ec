// SPDX-License-Identifier: MIT OR Apache-2.0
//! Writes to standard output and to report files.

use std::fs::File;
use std::io::{self, BufWriter, IsTerminal as _, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::Context as _;
use mpwatch_model::flow::series::CounterSeries;
use mpwatch_model::snapshot::{Report, Snapshot};
use mpwatch_report::json::{self, Layout};
use mpwatch_report::{html, links, markdown, text};
use mpwatch_store::SheetKind;

use super::files::{Content, ensure_distinct};
use super::sheet::sheet;
use crate::cli::{Format, ReportOptions};
use crate::error::Failure;
use crate::screen::is_ascii;

/// Maximum lines of a report on a terminal, enough for a few connections. A longer report is summarized.
const MAX_LINES: usize = 200;

/// Prints a report, or writes it to the file of the options. `series`: counters over time, which some formats show.
pub(super) fn print_report(
    report: &Report,
    series: &CounterSeries,
    options: &ReportOptions,
) -> anyhow::Result<()> {
    let text = match options.format {
        Format::Text if options.output.is_none() && on_a_terminal() => {
            return print_on_terminal(report, options.full);
        }
        Format::Text => text::report(report),
        Format::Markdown => markdown::report(report),
        Format::Html => html::report(report, series),
        Format::Json => {
            return write_pieces(options.output.as_deref(), |mut output| {
                json::write(report, Layout::Pretty, &mut output)?;
                Ok(output.write_all(b"\n")?)
            });
        }
        Format::Csv => sheet(report, series, SheetKind::Subflows)?,
        Format::CsvConnections => sheet(report, series, SheetKind::Connections)?,
        Format::CsvSamples => sheet(report, series, SheetKind::Samples)?,
        Format::Links => links::per_minute(report, series)?,
    };
    write(&text, options.output.as_deref())
}

/// Prints a report on a terminal. A long report is only summarized, unless `full`.
fn print_on_terminal(report: &Report, full: bool) -> anyhow::Result<()> {
    let text = text::report_within(report, terminal_width());
    let lines = text.lines().count();
    if lines <= MAX_LINES {
        return print_table(&text);
    }
    if full {
        return print_paged(&text);
    }
    let summary = text::report_summary(report, terminal_width());
    print_table(&format!(
        "{summary}\nThis is a summary: `mpwatch report --full` and `mpwatch replay --full` print all {lines} lines.\n"
    ))
}

/// Prints text through a pager, or directly if there is none.
fn print_paged(text: &str) -> anyhow::Result<()> {
    let pager = std::env::var("PAGER").unwrap_or_else(|_| "less -FRX".to_owned());
    let Ok(mut child) = Command::new("sh").args(["-c", &pager]).stdin(Stdio::piped()).spawn() else {
        return print_table(text);
    };
    // The user may quit the pager before the end.
    let _ = child.stdin.take().map(|mut input| input.write_all(text.as_bytes()));
    // The shell returns 127 for a command that does not exist.
    if child.wait()?.code() == Some(127) { print_table(text) } else { Ok(()) }
}

pub(super) fn write(text: &str, output: Option<&Path>) -> anyhow::Result<()> {
    let Some(file) = output else { return print(text) };
    ensure_no_data(file)?;
    std::fs::write(file, text).with_context(|| format!("cannot write the report to {}", file.display()))
}

/// Refuses to replace a database or a recording by a report: their content cannot be measured again.
fn ensure_no_data(file: &Path) -> anyhow::Result<()> {
    let what = match Content::read(file) {
        Ok(Content::Database) => "database",
        Ok(Content::Recording) => "recording",
        Ok(Content::Other) | Err(_) => return Ok(()),
    };
    anyhow::bail!("{} is a {what}, which a report does not replace; choose another file", file.display())
}

/// Prints a report or writes it to a file, in either case piece by piece, because the whole text of a long run would take too much memory.
pub(super) fn write_pieces(
    file: Option<&Path>,
    write_to: impl FnOnce(&mut dyn io::Write) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let write = |output: &mut dyn io::Write| -> anyhow::Result<()> {
        let mut output = buffered(output);
        write_to(&mut output)?;
        Ok(output.flush()?)
    };
    let Some(file) = file else { return write(&mut io::stdout().lock()) };
    ensure_no_data(file)?;
    let written = File::create(file).map_err(anyhow::Error::from).and_then(|mut file| write(&mut file));
    written.with_context(|| format!("cannot write the report to {}", file.display()))
}

fn buffered<W: io::Write>(output: W) -> BufWriter<W> {
    BufWriter::with_capacity(64 << 10, output)
}

/// Checks the output files of a command that writes or reads a recording, before the command starts.
pub(super) fn check_outputs(
    recording: &Path,
    database: Option<&Path>,
    options: &ReportOptions,
) -> anyhow::Result<()> {
    if options.format == Format::CsvSamples {
        anyhow::bail!(Failure::usage(
            "only a database has samples: write one with --db FILE, then run mpwatch report --db FILE --format csv-samples",
        ));
    }
    ensure_distinct(&[Some(recording), database, options.output.as_deref()])?;
    options.output.as_deref().map_or(Ok(()), ensure_no_data)
}

/// Width of the terminal in columns; 80 if it is unknown.
pub(super) fn terminal_width() -> usize {
    mpwatch_tui::terminal::size().map_or(80, |(columns, _)| usize::from(columns))
}

/// Columns for a table: the width of the terminal, or no limit.
pub fn table_width() -> usize {
    if on_a_terminal() { terminal_width() } else { usize::MAX }
}

/// Prints text. Unlike `println!`, it fails instead of panicking when the reader has closed the pipe.
pub fn print(text: &str) -> anyhow::Result<()> {
    let mut output = io::stdout().lock();
    output.write_all(text.as_bytes())?;
    if !text.ends_with('\n') {
        output.write_all(b"\n")?;
    }
    Ok(output.flush()?)
}

/// Prints a table, in ASCII on a terminal without UTF-8. Files and pipes always get UTF-8.
pub fn print_table(text: &str) -> anyhow::Result<()> {
    if on_a_terminal() && is_ascii() { print(&mpwatch_tui::ascii(text)) } else { print(text) }
}

/// Prints a snapshot as one line of JSON.
pub(super) fn print_line(snapshot: &Snapshot) -> anyhow::Result<()> {
    let mut output = buffered(io::stdout().lock());
    json::line(snapshot, &mut output)?;
    Ok(output.flush()?)
}

pub(super) fn on_a_terminal() -> bool {
    io::stdout().is_terminal()
}
