// SPDX-License-Identifier: MIT OR Apache-2.0
//! The summary at the top: whether multipath was used, whether the data is complete, and which problems there are.

use std::collections::BTreeSet;

use mpwatch_model::finding::{self, Finding, Format, ProblemGroup};
use mpwatch_model::flow::connection::Connection;
use mpwatch_model::flow::pairing::flows;
use mpwatch_model::flow::subflow::Subflow;
use mpwatch_model::id::ConnectionId;
use mpwatch_model::kernel::endpoint::printable;
use mpwatch_model::kernel::lifecycle::CarriedBy;
use mpwatch_model::snapshot::Report;

use super::words::count;

/// Maximum number of lines for problems of one kind, which would otherwise fill a fleet's report.
const MAX_OF_A_KIND: usize = 10;
/// Shown if there are no problems.
pub(crate) const NO_PROBLEM: &str = "no fallback, no failed path, no outage";

/// The number of connections with problems, in a few words.
pub(crate) fn headline(report: &Report) -> String {
    let (flows, groups) = (flows(&report.connections), finding::problems_of_report(report));
    let affected: BTreeSet<ConnectionId> = groups.iter().flat_map(ProblemGroup::ids).collect();
    let number = flows.iter().filter(|flow| flow.ends().any(|end| affected.contains(&end.id))).count();
    let all = count(flows.len(), "connection");
    match number {
        0 if groups.is_empty() => format!("No problem in {all}"),
        0 => format!("Problems of the host, none in {all}"),
        _ => format!("Problems in {number} of {all}"),
    }
}

/// One sentence about all connections.
pub(crate) fn summary(report: &Report) -> String {
    let flows = flows(&report.connections);
    let all = flows.len();
    if all == 0 {
        return match report.filtered_out {
            0 => "no connection was seen in this period".to_owned(),
            seen => format!("none of {} matches the filter (--filter, --netns)", count(seen, "connection")),
        };
    }
    let number =
        |of_end: fn(&Connection) -> bool| flows.iter().filter(|flow| flow.ends().any(of_end)).count();
    let several = number(|end| established_paths(end) > 1);
    let carried = number(|end| paths_with_payload(end) > 1);
    let mptcp =
        number(|end| end.carried_by() == CarriedBy::Mptcp && end.subflows.iter().any(Subflow::was_answered));
    let fell_back = number(|end| end.carried_by() == CarriedBy::Fallback);
    let fell_back = if fell_back > 0 { format!(" ({fell_back} fell back to TCP)") } else { String::new() };
    let complete = match (&report.run.cut_short, report.losses.any()) {
        (Some(why), _) => format!("RECORDING CUT SHORT: {}", printable(why)),
        (None, true) => "MPWATCH'S RECORDS ARE INCOMPLETE, see below".to_owned(),
        (None, false) => match number(|end| end.unobserved_gap().is_some() || end.has_unobserved_end()) {
            0 => "mpwatch's records are complete".to_owned(),
            gaps => format!("MPWATCH WAS NOT RUNNING DURING PART OF {}", count(gaps, "connection")),
        },
    };
    format!(
        "{mptcp} of {} used MPTCP{fell_back}, {several} had more than one subflow, {carried} carried payload over more than one subflow; {complete}",
        count(all, "connection")
    )
}

/// Subflows that carried data or could have carried data.
fn established_paths(connection: &Connection) -> usize {
    let has_worked = |s: &&Subflow| s.handshake.is_some() || s.unique_sent().0 + s.bytes_received.0 > 0;
    connection.subflows.iter().filter(has_worked).count()
}

/// Subflows that carried payload. A single received byte is the DATA_FIN.
fn paths_with_payload(connection: &Connection) -> usize {
    let carried = |s: &&Subflow| s.unique_sent().0 > 0 || s.bytes_received.0 > 1;
    connection.subflows.iter().filter(carried).count()
}

/// The problems of a report, a line for each cause and peer, most important first.
pub(crate) fn problems(report: &Report) -> Vec<String> {
    let groups = finding::problems_of_report(report);
    groups.chunk_by(|a, b| a.rank() == b.rank()).flat_map(limited).collect()
}

/// The problems of one connection, a sentence each.
pub(crate) fn problems_of(connection: &Connection) -> Vec<String> {
    let problems = finding::of_connection(connection).into_iter().filter(Finding::is_problem);
    problems.map(|problem| problem.sentence(&Format::default())).collect()
}

fn limited(kind: &[ProblemGroup]) -> Vec<String> {
    let more = kind.len().saturating_sub(MAX_OF_A_KIND);
    let shown = if more > 1 { MAX_OF_A_KIND } else { kind.len() };
    let (shown, others) = kind.split_at(shown);
    let mut lines: Vec<String> = shown.iter().map(|group| group.line(&Format::default())).collect();
    if !others.is_empty() {
        let connections = others.iter().map(ProblemGroup::connections).sum();
        lines.push(format!("... and {more} more like these, of {}", count(connections, "connection")));
    }
    lines
}
