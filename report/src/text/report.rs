// SPDX-License-Identifier: MIT OR Apache-2.0
//! The report of a run: a summary, its problems, its origin, and each connection.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use jiff::Timestamp;
use mpwatch_model::flow::connection::Connection;
use mpwatch_model::flow::pairing::flows;
use mpwatch_model::flow::timeline::CLOCK;
use mpwatch_model::host::setup::Setup;
use mpwatch_model::kernel::endpoint::printable;
use mpwatch_model::metric::{self, CONNECTION, Unit};
use mpwatch_model::snapshot::{Report, Run};

use super::connection;
use super::fit::wrapped;
use super::grid::Align::{Left, Right};
use super::grid::{Column, Grid, Overview};
use super::selection::Selection;
use super::summary::{NO_PROBLEM, problems, summary};
use super::words::{Fact, bytes, count, known, or_dash, seconds, shown};
use super::{classes, cost, fairness, goodput, peers};

/// Maximum number of connections that a summary lists.
const MAX_IN_SUMMARY: usize = 5;

/// The report as text. Ends with a newline.
pub fn report(report: &Report) -> String {
    report_within(report, usize::MAX)
}

/// The report as text in lines of at most `width` columns, where words and columns allow it. Ends with a newline.
pub fn report_within(report: &Report, width: usize) -> String {
    let mut text = head(report, width);
    let selection = Selection::from_report(report);
    for flow in &selection.in_full {
        let _ = write!(text, "\n{}", connection::within(flow.end, width));
        if let Some(other) = flow.other {
            let _ = write!(text, "{}: {}", OTHER_END, connection::within(other, width));
        }
    }
    if let Some((title, grid)) = in_brief(&selection) {
        let _ = write!(text, "\n{title}\n{}", grid.text_within("  ", width));
    }
    if let Some(others) = selection.others() {
        let _ = writeln!(text, "\n{others}");
    }
    wrapped(&text, width)
}

/// The beginning of the report, with a line for each of the largest connections, in lines of at most `width` columns.
pub fn report_summary(report: &Report, width: usize) -> String {
    let mut text = head(report, width);
    let mut largest: Vec<&Connection> = flows(&report.connections).iter().map(|flow| flow.end).collect();
    let all = largest.len();
    largest.sort_by_key(|connection| std::cmp::Reverse(connection.payload()));
    if let Some(grid) = Grid::from_rows(LINE, largest.into_iter().take(MAX_IN_SUMMARY)) {
        let title = match grid.rows.len() {
            shown if shown < all => format!("the {shown} of {all} connections with most payload"),
            _ => "connections".to_owned(),
        };
        let _ = write!(text, "\n{title}\n{}", grid.text_within("  ", width));
    }
    wrapped(&text, width)
}

const LINE: &[Column<Connection>] = &[
    ("id", Left, |c| c.id.short()),
    ("process", Left, |c| or_dash(c.process.map(|process| printable(&process.comm.text()).into_owned()))),
    ("remote", Left, |c| or_dash(c.remote)),
    ("carried by", Left, |c| c.carried_by().as_str().to_owned()),
    ("subflows", Right, |c| c.subflows.len().to_string()),
    ("sent", Right, |c| or_dash(c.bytes_sent.map(|sent| bytes(sent.0)))),
    ("received", Right, |c| or_dash(c.bytes_received.map(|received| bytes(received.0)))),
    ("duration", Right, |c| metric::display(Unit::Seconds, Some(c.age_s))),
    ("observed", Left, |c| if c.is_partly_observed() { "partly" } else { "all" }.to_owned()),
    ("J/GB", Right, |c| shown(CONNECTION, "mpwatch_connection_joules_per_gigabyte", c).replace(" J/GB", "")),
];

/// Prefix of the heading of a connection's other end.
pub(crate) const OTHER_END: &str = "other end";

