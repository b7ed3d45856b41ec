// SPDX-License-Identifier: MIT OR Apache-2.0
//! Goodput of all connections of a report together, and how many of them were observed at both ends.

use mpwatch_model::flow::class_totals;
use mpwatch_model::flow::goodput::Goodput;
use mpwatch_model::flow::pairing::{Flow, flows};
use mpwatch_model::metric::{self, Unit};
use mpwatch_model::snapshot::Report;
use mpwatch_model::unit::BitsPerSecond;

use super::words::{Fact, bytes, count, known};

/// Facts about all connections. Empty: there are no connections.
pub(super) fn facts(report: &Report) -> impl Iterator<Item = Fact> {
    let flows = flows(&report.connections);
    let both = flows.iter().filter(|flow| flow.other.is_some()).count();
    let both = (both > 0).then(|| {
        let both = count(both, "connection");
        format!("of {both}: sums include their payload once, and CPU time and energy of both ends")
    });
    known([("goodput", goodput(report)), ("overhead", overhead(&flows)), ("both ends", both)])
}

/// The share of the wire bytes that was not new payload. `None`: the wire carried nothing.
fn overhead(flows: &[Flow<'_>]) -> Option<String> {
    let share = metric::display(Unit::Ratio, Some(class_totals::excess_ratio(flows)?));
    Some(format!("about {share} of the wire bytes were not new payload: headers and retransmissions"))
}

/// The goodput over the period. `None`: the period has no duration or no connection.
fn goodput(report: &Report) -> Option<String> {
    let goodput = Goodput::new(report)?;
    let show =
        |rate: Option<BitsPerSecond>| metric::display(Unit::BitsPerSecond, rate.map(|rate| rate.0 as f64));
    let payload = bytes(goodput.payload.0);
    if goodput.over_period.is_none() {
        return Some(format!("not known: {payload} of observed payload, a part of it before this period"))
            .filter(|_| report.run.to > report.run.from);
    }
    Some(format!(
        "{} over this period, {} while a connection was open; {} of observed payload, both directions, each byte once",
        show(goodput.over_period),
        show(goodput.while_open),
        payload
    ))
}

#[cfg(test)]
mod tests {
    use mpwatch_fixtures as fixture;

    use super::*;

    #[test]
    fn the_goodput_of_a_run_covers_all_its_connections() {
        let report = fixture::report(vec![fixture::closed(1), fixture::closed(2)]);
        let facts: Vec<Fact> = facts(&report).collect();
        assert_eq!(facts.len(), 2, "the other ends are on another host");
        assert!(facts[1].1.starts_with("about "), "{}", facts[1].1);
        // 2 * 120 MB in 12.75 s, or in the 12 s from their opening to their end.
        assert!(
            facts[0]
                .1
                .starts_with("151 Mbit/s over this period, 160 Mbit/s while a connection was open; 240 MB"),
            "{}",
            facts[0].1
        );
    }

    #[test]
    fn goodput_is_unknown_if_a_connection_is_older_than_the_period() {
        let mut report = fixture::report(vec![fixture::closed(1)]);
        let opened_at = report.connections[0].opened_at.unwrap();
        report.run.from = opened_at + std::time::Duration::from_secs(5);
        let facts: Vec<Fact> = facts(&report).collect();
        assert_eq!(facts[0].1, "not known: 120 MB of observed payload, a part of it before this period");
    }
}
