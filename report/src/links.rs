// SPDX-License-Identifier: MIT OR Apache-2.0
//! CSV: bytes and share of traffic per minute, network namespace and interface. The bytes between two readings are spread evenly over time,
//! in whole bytes. Like `share_sent` of a subflow, shares refer to payload without retransmissions.

use std::collections::BTreeMap;

use jiff::Timestamp;
use mpwatch_model::flow::connection::Connection;
use mpwatch_model::flow::series::{CounterSample, CounterSeries};
use mpwatch_model::flow::subflow::Subflow;
use mpwatch_model::kernel::endpoint::Name;
use mpwatch_model::snapshot::Report;
use mpwatch_model::unit::Bytes;

use crate::csv::{cell, text};

const NANOS_PER_MINUTE: i128 = 60_000_000_000;

/// Maximum number of minutes (a month) over which bytes are spread. Of bytes in a longer interval, for example after a wrong clock was set, the
/// time is unknown: they belong to its last minute.
const MAX_MINUTES: i128 = 31 * 24 * 60;

const HEADER: [&str; 7] =
    ["minute", "netns", "interface", "bytes_sent", "bytes_received", "share_sent", "share_received"];

/// Bytes of payload sent, received, and sent without retransmissions.
type Payload = [u64; 3];

/// Payload by minute (since 1970), namespace and interface.
type Links = BTreeMap<(i128, String, String), Payload>;

/// The counters of a subflow at the time `at_ns`.
#[derive(Clone, Copy)]
struct CounterReading {
    at_ns: i128,
    bytes: Payload,
}

/// All minutes with traffic. Traffic before mpwatch started is omitted: then the first reading is at the beginning of the observed part.
pub fn per_minute(report: &Report, samples: &CounterSeries) -> Result<String, csv::Error> {
    let mut links = Links::new();
    for connection in &report.connections {
        for subflow in &connection.subflows {
            let samples = samples.get(&(connection.id, subflow.id)).map_or(&[][..], Vec::as_slice);
            let readings = readings(connection, subflow, samples, report.run.to);
            for pair in readings.windows(2) {
                spread(pair[0], pair[1], |minute, [sent, received, unique]| {
                    let mut charge = |interface: Option<Name>, bytes| {
                        let name = interface.map(|name| name.to_string()).unwrap_or_default();
                        add(links.entry((minute, connection.netns.clone(), name)).or_default(), bytes);
                    };
                    charge(subflow.interface, [sent, 0, unique]);
                    if received > 0 {
                        charge(subflow.incoming_interface, [0, received, 0]);
                    }
                });
            }
        }
    }
    text(&HEADER, rows(&links))
}

fn readings(
    connection: &Connection,
    subflow: &Subflow,
    samples: &[CounterSample],
    run_end: Timestamp,
) -> Vec<CounterReading> {
    let reading = |at: Timestamp, sent: Bytes, received: Bytes, retransmitted| {
        let bytes = [sent.0, received.0, sent.since(retransmitted).0];
        CounterReading { at_ns: at.as_nanosecond(), bytes }
    };
    let middle = samples.iter().map(|sample| {
        reading(sample.at, sample.bytes_sent, sample.bytes_received, sample.bytes_retransmitted)
    });
    let end = subflow.closed.map(|closed| closed.at).or(connection.closed_at).unwrap_or(run_end);
    let (zero, observed) = (Bytes(0), subflow.observed);
    let adopted = || {
        let from = end.checked_sub(std::time::Duration::from_nanos(observed.duration.0)).unwrap_or(end);
        let received = subflow.bytes_received.since(observed.bytes.since(observed.bytes_sent));
        reading(from, subflow.bytes_sent.since(observed.bytes_sent), received, subflow.bytes_retransmitted)
    };
    let start = subflow.created_at.map_or_else(adopted, |at| reading(at, zero, zero, zero));
    let end = reading(end, subflow.bytes_sent, subflow.bytes_received, subflow.bytes_retransmitted);
    [start].into_iter().chain(middle).chain([end]).collect()
}

/// Divides the bytes between two readings among the minutes, in whole bytes.
fn spread(from: CounterReading, to: CounterReading, mut assign: impl FnMut(i128, Payload)) {
    let total: Payload =
        std::array::from_fn(|direction| to.bytes[direction].saturating_sub(from.bytes[direction]));
    if total == Payload::default() {
        return;
    }
    let duration = to.at_ns - from.at_ns;
    let last = to.at_ns.div_euclid(NANOS_PER_MINUTE);
    let mut assigned = Payload::default();
    let first = from.at_ns.min(to.at_ns).div_euclid(NANOS_PER_MINUTE);
    for minute in if last - first > MAX_MINUTES { last } else { first }..=last {
        let elapsed = ((minute + 1) * NANOS_PER_MINUTE - from.at_ns).min(duration);
        let until: Payload =
            if minute == last { total } else { total.map(|bytes| fraction(bytes, elapsed, duration)) };
        assign(minute, std::array::from_fn(|direction| until[direction] - assigned[direction]));
        assigned = until;
    }
}