/// A table of the connections that are listed in a line each, with a title. `None`: there are none.
pub(crate) fn in_brief(selection: &Selection<'_>) -> Option<(String, Grid)> {
    let grid = Grid::from_rows(LINE, selection.in_brief.iter().map(|flow| flow.end))?;
    let what = if selection.in_full.is_empty() { "connection" } else { "more connection" };
    Some((count(grid.rows.len(), what), grid))
}

/// Everything above the connections: the summary, problems, the origin of the report, and tables over all connections.
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
    let indent = facts.iter().map(|(label, _)| label.len()).max().unwrap_or(0);
    for (label, fact) in facts {
        let _ = writeln!(text, "{label:<indent$}  {fact}");
    }
    for Overview { title, notes, grid } in overviews(report) {
        let _ = write!(text, "\n{title}\n  {}\n{}", notes.join("\n  "), grid.text_within("  ", width));
    }
    text
}

pub(crate) fn overviews(report: &Report) -> impl Iterator<Item = Overview> {
    [classes::overview, peers::overview, fairness::overview].into_iter().filter_map(|table| table(report))
}

/// The origin of the report, and the cost of all connections.
pub(crate) fn facts(report: &Report) -> Vec<Fact> {
    let mut facts = provenance(&report.run);
    facts.extend(goodput::facts(report));
    facts.extend(cost::facts(report));
    facts
}

/// The machine, the period, and the version of mpwatch that observed the connections.
pub(crate) fn provenance(run: &Run) -> Vec<Fact> {
    let host = &run.host;
    let limit = |word, at: Option<Timestamp>| at.map(|at| format!("{word} {}", at.strftime(CLOCK)));
    let asked: Vec<String> = limit("since", run.since).into_iter().chain(limit("until", run.until)).collect();
    let asked = ("asked for", Some(asked.join(" ")).filter(|limits| !limits.is_empty()));
    if host.boot_id.is_empty() && host.kernel.is_empty() {
        let none = "no host: the file has no data of this period".to_owned();
        return known([("observed on", Some(none)), asked]).collect();
    }
    let micros = (run.to.as_nanosecond() - run.from.as_nanosecond()).max(0) / 1_000;
    let duration = seconds(u64::try_from(micros).unwrap_or(u64::MAX));
    let [name, kernel, boot, version] =
        [&host.name, &host.kernel, &host.boot_id, &host.mpwatch].map(|text| printable(text));
    let interval = run.setup.interval_ms;
    let facts = [
        ("observed on", Some(format!("{name}, Linux {kernel}, boot {boot}"))),
        ("from", Some(format!("{} for {duration}", run.from))),
        ("by", Some(format!("mpwatch {version}"))),
        asked,
        ("labels", pairs(&run.setup.labels)),
        ("interval", interval.map(|ms| metric::display(Unit::Seconds, Some(ms as f64 / 1e3)))),
        ("CPU", cpu(&run.setup)),
        ("net.mptcp", pairs(&run.setup.mptcp_sysctls)),
    ];
    let mut facts: Vec<Fact> = known(facts).collect();
    for missing in &host.missing {
        let [costs, what, why] = [&missing.costs, &missing.what, &missing.why].map(|text| printable(text));
        let label = if missing.is_reduction() { "reduced" } else { "not known" };
        facts.push((label, format!("{costs} ({what}: {why})")));
    }
    facts
}

/// The entries as `NAME=VALUE, ...`. `None`: there are none.
pub(crate) fn pairs(entries: &BTreeMap<String, String>) -> Option<String> {
    let words: Vec<String> =
        entries.iter().map(|(name, value)| format!("{}={}", printable(name), printable(value))).collect();
    (!words.is_empty()).then(|| words.join(", "))
}

/// Model and frequency governor of the CPU. `None`: unknown.
fn cpu(setup: &Setup) -> Option<String> {
    let model = printable(setup.cpu_model.as_deref()?);
    let governor = setup.governor.as_deref().map(|governor| format!("governor {}", printable(governor)));
    Some(format!("{model}, {}", governor.unwrap_or_else(|| "frequencies not scaled by Linux".to_owned())))
}
