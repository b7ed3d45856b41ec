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
use super::report::whole;
use crate::cli::{CompareBy, CompareFormat, CompareOptions, FilterOptions};
use crate::error::Failure;
use crate::live::recording::Replay;
use crate::live::session::{self, TrackerSettings};

pub(super) fn run(options: &CompareOptions) -> anyhow::Result<()> {
    let CompareOptions { a, b, output, .. } = options;
    ensure!(
        !b.as_deref().is_some_and(|b| files::is_same(a, b)),
        "A and B are the same file, {}: use --by protocol, two --label or --split TIME to compare parts of it",
        a.display()
    );
    files::ensure_distinct(&[Some(a), b.as_deref(), output.as_deref()])?;
    let [a, b] = select(options)?;
    let [a, b] = [&a, &b].map(|(name, report)| Side { name, report });
    for (letter, side) in [("A", a), ("B", b)] {
        ensure!(
            !side.report.connections.is_empty(),
            "{letter} ({}) has no connections to compare{}",
            side.name,
            match side.report.filtered_out {
                0 => "; trace some first (mpwatch record, mpwatch daemon)".to_owned(),
                left => format!(": none of the {left} in the file is selected"),
            }
        );
    }
    print(options, a, b)
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

/// The two sets of connections that the options describe, with their names.
fn select(options: &CompareOptions) -> anyhow::Result<[(String, Report); 2]> {
    let load = |file: &Path, label: Option<&Label>| load(file, label, &options.filter);
    match options.labels.as_slice() {
        [] => {}
        [a, b] => {
            let [of_a, of_b] = [load(&options.a, Some(a))?, load(&options.a, Some(b))?];
            return Ok([(a.to_string(), of_a), (b.to_string(), of_b)]);
        }
        _ => bail!(Failure::usage("compare needs two labels: --label NAME=VALUE for A, and another for B")),
    }
    if let Some(b) = &options.b {
        let [of_a, of_b] = [load(&options.a, None)?, load(b, None)?];
        return Ok([(options.a.display().to_string(), of_a), (b.display().to_string(), of_b)]);
    }
    let mut report = load(&options.a, None)?;
    let mut all = std::mem::take(&mut report.connections);
    report.filtered_out += all.len();
    let mut part = |name: String, keep: &dyn Fn(&Connection) -> bool| {
        let mut part = report.clone().with(all.extract_if(.., |connection| keep(connection)).collect());
        part.filtered_out -= part.connections.len();
        (name, part)
    };
    if options.by == Some(CompareBy::Protocol) {
        return Ok([CarriedBy::Tcp, CarriedBy::Mptcp]
            .map(|protocol| part(protocol.as_str().to_owned(), &|flow| flow.carried_by() == protocol)));
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

/// The connections of a recording or a database that the filter selects. The database may be larger than the memory. With `label`, only
/// connections of runs that have this label.
fn load(file: &Path, label: Option<&Label>, filter: &FilterOptions) -> anyhow::Result<Report> {
    let content = Content::read(file).with_context(|| format!("cannot read {}", file.display()))?;
    if content != Content::Database {
        ensure!(
            label.is_none(),
            "{} is not a database, and a recording has one run: use --label with a database of several runs (record --db)",
            file.display()
        );
        let mut replay = Replay::open(file)?;
        let all = session::run(&mut replay, TrackerSettings::new(Closed::Keep, None), None, |_| Ok(true))?;
        return Ok(filter.apply_to_report(all));
    }
    let archive = Archive::open(file)?;
    if let Some(label) = label {
        let labels = archive.labels()?;
        ensure!(
            labels.contains(label),
            "no run in {} has the label {label}; {}",
            file.display(),
            if labels.is_empty() {
                "no run has any label: label the runs (record --label NAME=VALUE --db FILE)".to_owned()
            } else {
                let labels: Vec<_> = labels.iter().map(Label::to_string).collect();
                format!("its labels are {}", labels.join(", "))
            }
        );
    }
    whole(&archive, Period::default(), label, filter, drop)
}
