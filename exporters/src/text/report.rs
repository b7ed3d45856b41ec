// SPDX-License-Identifier: MIT OR Apache-2.0
//! The report of a run: a summary, its problems, where it comes from, and each connection.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use mpwatch_model::connection::Connection;
use mpwatch_model::endpoint::printable;
use mpwatch_model::finding::{self, Finding};
use mpwatch_model::metric::{self, CONNECTION, Unit};
use mpwatch_model::snapshot::{Report, Run};
use mpwatch_model::unit::Bytes;

use super::connection;
use super::fit::wrapped;
use super::grid::Align::{Left, Right};
use super::grid::{Column, Grid};
use super::summary::{NO_PROBLEM, problems, summary};
use super::words::{bytes, count, or_dash, seconds, shown};
use super::{classes, cost, fairness};

/// How many connections a report describes in full; CSV and JSON have all of them.
const MAX_IN_FULL: usize = 50;
/// How many connections a summary lists.
const MAX_IN_SUMMARY: usize = 5;

/// The report as text. Ends with a newline.
pub fn report(report: &Report) -> String {
    in_full(report, usize::MAX)
}

/// The report as text in lines of at most `width` columns, where words and columns allow it. Ends with a newline.
pub fn report_within(report: &Report, width: usize) -> String {
    wrapped(&in_full(report, width), width)
}

/// The beginning of the report, with a line for each of the largest connections, in lines of at most `width` columns.
pub fn report_summary(report: &Report, width: usize) -> String {
    let mut text = head(report, width);
    let mut largest: Vec<&Connection> = report.connections.iter().collect();
    largest.sort_by_key(|one| std::cmp::Reverse(one.payload()));
    if let Some(grid) = Grid::of(LARGEST, largest.into_iter().take(MAX_IN_SUMMARY)) {
        let all = report.connections.len();
        let title = match grid.rows.len() {
            shown if shown < all => format!("the {shown} of {all} connections with most payload"),
            _ => "connections".to_owned(),
        };
        let _ = write!(text, "\n{title}\n{}", grid.text_within("  ", width));
    }
    wrapped(&text, width)
}

const LARGEST: &[Column<Connection>] = &[
    ("id", Left, |c| c.id.short()),
    ("process", Left, |c| or_dash(c.process.map(|process| printable(&process.comm.text()).into_owned()))),
    ("remote", Left, |c| or_dash(c.remote)),
    ("carried by", Left, |c| c.carried_by().as_str().to_owned()),
    ("subflows", Right, |c| c.subflows.len().to_string()),
    ("sent", Right, |c| or_dash(c.bytes_sent.map(|sent| bytes(sent.0)))),
    ("received", Right, |c| or_dash(c.bytes_received.map(|received| bytes(received.0)))),
    ("duration", Right, |c| metric::display(Unit::Seconds, Some(c.age_s))),
    ("J/GB", Right, |c| shown(CONNECTION, "mpwatch_connection_joules_per_gigabyte", c).replace(" J/GB", "")),
];

fn in_full(report: &Report, width: usize) -> String {
    let mut text = head(report, width);
    let (in_full, others) = selection(&report.connections);
    for one in in_full {
        text.push('\n');
        text.push_str(&connection::within(one, width));
    }
    if let Some(others) = other_connections(&others) {
        let _ = writeln!(text, "\n{others}");
    }
    text
}

/// Everything above the connections: the summary, problems, where the report comes from, and tables over all connections.
fn head(report: &Report, width: usize) -> String {
    let mut text = format!("mpwatch: {}\n", summary(report));
    let problems = problems(report);
    if problems.is_empty() && !report.connections.is_empty() {
        let _ = writeln!(text, "  {NO_PROBLEM}");
    }
    for problem in problems {
        let _ = writeln!(text, "  ! {problem}");
    }
    text.push('\n');
    let facts = facts(report);
    let words = facts.iter().map(|(word, _)| word.len()).max().unwrap_or(0);
    for (word, fact) in facts {
        let _ = writeln!(text, "{word:<words$}  {fact}");
    }
    for (title, notes, grid) in overviews(report) {
        let _ = write!(text, "\n{title}\n  {}\n{}", notes.join("\n  "), grid.text_within("  ", width));
    }
    text
}

/// The tables over all connections that have rows, each with its title and notes.
pub(crate) fn overviews(report: &Report) -> Vec<(&'static str, Vec<String>, Grid)> {
    let tables = [
        (classes::TITLE, classes::notes(), classes::table(report)),
        (fairness::TITLE, fairness::notes(), fairness::table(report)),
    ];
    tables.into_iter().filter_map(|(title, notes, grid)| Some((title, notes, grid?))).collect()
}

/// Where to find the connections that are not described. `None`: all are.
pub(crate) fn other_connections(others: &[&Connection]) -> Option<String> {
    let payload: Bytes = others.iter().map(|one| one.payload()).sum();
    let (number, payload) = (count(others.len(), "smaller connection"), bytes(payload.0));
    (!others.is_empty())
        .then(|| format!("{number} with {payload} of payload are in the CSV and JSON forms of this report."))
}

/// Where the report comes from, and what all connections cost: labels with their text.
pub(crate) fn facts(report: &Report) -> Vec<(String, String)> {
    let mut facts = provenance(&report.run);
    facts.extend(cost::facts(report));
    facts
}

fn provenance(run: &Run) -> Vec<(String, String)> {
    let host = &run.host;
    if host.boot_id.is_empty() && host.kernel.is_empty() {
        return vec![("observed on".to_owned(), "no host: the file has no data of this period".to_owned())];
    }
    let micros = (run.to.as_nanosecond() - run.from.as_nanosecond()).max(0) / 1_000;
    let duration = seconds(u64::try_from(micros).unwrap_or(u64::MAX));
    let [name, kernel, boot, version] =
        [&host.name, &host.kernel, &host.boot_id, &host.mpwatch].map(|text| printable(text));
    let mut facts = vec![
        ("observed on".to_owned(), format!("{name}, Linux {kernel}, boot {boot}")),
        ("from".to_owned(), format!("{} for {duration}", run.from)),
        ("by".to_owned(), format!("mpwatch {version}")),
    ];
    for missing in &host.missing {
        let [costs, what, why] = [&missing.costs, &missing.what, &missing.why].map(|text| printable(text));
        facts.push(("not known".to_owned(), format!("{costs} ({what}: {why})")));
    }
    facts
}

fn has_problem(connection: &Connection) -> bool {
    finding::of_connection(connection).iter().any(Finding::is_problem)
}

/// The connections to describe in full, in the order in which they came: those with problems, then the largest. And the others.
pub(crate) fn selection(connections: &[Connection]) -> (Vec<&Connection>, Vec<&Connection>) {
    let mut order: Vec<usize> = (0..connections.len()).collect();
    order.sort_by_key(|&index| {
        let one = &connections[index];
        (!has_problem(one), std::cmp::Reverse(one.payload()), index)
    });
    let chosen: BTreeSet<usize> = order.into_iter().take(MAX_IN_FULL).collect();
    let mut index = 0..;
    connections.iter().partition(|_| index.next().is_some_and(|index| chosen.contains(&index)))
}
