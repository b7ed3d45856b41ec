// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a reader wants to know first: was multipath used, is the data complete, and what went wrong.

use mpwatch_model::connection::Connection;
use mpwatch_model::finding::{self, Finding, Format};
use mpwatch_model::lifecycle::CarriedBy;
use mpwatch_model::snapshot::Report;
use mpwatch_model::subflow::Subflow;

use super::words::count;

/// How many findings of one kind a report lists; a fleet's report would otherwise contain nothing else.
const MAX_OF_A_KIND: usize = 10;
/// What a report says instead of problems.
pub(crate) const NO_PROBLEM: &str = "no fallback, no failed path, no outage";

/// One sentence over all connections.
pub(crate) fn summary(report: &Report) -> String {
    let all = report.connections.len();
    if all == 0 {
        return match report.filtered_out {
            0 => "no connection was seen in this period".to_owned(),
            seen => format!("none of {} matches the filter (--filter, --netns)", count(seen, "connection")),
        };
    }
    let several = report.connections.iter().filter(|c| established_paths(c) > 1).count();
    let carried = report.connections.iter().filter(|c| paths_with_payload(c) > 1).count();
    let mptcp = report.connections.iter().filter(|c| used_mptcp(c)).count();
    let fell_back = report.connections.iter().filter(|c| c.carried_by() == CarriedBy::Fallback).count();
    let fell_back = if fell_back > 0 { format!(" ({fell_back} fell back to TCP)") } else { String::new() };
    let complete = match (&report.run.cut_short, report.losses.any()) {
        (Some(why), _) => format!("RECORDING CUT SHORT: {why}"),
        (None, true) => "MPWATCH'S RECORDS ARE INCOMPLETE, see below".to_owned(),
        (None, false) => "mpwatch's records are complete".to_owned(),
    };
    format!(
        "{mptcp} of {} used MPTCP{fell_back}, {several} had more than one subflow, {carried} carried payload over more than one; {complete}",
        count(all, "connection")
    )
}

fn used_mptcp(connection: &Connection) -> bool {
    let was_answered = connection.subflows.iter().any(Subflow::was_answered);
    connection.carried_by() == CarriedBy::Mptcp && was_answered
}

/// Subflows that carried data or could have.
fn established_paths(connection: &Connection) -> usize {
    let has_worked = |s: &&Subflow| s.handshake.is_some() || s.unique_sent().0 + s.bytes_received.0 > 0;
    connection.subflows.iter().filter(has_worked).count()
}

/// Subflows that carried payload. Of one that received a single byte, this is the DATA_FIN.
fn paths_with_payload(connection: &Connection) -> usize {
    let carried = |s: &&Subflow| s.unique_sent().0 > 0 || s.bytes_received.0 > 1;
    connection.subflows.iter().filter(carried).count()
}

/// All problems of a report, a line each, most important first. Empty: none was found.
pub(crate) fn problems(report: &Report) -> Vec<String> {
    let all: Vec<Finding> = finding::of_report(report).into_iter().filter(Finding::is_problem).collect();
    let kinds = all.chunk_by(|a, b| a.rank() == b.rank());
    kinds.flat_map(|kind| limited(kind.iter().map(|one| one.line(&Format::default())).collect())).collect()
}

/// The problems of one connection, a sentence each.
pub(crate) fn problems_of(connection: &Connection) -> Vec<String> {
    let problems = finding::of_connection(connection).into_iter().filter(Finding::is_problem);
    problems.map(|one| one.sentence(&Format::default())).collect()
}

fn limited(mut lines: Vec<String>) -> Vec<String> {
    let more = lines.len().saturating_sub(MAX_OF_A_KIND);
    if more > 1 {
        lines.truncate(MAX_OF_A_KIND);
        lines.push(format!("... and {more} more like these"));
    }
    lines
}