fn fraction(bytes: u64, elapsed: i128, duration: i128) -> u64 {
    if duration <= 0 {
        return bytes;
    }
    u64::try_from(i128::from(bytes) * elapsed / duration).unwrap_or(bytes).min(bytes)
}

fn add(sum: &mut Payload, bytes: Payload) {
    sum.iter_mut().zip(bytes).for_each(|(sum, bytes)| *sum += bytes);
}

fn rows(links: &Links) -> Vec<Vec<String>> {
    let mut totals: BTreeMap<(i128, &str), Payload> = BTreeMap::new();
    for ((minute, netns, _), bytes) in links {
        add(totals.entry((*minute, netns)).or_default(), *bytes);
    }
    let row = |((minute, netns, interface), bytes): (&(i128, String, String), &Payload)| {
        let total = totals.get(&(*minute, netns.as_str())).copied().unwrap_or_default();
        let at = Timestamp::from_nanosecond(minute * NANOS_PER_MINUTE).unwrap_or(Timestamp::MAX);
        let [sent, received, _] = bytes.map(|bytes| bytes.to_string());
        let [_, share_received, share_sent] =
            std::array::from_fn(|direction| share(bytes[direction], total[direction]));
        vec![at.to_string(), cell(netns), cell(interface), sent, received, share_sent, share_received]
    };
    links.iter().map(row).collect()
}

