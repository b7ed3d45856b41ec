// SPDX-License-Identifier: MIT OR Apache-2.0
//! `mpwatch compare`: the connections of two files, or two kinds of connections of one file, side by side.

use std::path::Path;

use anyhow::{Context as _, bail, ensure};
use jiff::Zoned;
use mpwatch_engine::tracker::Closed;
use mpwatch_model::flow::connection::Connection;
use mpwatch_model::host::setup::Label;
use mpwatch_model::kernel::lifecycle::CarriedBy;
use mpwatch_model::snapshot::Report;
use mpwatch_report::comparison::{Comparison, Side};
use mpwatch_report::json::{self, Layout};
use mpwatch_report::{html, text};
use mpwatch_store::{Archive, Period};

use super::files::{self, Content};
use super::output::{on_a_terminal, print_table, terminal_width, write};
use crate::cli::{CompareBy, CompareFormat, CompareOptions};
use crate::error::Failure;
use crate::live::recording::Replay;
use crate::live::session::{self, TrackerSettings};

/// One of the two sets of connections.
struct Selected {
    name: String,
    report: Report,
}

impl Selected {
    fn side(&self) -> Side<'_> {
        Side { name: &self.name, report: &self.report }
    }
}

pub(super) fn run(options: &CompareOptions) -> anyhow::Result<()> {
    let CompareOptions { a, b, output, .. } = options;
    ensure!(
        !b.as_deref().is_some_and(|b| files::is_same(a, b)),
        "A and B are the same file, {}: use --by protocol, two --label or --split TIME to compare parts of it",
        a.display()
    );
    files::ensure_distinct(&[Some(a), b.as_deref(), output.as_deref()])?;
    let [a, b] = select(options)?;
    for (letter, selected) in [("A", &a), ("B", &b)] {
        ensure!(
            !selected.report.connections.is_empty(),
            "{letter} ({}) has no connections to compare{}",
            selected.name,
            match selected.report.filtered_out {
                0 => "; trace some first (mpwatch record, mpwatch daemon)".to_owned(),
                left => format!(": none of the {left} in the file is selected"),
            }
        );
    }
    print(options, a.side(), b.side())
}

fn print(options: &CompareOptions, a: Side<'_>, b: Side<'_>) -> anyhow::Result<()> {
    let found = Comparison::new(a, b);
    let text = match options.format {
        CompareFormat::Text if options.output.is_none() && on_a_terminal() => {
            return print_table(&text::comparison(a, b, &found, terminal_width()));
        }
        CompareFormat::Text => text::comparison(a, b, &found, usize::MAX),
        CompareFormat::Html => html::comparison(a, b, &found),
        CompareFormat::Json => json::text(&found, Layout::Pretty)?,
    };
    write(&text, options.output.as_deref())
}

/// The two sets of connections that the options describe.
fn select(options: &CompareOptions) -> anyhow::Result<[Selected; 2]> {
    let load = |file: &Path| anyhow::Ok(options.filter.apply_to_report(load(file)?));
    let labelled = |label: &Label| {
        let report = load_labelled(&options.a, label)?;
        anyhow::Ok(Selected { name: label.to_string(), report: options.filter.apply_to_report(report) })
    };
    match options.labels.as_slice() {
        [] => {}
        [a, b] => return Ok([labelled(a)?, labelled(b)?]),
        _ => bail!(Failure::usage("compare needs two labels: --label NAME=VALUE for A, and another for B")),
    }
    if let Some(b) = &options.b {
        return Ok([
            Selected { name: options.a.display().to_string(), report: load(&options.a)? },
            Selected { name: b.display().to_string(), report: load(b)? },
        ]);
    }
    let report = load(&options.a)?;
    let part = |name: String, keep: &dyn Fn(&Connection) -> bool| {
        let mut part = report.clone();
        part.connections.retain(keep);
        part.filtered_out += report.connections.len() - part.connections.len();
        Selected { name, report: part }
    };
    if options.by == Some(CompareBy::Protocol) {
        let carried_by = |protocol| move |connection: &Connection| connection.carried_by() == protocol;
        return Ok([CarriedBy::Tcp, CarriedBy::Mptcp]
            .map(|protocol| part(protocol.as_str().to_owned(), &carried_by(protocol))));
    }
    let Some(at) = options.split else {
        bail!(Failure::usage(
            "compare needs a second file B, or --by protocol, two --label or --split TIME to compare parts of A; see mpwatch help compare"
        ));
    };
    let at = at.resolve(&Zoned::now())?;
    Ok([
        part(format!("opened before {at}"), &|flow| flow.opened_at.is_none_or(|opened| opened < at)),
        part(format!("opened from {at} on"), &|flow| flow.opened_at.is_some_and(|opened| opened >= at)),
    ])
}

/// The connections of a database or a recording.
fn load(file: &Path) -> anyhow::Result<Report> {
    if is_database(file)? {
        return Ok(Archive::open(file)?.report(Period::default())?.0);
    }
    let mut replay = Replay::open(file)?;
    session::run(&mut replay, TrackerSettings::new(Closed::Keep, None), None, |_| Ok(true))
}

/// The connections of the runs of a database that have a label.
fn load_labelled(file: &Path, label: &Label) -> anyhow::Result<Report> {
    ensure!(
        is_database(file)?,
        "{} is not a database, and a recording has one run: use --label with a database of several runs (record --db)",
        file.display()
    );
    let archive = Archive::open(file)?;
    let labels = archive.labels()?;
    ensure!(
        labels.contains(label),
        "no run in {} has the label {label}; {}",
        file.display(),
        if labels.is_empty() {
            "no run has any label: label the runs (record --label NAME=VALUE --db FILE)".to_owned()
        } else {
            format!("its labels are {}", labels.iter().map(Label::to_string).collect::<Vec<_>>().join(", "))
        }
    );
    Ok(archive.report_of_runs(Period::default(), Some(label))?.0)
}

fn is_database(file: &Path) -> anyhow::Result<bool> {
    let content = Content::read(file).with_context(|| format!("cannot read {}", file.display()))?;
    Ok(content == Content::Database)
}
