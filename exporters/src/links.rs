// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which link carried what in each minute, and in which ratio, as CSV: a row for each minute, network namespace and interface. Between two
//! points at which the counters of a subflow are known, its bytes are spread evenly; none is lost or counted twice by that.

use std::collections::BTreeMap;

use jiff::Timestamp;
use mpwatch_model::connection::Connection;
use mpwatch_model::snapshot::Report;
use mpwatch_model::subflow::Subflow;

use mpwatch_model::series::{CounterSample, CounterSeries};

const MINUTE: i128 = 60_000_000_000;

/// Columns of a row.
const HEADER: [&str; 7] =
    ["minute", "netns", "interface", "bytes_sent", "bytes_received", "share_sent", "share_received"];

/// Payload by minute (since 1970), namespace and interface.
type Links = BTreeMap<(i128, String, String), [u64; 2]>;

/// Where the counters of a subflow stood at a time.
#[derive(Clone, Copy)]
struct CounterReading {
    at_ns: i128,
    /// Sent and received.
    bytes: [u64; 2],
}

/// All minutes of a report in which something was carried. What a connection had carried before mpwatch came is in none.
pub fn per_minute(report: &Report, samples: &CounterSeries) -> Result<String, csv::Error> {
    let mut links = Links::new();
    for connection in &report.connections {
        for subflow in &connection.subflows {
            let of_it = samples.get(&(connection.id, subflow.id)).map_or(&[][..], Vec::as_slice);
            let points = points(connection, subflow, of_it, report.run.to);
            let interface =
                subflow.interface.as_ref().map(|name| name.text().into_owned()).unwrap_or_default();
            for pair in points.windows(2) {
                spread(pair[0], pair[1], |minute, bytes| {
                    let key = (minute, connection.netns.clone(), interface.clone());
                    let link = links.entry(key).or_default();
                    link.iter_mut().zip(bytes).for_each(|(sum, part)| *sum += part);
                });
            }
        }
    }
    written(&links)
}

fn points(
    connection: &Connection,
    subflow: &Subflow,
    samples: &[CounterSample],
    last: Timestamp,
) -> Vec<CounterReading> {
    let began = subflow.created_at.map(|at| CounterReading { at_ns: at.as_nanosecond(), bytes: [0, 0] });
    let ended = subflow.closed.map(|closed| closed.at).or(connection.closed_at).unwrap_or(last);
    let finals = [subflow.bytes_sent.0, subflow.bytes_received.0];
    let middle = samples.iter().map(|sample| CounterReading {
        at_ns: sample.at.as_nanosecond(),
        bytes: [sample.bytes_sent.0, sample.bytes_received.0],
    });
    let end = CounterReading { at_ns: ended.as_nanosecond(), bytes: finals };
    began.into_iter().chain(middle).chain([end]).collect()
}

/// Gives each minute between two points its part, in whole bytes that sum to what was carried.
fn spread(from: CounterReading, to: CounterReading, mut give: impl FnMut(i128, [u64; 2])) {
    let whole: [u64; 2] = std::array::from_fn(|way| to.bytes[way].saturating_sub(from.bytes[way]));
    if whole == [0, 0] {
        return;
    }
    let lasted = to.at_ns - from.at_ns;
    let last = to.at_ns.div_euclid(MINUTE);
    let mut given = [0, 0];
    for minute in from.at_ns.min(to.at_ns).div_euclid(MINUTE)..=last {
        let passed = ((minute + 1) * MINUTE - from.at_ns).min(lasted);
        let until: [u64; 2] =
            if minute == last { whole } else { whole.map(|bytes| part(bytes, passed, lasted)) };
        give(minute, std::array::from_fn(|way| until[way] - given[way]));
        given = until;
    }
}

fn part(bytes: u64, passed: i128, lasted: i128) -> u64 {
    if lasted <= 0 {
        return bytes;
    }
    u64::try_from(i128::from(bytes) * passed / lasted).unwrap_or(bytes).min(bytes)
}

fn written(links: &Links) -> Result<String, csv::Error> {
    let mut totals: BTreeMap<(i128, &str), [u64; 2]> = BTreeMap::new();
    for ((minute, netns, _), bytes) in links {
        let total = totals.entry((*minute, netns)).or_default();
        total.iter_mut().zip(bytes).for_each(|(sum, part)| *sum += part);
    }
    let mut writer = csv::WriterBuilder::new().terminator(csv::Terminator::CRLF).from_writer(Vec::new());
    writer.write_record(HEADER)?;
    for ((minute, netns, interface), bytes) in links {
        let total = totals.get(&(*minute, netns.as_str())).copied().unwrap_or_default();
        let [sent, received] = std::array::from_fn(|way| share(bytes[way], total[way]));
        let at = Timestamp::from_nanosecond(minute * MINUTE).unwrap_or(Timestamp::MAX).to_string();
        writer.write_record([
            &at,
            netns,
            interface,
            &bytes[0].to_string(),
            &bytes[1].to_string(),
            &sent,
            &received,
        ])?;
    }
    let bytes = writer.into_inner().map_err(csv::IntoInnerError::into_error)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Empty where nothing was carried that way.
fn share(bytes: u64, total: u64) -> String {
    if total == 0 { String::new() } else { format!("{:.4}", bytes as f64 / total as f64) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::SignedDuration;
    use mpwatch_model::fixture;
    use mpwatch_model::unit::Bytes;

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
    fn every_byte_is_in_one_minute_and_shares_of_a_minute_sum_to_one() {
        let report = fixture::report(vec![fixture::closed(1), fixture::failover(2)]);
        let rows = rows(&report, &CounterSeries::new());
        let subflows = || report.connections.iter().flat_map(|one| &one.subflows);
        assert_eq!(sum(&rows, 3), subflows().map(|one| one.bytes_sent.0).sum::<u64>());
        assert_eq!(sum(&rows, 4), subflows().map(|one| one.bytes_received.0).sum::<u64>());
        for row in &rows {
            let of_minute = rows.iter().filter(|other| other[..2] == row[..2]);
            let shares: f64 = of_minute.map(|other| other[5].parse::<f64>().unwrap()).sum();
            assert!((shares - 1.0).abs() < 1e-3, "{rows:?}");
        }
    }

    #[test]
    fn samples_say_in_which_minute() {
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
        let of_it = vec![sample(1, 100), sample(3, 900)];
        let samples = CounterSeries::from([((flow.id, flow.subflows[0].id), of_it)]);
        let rows = rows(&report, &samples);
        let sent: Vec<&str> = rows.iter().map(|row| row[3].as_str()).collect();
        assert_eq!(sent[..4], ["100", "400", "400", "100"], "{rows:?}");
        assert_eq!(sum(&rows, 3), 1_000);
        assert_eq!(rows[0][0], "2026-03-01T12:00:00Z");
    }

    #[test]
    fn what_was_carried_before_mpwatch_came_is_in_no_minute() {
        let mut flow = fixture::connection(1, 1);
        flow.subflows[0].created_at = None;
        assert!(rows(&fixture::report(vec![flow]), &CounterSeries::new()).is_empty());
    }
}
