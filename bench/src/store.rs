// SPDX-License-Identifier: MIT OR Apache-2.0
//! `./dev bench store [CONNECTIONS]`: measures the connections written per second and per second of CPU time, their size in the file, and
//! the time to read them. Each connection has two subflows.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use jiff::SignedDuration;
use mpwatch_fixtures as fixture;
use mpwatch_model::flow::bottleneck::Bottlenecks;
use mpwatch_model::flow::connection::Connection;
use mpwatch_model::flow::subflow::Subflow;
use mpwatch_model::flow::timeline::{TimelineEntry, TimelineEvent};
use mpwatch_model::id::{SocketCookie, SubflowId, Token};
use mpwatch_model::snapshot::Snapshot;
use mpwatch_model::unit::Bytes;
use mpwatch_store::{Archive, Limits, Period, Store, StoreError};

use crate::process::own_cpu_time;
use crate::table::{figure, markdown};

const PER_SNAPSHOT: u32 = 1_000;
const DEFAULT_CONNECTIONS: u32 = 50_000;

pub(crate) fn run(
    mut arguments: impl Iterator<Item = String>,
    mut print: impl FnMut(&str),
) -> Result<(), String> {
    let connections = match arguments.next().map(|text| text.parse()) {
        None => DEFAULT_CONNECTIONS,
        Some(Ok(connections)) if connections > 0 => connections,
        Some(_) => return Err("`store` needs a number of connections".to_owned()),
    };
    let folder = tempfile::TempDir::new().expect("a folder for the database");
    let sizes = [("120 MB", 1), ("12 kB", 10_000)];
    let rows =
        sizes.map(|(size, divisor)| measure(&folder.path().join("flows.db"), connections, size, divisor));
    let header = [
        "connections of two subflows",
        "payload of each",
        "written per second",
        "per second of CPU time",
        "bytes each",
        "time to read back",
    ];
    print(&markdown(&header, &rows));
    Ok(())
}

fn measure(file: &Path, wanted: u32, size: &str, divisor: u64) -> Vec<String> {
    // The file may exist from the previous measurement.
    let _ = fs::remove_file(file);
    let count = wanted.div_ceil(PER_SNAPSHOT) * PER_SNAPSHOT;
    let snapshots = snapshots(count, divisor);
    let store = Store::open(file, &Limits::none()).expect("the database can be created");
    let (start, cpu) = (Instant::now(), own_cpu_time());
    for snapshot in &snapshots {
        store.deliver(snapshot);
    }
    store.close();
    let (seconds, cpu) = (start.elapsed().as_secs_f64(), own_cpu_time().saturating_sub(cpu).as_secs_f64());
    drop(snapshots);
    let bytes = fs::metadata(file).expect("the database was written").len() as f64;
    let start = Instant::now();
    let archive = Archive::open(file).expect("the database can be opened");
    let read = archive.parts(Period::default(), None, usize::MAX, |report, _| {
        assert_eq!(report.connections.len(), count as usize, "every connection was stored");
        Ok::<_, StoreError>(())
    });
    read.expect("the database can be read");
    let count = f64::from(count);
    vec![
        count.to_string(),
        size.to_owned(),
        format!("{:.0}", count / seconds),
        format!("{:.0}", count / cpu),
        format!("{:.0}", bytes / count),
        format!("{} s", figure(start.elapsed().as_secs_f64())),
    ]
}

/// Snapshots with `count` closed connections, 1 000 per snapshot.
fn snapshots(count: u32, divisor: u64) -> Vec<Arc<Snapshot>> {
    let template = fixture::closed(1);
    let of_second = |second: u32| {
        let first = second * PER_SNAPSHOT + 1;
        let connections = (first..first + PER_SNAPSHOT).map(|number| connection(&template, number, divisor));
        let mut snapshot = fixture::snapshot(connections.collect());
        snapshot.at += SignedDuration::from_secs(i64::from(second));
        Arc::new(snapshot)
    };
    (0..count / PER_SNAPSHOT).map(of_second).collect()
}

