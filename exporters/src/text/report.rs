// SPDX-License-Identifier: MIT OR Apache-2.0
//! The final report of a run: the verdict, where it comes from, and then each connection.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use mpwatch_model::connection::Connection;
use mpwatch_model::endpoint::printable;
use mpwatch_model::snapshot::{Report, Run};
use mpwatch_model::timeline::What;
use mpwatch_model::unit::Bytes;

use super::verdict::{anomalies, verdict};
use super::{bytes, connection, cost, count, seconds};

/// So many connections are told in full; CSV and JSON have them all.
const IN_FULL: usize = 50;

/// The report as text. Ends with a newline.
pub fn report(report: &Report) -> String {
    let mut text = format!("mpwatch: {}\n", verdict(report));
    let anomalies = anomalies(report);
    if anomalies.is_empty() && !report.connections.is_empty() {
        text.push_str("  no fallback, no failed path, no stall\n");
    }
    for anomaly in anomalies {
        let _ = writeln!(text, "  ! {anomaly}");
    }
    text.push('\n');
    text.push_str(&provenance(&report.run));
    text.push_str(&cost::section(report));
    let (told, left_out) = selection(&report.connections);
    for one in told {
        text.push('\n');
        text.push_str(&connection(one));
    }
    if !left_out.is_empty() {
        let carried: Bytes = left_out.iter().map(|c| carried(c)).sum();
        let number = count(left_out.len(), "smaller connection");
        let _ = writeln!(
            text,
            "\n{number} with {} of payload are in the CSV and JSON forms of this report.",
            bytes(carried.0)
        );
    }
    text
}

fn provenance(run: &Run) -> String {
    let host = &run.host;
    let micros = (run.to.as_nanosecond() - run.from.as_nanosecond()).max(0) / 1_000;
    let length = seconds(u64::try_from(micros).unwrap_or(u64::MAX));
    let mut text = format!(
        "observed on   {}, Linux {}, boot {}\nfrom          {} for {length}\nby            mpwatch {}\n",
        printable(&host.name),
        printable(&host.kernel),
        printable(&host.boot_id),
        run.from,
        printable(&host.mpwatch),
    );
    for missing in &host.missing {
        let (costs, what, why) =
            (printable(&missing.costs), printable(&missing.what), printable(&missing.why));
        let _ = writeln!(text, "not known     {costs} ({what}: {why})");
    }
    text
}

fn carried(connection: &Connection) -> Bytes {
    connection.bytes_sent.unwrap_or_default() + connection.bytes_received.unwrap_or_default()
}

fn has_trouble(connection: &Connection) -> bool {
    let failed =
        connection.subflows.iter().any(|s| s.stale || s.closed.is_some_and(|c| c.reason.is_failure()));
    let stalled = connection.timeline.iter().any(|entry| matches!(entry.what, What::Stalled { .. }));
    connection.fallback.is_some() || failed || stalled
}

/// The connections to tell in full, in the order in which they came: those in trouble, then the largest. And the others.
fn selection(connections: &[Connection]) -> (Vec<&Connection>, Vec<&Connection>) {
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
