// SPDX-License-Identifier: MIT OR Apache-2.0
//! The final report of a run: the verdict, where it comes from, and then each connection.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use mpwatch_model::connection::Connection;
use mpwatch_model::endpoint::printable;
use mpwatch_model::snapshot::{Report, Run};
use mpwatch_model::timeline::TimelineEvent;
use mpwatch_model::unit::Bytes;

use super::grid::Grid;
use super::verdict::{anomalies, verdict};
use super::{bytes, classes, connection, cost, count, fairness, seconds};

/// So many connections are told in full; CSV and JSON have them all.
const IN_FULL: usize = 50;
/// What stands in the place of anomalies.
pub(crate) const ALL_WELL: &str = "no fallback, no failed path, no stall";

/// The report as text. Ends with a newline.
pub fn report(report: &Report) -> String {
    let mut text = format!("mpwatch: {}\n", verdict(report));
    let anomalies = anomalies(report);
    if anomalies.is_empty() && !report.connections.is_empty() {
        let _ = writeln!(text, "  {ALL_WELL}");
    }
    for anomaly in anomalies {
        let _ = writeln!(text, "  ! {anomaly}");
    }
    text.push('\n');
    for (word, fact) in facts(report) {
        let _ = writeln!(text, "{word:<12}  {fact}");
    }
    for Overview { title, note, grid } in overviews(report) {
        let _ = write!(text, "\n{title}; {note}\n{}", grid.text("  "));
    }
    let (told, left_out) = selection(&report.connections);
    for one in told {
        text.push('\n');
        text.push_str(&connection(one));
    }
    if let Some(rest) = rest(&left_out) {
        let _ = writeln!(text, "\n{rest}");
    }
    text
}

/// A table over all connections.
pub(crate) struct Overview {
    pub(crate) title: &'static str,
    pub(crate) note: &'static str,
    pub(crate) grid: Grid<'static>,
}

/// Those that have something to say.
pub(crate) fn overviews(report: &Report) -> Vec<Overview> {
    let of = |title, note, grid: Option<Grid<'static>>| grid.map(|grid| Overview { title, note, grid });
    let all = [
        of(classes::TITLE, classes::NOTE, classes::table(report)),
        of(fairness::TITLE, fairness::NOTE, fairness::table(report)),
    ];
    all.into_iter().flatten().collect()
}

/// What is not told in full. `None`: everything is.
pub(crate) fn rest(left_out: &[&Connection]) -> Option<String> {
    let carried: Bytes = left_out.iter().map(|c| carried(c)).sum();
    let number = count(left_out.len(), "smaller connection");
    let payload = bytes(carried.0);
    (!left_out.is_empty())
        .then(|| format!("{number} with {payload} of payload are in the CSV and JSON forms of this report."))
}

/// Where the report comes from, and what everything has cost: a word and what stands behind it.
pub(crate) fn facts(report: &Report) -> Vec<(String, String)> {
    let mut facts = provenance(&report.run);
    facts.extend(cost::facts(report));
    facts
}

fn provenance(run: &Run) -> Vec<(String, String)> {
    let host = &run.host;
    if host.boot_id.is_empty() && host.kernel.is_empty() {
        return vec![("observed on".to_owned(), "no host: the file has nothing of this period".to_owned())];
    }
    let micros = (run.to.as_nanosecond() - run.from.as_nanosecond()).max(0) / 1_000;
    let length = seconds(u64::try_from(micros).unwrap_or(u64::MAX));
    let [name, kernel, boot, version] =
        [&host.name, &host.kernel, &host.boot_id, &host.mpwatch].map(|text| printable(text));
    let mut facts = vec![
        ("observed on".to_owned(), format!("{name}, Linux {kernel}, boot {boot}")),
        ("from".to_owned(), format!("{} for {length}", run.from)),
        ("by".to_owned(), format!("mpwatch {version}")),
    ];
    for missing in &host.missing {
        let [costs, what, why] = [&missing.costs, &missing.what, &missing.why].map(|text| printable(text));
        facts.push(("not known".to_owned(), format!("{costs} ({what}: {why})")));
    }
    facts
}

fn carried(connection: &Connection) -> Bytes {
    connection.bytes_sent.unwrap_or_default() + connection.bytes_received.unwrap_or_default()
}

fn has_trouble(connection: &Connection) -> bool {
    let failed =
        connection.subflows.iter().any(|s| s.stale || s.closed.is_some_and(|c| c.reason.is_failure()));
    let stalled =
        connection.timeline.iter().any(|entry| matches!(entry.event, TimelineEvent::Stalled { .. }));
    connection.fallback.is_some() || failed || stalled
}

/// The connections to tell in full, in the order in which they came: those in trouble, then the largest. And the others.
pub(crate) fn selection(connections: &[Connection]) -> (Vec<&Connection>, Vec<&Connection>) {
    let mut order: Vec<usize> = (0..connections.len()).collect();
    order.sort_by_key(|&index| {
        let one = &connections[index];
        (!has_trouble(one), std::cmp::Reverse(carried(one)), index)
    });
    let chosen: BTreeSet<usize> = order.into_iter().take(IN_FULL).collect();
    let (told, left_out): (Vec<_>, Vec<_>) =
        connections.iter().enumerate().partition(|(index, _)| chosen.contains(index));

    (without_index(told), without_index(left_out))
}

fn without_index(pairs: Vec<(usize, &Connection)>) -> Vec<&Connection> {
    pairs.into_iter().map(|(_, one)| one).collect()
}