/// `bytes` as a share of `total`. Empty: no payload in that direction.
fn share(bytes: u64, total: u64) -> String {
    if total == 0 { String::new() } else { format!("{:.4}", bytes as f64 / total as f64) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::SignedDuration;
    use mpwatch_fixtures as fixture;
    use mpwatch_model::flow::observed::Observed;
    use mpwatch_model::unit::Nanos;

    /// Rows without the header.
    fn rows(report: &Report, samples: &CounterSeries) -> Vec<Vec<String>> {
        let text = per_minute(report, samples).unwrap();
        let lines = text.lines().skip(1);
        lines.map(|line| line.split(',').map(str::to_owned).collect()).collect()
    }

    fn sum(rows: &[Vec<String>], column: usize) -> u64 {
        rows.iter().map(|row| row[column].parse::<u64>().unwrap()).sum()
    }

    #[test]
    fn every_byte_is_in_one_minute_and_the_shares_of_a_minute_sum_to_one() {
        let report = fixture::report(vec![fixture::closed(1), fixture::failover(2)]);
        let rows = rows(&report, &CounterSeries::new());
        let subflows = || report.connections.iter().flat_map(|connection| &connection.subflows);
        assert_eq!(sum(&rows, 3), subflows().map(|subflow| subflow.bytes_sent.0).sum::<u64>());
        assert_eq!(sum(&rows, 4), subflows().map(|subflow| subflow.bytes_received.0).sum::<u64>());
        for row in &rows {
            let same_minute = rows.iter().filter(|other| other[..2] == row[..2]);
            let shares: f64 = same_minute.map(|other| other[5].parse::<f64>().unwrap()).sum();
            assert!((shares - 1.0).abs() < 1e-3, "{rows:?}");
        }
    }

    #[test]
    fn a_link_has_the_share_of_its_subflow_without_retransmissions() {
        let mut flow = fixture::connection(1, 2);
        for (subflow, (sent, retransmitted)) in flow.subflows.iter_mut().zip([(900, 600), (700, 0)]) {
            (subflow.bytes_sent, subflow.bytes_retransmitted) = (Bytes(sent), Bytes(retransmitted));
            subflow.share_sent = Some(subflow.unique_sent().0 as f64 / 1_000.0);
        }
        let mut report = fixture::report(vec![flow.clone()]);
        // All traffic is in one minute.
        report.run.to = fixture::at(0) + SignedDuration::from_secs(30);
        let rows = rows(&report, &CounterSeries::new());
        let shares: Vec<f64> = rows.iter().map(|row| row[5].parse().unwrap()).collect();
        let expected: Vec<f64> = flow.subflows.iter().map(|subflow| subflow.share_sent.unwrap()).collect();
        assert_eq!(shares, expected, "{rows:?}");
        assert_eq!(sum(&rows, 3), 1_600, "with retransmissions");
    }

    #[test]
    fn received_bytes_are_charged_to_the_interface_that_they_came_in_by() {
        let mut flow = fixture::connection(1, 1);
        flow.subflows[0].incoming_interface = Some(Name::from("eth9".to_owned()));
        let (sent, received) = (flow.subflows[0].bytes_sent.0, flow.subflows[0].bytes_received.0);
        let rows = rows(&fixture::report(vec![flow]), &CounterSeries::new());
        let (incoming, route): (Vec<_>, Vec<_>) = rows.into_iter().partition(|row| row[2] == "eth9");
        assert_eq!([sum(&route, 3), sum(&route, 4)], [sent, 0]);
        assert_eq!([sum(&incoming, 3), sum(&incoming, 4)], [0, received]);
    }

    #[test]
    fn samples_assign_bytes_to_minutes() {
        let mut flow = fixture::connection(1, 1);
        flow.subflows[0].bytes_sent = Bytes(1_000);
        flow.subflows[0].bytes_received = Bytes(0);
        let mut report = fixture::report(vec![flow.clone()]);
        report.run.to = fixture::at(0) + SignedDuration::from_mins(4);
        let sample = |minutes, bytes| CounterSample {
            at: fixture::at(0) + SignedDuration::from_mins(minutes),
            bytes_sent: Bytes(bytes),
            bytes_received: Bytes(0),
            bytes_retransmitted: Bytes(0),
            srtt: None,
            cwnd_segments: 10,
            active: None,
        };
        let flow_samples = vec![sample(1, 100), sample(3, 900)];
        let samples = CounterSeries::from([((flow.id, flow.subflows[0].id), flow_samples)]);
        let rows = rows(&report, &samples);
        let sent: Vec<&str> = rows.iter().map(|row| row[3].as_str()).collect();
        assert_eq!(sent[..4], ["100", "400", "400", "100"], "{rows:?}");
        assert_eq!(sum(&rows, 3), 1_000);
        assert_eq!(rows[0][0], "2026-03-01T12:00:00Z");
    }

    #[test]
    fn bytes_of_more_than_a_month_belong_to_the_last_minute() {
        let mut flow = fixture::connection(1, 1);
        flow.subflows[0].created_at = Some(Timestamp::UNIX_EPOCH);
        let bytes = flow.subflows[0].bytes_sent.0;
        let rows = rows(&fixture::report(vec![flow]), &CounterSeries::new());
        assert_eq!((rows.len(), sum(&rows, 3)), (1, bytes), "{rows:?}");
    }

    #[test]
    fn traffic_before_mpwatch_started_is_in_no_minute() {
        let mut flow = fixture::connection(1, 1);
        (flow.subflows[0].created_at, flow.subflows[0].observed) = (None, Observed::default());
        assert!(rows(&fixture::report(vec![flow]), &CounterSeries::new()).is_empty());
    }

    #[test]
    fn observed_traffic_of_a_subflow_that_is_older_than_mpwatch_is_spread_over_the_observed_time() {
        let mut flow = fixture::connection(1, 1);
        let subflow = &mut flow.subflows[0];
        subflow.created_at = None;
        (subflow.bytes_sent, subflow.bytes_retransmitted) = (Bytes(10_000), Bytes(0));
        subflow.bytes_received = Bytes(5_000);
        let (bytes, bytes_sent, duration) = (Bytes(900), Bytes(600), Nanos(120_000_000_000));
        subflow.observed = Observed { bytes, bytes_sent, duration, ..Observed::default() };
        let mut report = fixture::report(vec![flow.clone()]);
        report.run.to = fixture::at(0) + SignedDuration::from_secs(570);
        let minutes = |rows: &[Vec<String>]| -> Vec<String> {
            rows.iter().map(|row| format!("{} {} {}", &row[0][14..16], row[3], row[4])).collect()
        };
        let spread = rows(&report, &CounterSeries::new());
        assert_eq!(minutes(&spread), ["07 150 75", "08 300 150", "09 150 75"], "{spread:?}");
        // A restart is not in the observed time, so the first sample may be earlier. Between two samples, all traffic counts.
        let sample = |minute, sent| CounterSample {
            at: fixture::at(0) + SignedDuration::from_mins(minute),
            bytes_sent: Bytes(sent),
            bytes_received: Bytes(5_000),
            bytes_retransmitted: Bytes(0),
            srtt: None,
            cwnd_segments: 10,
            active: None,
        };
        let samples = vec![sample(3, 9_000), sample(4, 9_100)];
        let samples = CounterSeries::from([((flow.id, flow.subflows[0].id), samples)]);
        let with_samples = rows(&report, &samples);
        assert_eq!(sum(&with_samples, 3), 1_000, "{with_samples:?}");
        assert_eq!(minutes(&with_samples)[0], "03 100 300", "{with_samples:?}");
    }
}
