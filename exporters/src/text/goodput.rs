// SPDX-License-Identifier: MIT OR Apache-2.0
//! Goodput of all connections of a report together, and how many of them were observed at both ends.

use jiff::Timestamp;
use mpwatch_model::metric::{self, Unit};
use mpwatch_model::pairing::{Flow, flows};
use mpwatch_model::snapshot::Report;
use mpwatch_model::unit::Bytes;

use super::words::{bytes, count};

/// Labels with their text. Empty: there are no connections.
pub(super) fn facts(report: &Report) -> Vec<(String, String)> {
    let flows = flows(&report.connections);
    let mut facts = Vec::new();
    facts.extend(goodput(report, &flows).map(|text| ("goodput".to_owned(), text)));
    let both = flows.iter().filter(|flow| flow.other.is_some()).count();
    if both > 0 {
        let text = format!(
            "of {}: sums have their payload once, and CPU time and energy of both ends",
            count(both, "connection")
        );
        facts.push(("both ends".to_owned(), text));
    }
    facts
}

/// `None`: no time was observed, or no connection.
fn goodput(report: &Report, flows: &[Flow<'_>]) -> Option<String> {
    let payload: Bytes = flows.iter().map(|flow| flow.observed_payload()).sum();
    let rate = |seconds: f64| {
        let rate = (seconds > 0.0).then(|| payload.0 as f64 * 8.0 / seconds);
        metric::display(Unit::BitsPerSecond, rate)
    };
    let period = seconds(report.run.from, report.run.to);
    let busy = covered(flows.iter().map(|flow| life(*flow, report)).collect());
    (!flows.is_empty() && period > 0.0).then(|| {
        format!(
            "{} over this period, {} while a connection was open; {} of observed payload, both directions, each byte once",
            rate(period),
            rate(busy),
            bytes(payload.0)
        )
    })
}

fn seconds(from: Timestamp, to: Timestamp) -> f64 {
    to.duration_since(from).as_secs_f64().max(0.0)
}

/// When a connection was open within the period of a report.
fn life(flow: Flow<'_>, report: &Report) -> (Timestamp, Timestamp) {
    let (from, to) = (report.run.from, report.run.to);
    let opened = flow.end.opened_at.unwrap_or(from).clamp(from, to.max(from));
    (opened, flow.end.closed_at.unwrap_or(to).clamp(opened, to.max(opened)))
}

/// The length of the union of some intervals, seconds.
fn covered(mut intervals: Vec<(Timestamp, Timestamp)>) -> f64 {
    intervals.sort_unstable();
    let mut end = Timestamp::MIN;
    intervals.into_iter().fold(0.0, |sum, (from, to)| {
        let new = seconds(from.max(end), to);
        end = end.max(to);
        sum + new
    })
}

#[cfg(test)]
mod tests {
    use mpwatch_fixtures as fixture;

    use super::*;

    #[test]
    fn overlapping_intervals_count_once() {
        let at = |from: i64, to: i64| (fixture::at(from * 1_000_000), fixture::at(to * 1_000_000));
        let intervals = vec![at(5, 7), at(0, 4), at(1, 2), at(3, 5), at(10, 11)];
        assert!((covered(intervals) - 8.0).abs() < 1e-9);
        assert!(covered(Vec::new()).abs() < 1e-9);
    }

    #[test]
    fn goodput_of_a_run_is_of_all_its_connections() {
        let report = fixture::report(vec![fixture::closed(1), fixture::closed(2)]);
        let facts = facts(&report);
        assert_eq!(facts.len(), 1, "the other ends are on another host");
        // 2 * 120 MB in 12.75 s, or in the 12 s from their opening to their end.
        assert!(
            facts[0]
                .1
                .starts_with("151 Mbit/s over this period, 160 Mbit/s while a connection was open; 240 MB"),
            "{}",
            facts[0].1
        );
    }
}