/// A connection with token, cookies, ports, times and counters that depend on `number`. Byte counters are divided by `divisor`.
pub(crate) fn connection(template: &Connection, number: u32, divisor: u64) -> Connection {
    let mut connection = template.clone();
    let token = Token(number.wrapping_mul(0x9e37_79b9));
    (connection.id.token, connection.id.birth) = (token, SocketCookie(u64::from(number) * 3));
    (connection.token, connection.remote_token) = (Some(token), Some(Token(token.0.rotate_left(7))));
    let delay = SignedDuration::from_micros(i64::from(number) * 37);
    let extra_bytes = u64::from(number % 97);
    for (subflow, nth) in connection.subflows.iter_mut().zip(1..) {
        subflow.id.cookie = SocketCookie(u64::from(number) * 3 + nth);
        subflow.local.set_port(32_768 + u16::try_from(number % 28_000).expect("below 28 000"));
        vary(subflow, delay, |bytes| Bytes(bytes.0 / divisor + extra_bytes));
    }
    let ids: Vec<SubflowId> = connection.subflows.iter().map(|subflow| subflow.id).collect();
    for entry in &mut connection.timeline {
        entry.at += delay;
        rename(entry, &ids);
    }
    if let Some(found) = &mut connection.bottlenecks {
        rename_pairs(found, &ids);
    }
    connection.opened_at = connection.opened_at.map(|at| at + delay);
    connection.closed_at = connection.closed_at.map(|at| at + delay);
    connection
}

fn vary(subflow: &mut Subflow, delay: SignedDuration, scale: impl Fn(Bytes) -> Bytes) {
    for bytes in [&mut subflow.bytes_sent, &mut subflow.bytes_acked, &mut subflow.wire_bytes_sent_estimate] {
        *bytes = scale(*bytes);
    }
    subflow.created_at = subflow.created_at.map(|at| at + delay);
    if let Some(closed) = &mut subflow.closed {
        closed.at += delay;
    }
}

/// Replaces the template's subflow ids in a timeline entry. The template's second subflow has a cookie whose last hexadecimal digit is 2.
fn rename(entry: &mut TimelineEntry, ids: &[SubflowId]) {
    if let TimelineEvent::SubflowOpened { subflow }
    | TimelineEvent::SubflowEstablished { subflow }
    | TimelineEvent::SubflowClosed { subflow, .. } = &mut entry.event
    {
        *subflow = ids[usize::from(subflow.cookie.0 % 16 == 2)];
    }
}

fn rename_pairs(found: &mut Bottlenecks, ids: &[SubflowId]) {
    found.groups = ids.iter().map(|id| vec![*id]).collect();
    for pair in &mut found.pairs {
        (pair.a, pair.b) = (ids[0], ids[1]);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn connections_of_the_bench_are_distinct_and_refer_to_their_own_subflows() {
        let snapshots = snapshots(2 * PER_SNAPSHOT, 10_000);
        let all: Vec<&Connection> = snapshots.iter().flat_map(|snapshot| &snapshot.connections).collect();
        assert_eq!(all.iter().map(|connection| connection.id).collect::<BTreeSet<_>>().len(), 2_000);
        for connection in all {
            let ids: Vec<SubflowId> = connection.subflows.iter().map(|subflow| subflow.id).collect();
            let mentioned = connection.timeline.iter().filter_map(|entry| match entry.event {
                TimelineEvent::SubflowOpened { subflow } => Some(subflow),
                _ => None,
            });
            assert_eq!(mentioned.collect::<Vec<_>>(), ids);
        }
    }

    #[test]
    fn a_database_is_measured_and_a_wrong_number_refused() {
        let mut text = String::new();
        run(["1000".to_owned()].into_iter(), |piece| text += piece).unwrap();
        assert!(text.contains("| 1000 | 120 MB |") && text.contains("| 1000 | 12 kB |"), "{text}");
        assert!(run(["many".to_owned()].into_iter(), |_| {}).is_err());
    }
}
