// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a reader wants to know first: did multipath work, and what went wrong, most serious first. Says only what the
//! report itself holds.

use mpwatch_model::connection::Connection;
use mpwatch_model::endpoint::printable;
use mpwatch_model::flow_class::FlowClass;
use mpwatch_model::host::KernelCounters;
use mpwatch_model::lifecycle::{CloseReason, FallbackReason, Protocol};
use mpwatch_model::outage::{self, Outage};
use mpwatch_model::snapshot::Report;
use mpwatch_model::subflow::Subflow;

use super::bottleneck;
use super::timeline::{micros_after, offset};
use super::{count, seconds};

/// So many lines of one kind at most; a fleet's report would be nothing else otherwise.
const LINES_OF_A_KIND: usize = 10;

/// One or two sentences over all connections.
pub(crate) fn verdict(report: &Report) -> String {
    let all = report.connections.len();
    if all == 0 {
        return "no connection was seen in this period".to_owned();
    }
    let several = report.connections.iter().filter(|c| established_paths(c) > 1).count();
    let mptcp = report.connections.iter().filter(|c| speaks_mptcp(c)).count();
    let complete = match (&report.run.cut_short, report.losses.any()) {
        (Some(why), _) => format!("THE RECORD IS CUT SHORT: {why}"),
        (None, true) => "THE RECORD HAS GAPS, see below".to_owned(),
        (None, false) => "the record is complete".to_owned(),
    };
    format!(
        "{several} of {} used more than one path ({mptcp} spoke MPTCP); {complete}",
        count(all, "connection")
    )
}

fn speaks_mptcp(connection: &Connection) -> bool {
    let answered =
        connection.subflows.iter().any(|s| s.handshake.is_some() || s.bytes_acked.0 + s.bytes_received.0 > 0);
    connection.protocol == Protocol::Mptcp && connection.fallback.is_none() && answered
}

/// Subflows that carried data or could have.
fn established_paths(connection: &Connection) -> usize {
    connection
        .subflows
        .iter()
        .filter(|s| s.handshake.is_some() || s.unique_sent().0 + s.bytes_received.0 > 0)
        .count()
}

/// Everything out of the ordinary, a line each. Empty: nothing was.
pub(crate) fn anomalies(report: &Report) -> Vec<String> {
    let of_each = |find: &fn(&Connection) -> Vec<String>| {
        let found: Vec<String> = report.connections.iter().flat_map(|c| with_name(c, find(c))).collect();
        capped(found)
    };
    let mut lines: Vec<String> = report.losses.phrases();
    lines.extend(mapping_problems(&report.counters));
    lines.extend(OF_A_CONNECTION.iter().flat_map(of_each));
    lines
}

/// What there is to find of a connection, most serious first.
const OF_A_CONNECTION: [fn(&Connection) -> Vec<String>; 6] =
    [fallback, failed_paths, abrupt_end, stalls, no_second_path, shared_bottleneck];

/// Everything out of the ordinary of one connection.
pub(crate) fn anomalies_of(connection: &Connection) -> Vec<String> {
    OF_A_CONNECTION.iter().flat_map(|find| find(connection)).collect()
}

fn with_name(connection: &Connection, found: Vec<String>) -> impl Iterator<Item = String> {
    let name = connection.id.short();
    found.into_iter().map(move |what| format!("{name}: {what}"))
}

fn capped(mut lines: Vec<String>) -> Vec<String> {
    let more = lines.len().saturating_sub(LINES_OF_A_KIND);
    if more > 1 {
        lines.truncate(LINES_OF_A_KIND);
        lines.push(format!("... and {more} more like these"));
    }
    lines
}

fn mapping_problems(counters: &KernelCounters) -> Vec<String> {
    let problems = counters.mapping_problems;
    let counted = [
        (problems.invalid, "invalid DSS mappings on this host, their subflows were reset"),
        (problems.bad_checksum, "DSS checksum failures on this host, something on a path changes data"),
    ];
    counted
        .iter()
        .filter(|(number, _)| *number > 0)
        .map(|(number, what)| format!("{what}: {number}"))
        .collect()
}

