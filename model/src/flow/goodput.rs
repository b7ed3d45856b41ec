// SPDX-License-Identifier: MIT OR Apache-2.0
//! Goodput of all connections of a report together.

use jiff::Timestamp;

use crate::flow::class_totals;
use crate::flow::pairing::{Flow, flows};
use crate::metric::derived::tabled;
use crate::metric::row::metrics;
use crate::snapshot::{Report, Run};
use crate::unit::{BitsPerSecond, Bytes, Nanos};

metrics! {
    /// Values of a whole report that are computed from its connections.
    RUN: Report {
        "mpwatch_run_goodput_bits_per_second" Gauge BitsPerSecond "GOODPUT" "Goodput of all connections over the period: their observed payload in both directions, each byte once, also if both ends are in the report. `null`: no connection, no duration, or a connection was observed before the period." |r| rate(Goodput::new(r)?.over_period) => "goodput_bps";
        "mpwatch_run_open_goodput_bits_per_second" Gauge BitsPerSecond "GOODPUT OPEN" "Goodput of all connections over the time in which at least one connection was open. `null`: no connection, this time is zero, or a connection was observed before the period." |r| rate(Goodput::new(r)?.while_open) => "open_goodput_bps";
        "mpwatch_run_excess_ratio" Gauge Ratio "OVERHEAD" "Fraction of the observed wire bytes (estimated) of all connections that delivered no new payload: headers and retransmissions. `null`: nothing was on the wire." |r| class_totals::excess_ratio(&flows(&r.connections)) => "excess_ratio";
    }
}

tabled!(Report, RUN);

fn rate(rate: Option<BitsPerSecond>) -> Option<f64> {
    rate.map(|rate| rate.0 as f64)
}

/// If a connection was observed for longer than it was open in the period, but by at most this, it was not observed before: clocks differ.
const MAX_LEAD: Nanos = Nanos(1_000_000_000);

/// Payload of all connections of a report, each byte once, and its rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Goodput {
    /// Observed payload in both directions.
    pub payload: Bytes,
    /// Rate over the period of the report. `None`: the period has no duration, or a connection was observed before the period, so that it
    /// is unknown how much of its payload belongs to the period.
    pub over_period: Option<BitsPerSecond>,
    /// Rate over the time in which at least one connection was open. `None`: that time is zero, or see `over_period`.
    pub while_open: Option<BitsPerSecond>,
}

impl Goodput {
    /// `None`: the report has no connections.
    pub fn new(report: &Report) -> Option<Self> {
        let flows = flows(&report.connections);
        let payload: Bytes = flows.iter().map(|flow| flow.observed_payload()).sum();
        let lives: Vec<(Timestamp, Timestamp)> = flows.iter().map(|flow| life(*flow, &report.run)).collect();
        let is_inside = |(flow, (from, to)): (&Flow<'_>, &(Timestamp, Timestamp))| {
            let observed = flow.end.observed.map_or(Nanos(0), |observed| observed.duration);
            observed <= duration(*from, *to) + MAX_LEAD
        };
        let are_inside = flows.iter().zip(&lives).all(is_inside);
        let rate = |time: Nanos| (time.0 > 0 && are_inside).then(|| payload.per(time));
        (!flows.is_empty()).then(|| Self {
            payload,
            over_period: rate(duration(report.run.from, report.run.to)),
            while_open: rate(open_time(lives)),
        })
    }
}

/// Time from `from` to `to`. Zero if `to` is earlier.
fn duration(from: Timestamp, to: Timestamp) -> Nanos {
    Nanos(u64::try_from(to.as_nanosecond() - from.as_nanosecond()).unwrap_or(0))
}

/// Start and end of the time in which a connection was open, within the period of a report.
fn life(flow: Flow<'_>, run: &Run) -> (Timestamp, Timestamp) {
    let (from, to) = (run.from, run.to.max(run.from));
    let opened = flow.end.opened_at.unwrap_or(from).clamp(from, to);
    (opened, flow.end.closed_at.unwrap_or(to).clamp(opened, to))
}

/// The length of the union of some intervals.
fn open_time(mut intervals: Vec<(Timestamp, Timestamp)>) -> Nanos {
    intervals.sort_unstable();
    let (mut sum, mut end) = (0, Timestamp::MIN);
    for (from, to) in intervals {
        sum += duration(from.max(end), to).0;
        end = end.max(to);
    }
    Nanos(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlapping_intervals_count_once() {
        let at = |second: i64| Timestamp::from_second(second).unwrap();
        let intervals = [(5, 7), (0, 4), (1, 2), (3, 5), (10, 11)].map(|(from, to)| (at(from), at(to)));
        assert_eq!(open_time(intervals.to_vec()), Nanos(8_000_000_000));
        assert_eq!(open_time(Vec::new()), Nanos(0));
    }
}