fn fallback(connection: &Connection) -> Vec<String> {
    let words = |reason: FallbackReason| format!("fell back to plain TCP: {}", reason.description());
    connection.fallback.iter().map(|fallback| words(fallback.reason)).collect()
}

fn failed_paths(connection: &Connection) -> Vec<String> {
    let failed = connection.subflows.iter().zip(1..).filter_map(|(subflow, place)| {
        let over =
            subflow.interface.map(|name| format!(" over {}", printable(&name.text()))).unwrap_or_default();
        let path = format!("path {place} ({} -> {}{over})", subflow.local.ip(), subflow.remote.ip());
        Some(format!("{path} {}", end_of_a_path(connection, subflow)?))
    });
    failed.collect()
}

/// When a path died, how that is known, and when it was noticed. `None`: it works, or was taken down on purpose.
fn end_of_a_path(connection: &Connection, subflow: &Subflow) -> Option<String> {
    if outage::closed_with_connection(connection, subflow) {
        return None;
    }
    let when = |at| offset(micros_after(connection, at));
    let failure = subflow.closed.filter(|closed| closed.reason.is_failure());
    let Some(death) = outage::path_failure(connection, subflow) else {
        let dead = subflow.stale && subflow.closed.is_none();
        return dead.then(|| "died: no acknowledgements".to_owned());
    };
    let died = format!("died at {}", when(death.at));
    Some(match failure {
        Some(closed) if closed.at == death.at => format!("{died}: {}", closed.reason.description()),
        Some(closed) => format!("{died}: {} at {}", closed.reason.description(), when(closed.at)),
        None if death.at == death.noticed => {
            format!("was found dead at {}: no acknowledgements", when(death.at))
        }
        None => format!("{died}: no acknowledgements (noticed at {})", when(death.noticed)),
    })
}

fn abrupt_end(connection: &Connection) -> Vec<String> {
    let Some(initial) = connection.subflows.iter().find(|s| outage::closed_with_connection(connection, s))
    else {
        return Vec::new();
    };
    let words = match initial.closed.map(|closed| closed.reason) {
        _ if initial.handshake.is_none() && connection.seen_open => {
            "refused: a reset came in answer to the SYN"
        }
        Some(CloseReason::ResetSent) => "aborted by this host (reset)",
        _ => "aborted by the peer (reset)",
    };
    vec![words.to_owned()]
}

/// The gap that an application noticed, of a path's death where there was one.
fn stalls(connection: &Connection) -> Vec<String> {
    let outages = outage::outages(connection);
    let Some(told) = outage::outage_of_failure(connection, &outages) else { return Vec::new() };
    let since = |gap: &Outage| {
        format!("{} from {} on", seconds(gap.long.0), offset(micros_after(connection, gap.from)))
    };
    let pauses = match told.pauses {
        1 => String::new(),
        several => format!(" ({several} pauses, {} in all)", seconds(told.still.0)),
    };
    let others = match outage::longest(&outages) {
        _ if outages.len() == 1 => String::new(),
        Some(longest) if *longest != told => {
            format!("; {} such outages in all, the longest {}", outages.len(), since(longest))
        }
        _ => format!("; {} such outages in all", outages.len()),
    };
    vec![format!("no path made progress for {}{pauses}{others}", since(&told))]
}

/// A long flow that never had a second path: multipath is on, and of no use to it.
fn no_second_path(connection: &Connection) -> Vec<String> {
    let long = connection.flow_class == FlowClass::Long;
    if speaks_mptcp(connection) && connection.seen_open && long && connection.subflows.len() < 2 {
        vec!["carried a long flow over one path only: no subflow joined".to_owned()]
    } else {
        Vec::new()
    }
}

/// Subflows that are of no use.
fn shared_bottleneck(connection: &Connection) -> Vec<String> {
    let has_extra = connection.extra_subflows.is_some_and(|extra| extra > 0);
    let is_capped = connection.bottlenecks.as_ref().is_some_and(|found| !found.shared_caps.is_empty());
    bottleneck::sentence(connection).filter(|_| has_extra || is_capped).into_iter().collect()
}
