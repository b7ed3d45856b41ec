// SPDX-License-Identifier: MIT OR Apache-2.0
//! How fast a store takes closed connections of two subflows, what CPU time that costs, how large they are in the file, and how long it
//! takes to read them back:
//! `./dev bench store [CONNECTIONS]`. Prints a table in Markdown.
#![allow(clippy::unwrap_used, reason = "a measurement: what fails here is to be seen")]

use std::sync::Arc;
use std::time::Instant;

use jiff::SignedDuration;
use mpwatch_model::connection::Connection;
use mpwatch_model::fixture;
use mpwatch_model::id::{SocketCookie, Token};
use mpwatch_model::timeline::TimelineEvent;
use mpwatch_model::unit::Bytes;
use mpwatch_store::{Archive, Limits, Period, Store};

const IN_A_SNAPSHOT: u32 = 1_000;

/// A connection of its own token, cookies, ports, times and counts, as large as `share` of the fixture's.
fn one(template: &Connection, number: u32, share: u64) -> Connection {
    let mut flow = template.clone();
    let token = Token(number.wrapping_mul(0x9e37_79b9));
    (flow.id.token, flow.id.birth) = (token, SocketCookie(u64::from(number) * 3));
    (flow.token, flow.remote_token) = (Some(token), Some(Token(token.0.rotate_left(7))));
    let (spread, later) = (u64::from(number % 97), SignedDuration::from_micros(i64::from(number) * 37));
    for (subflow, nth) in flow.subflows.iter_mut().zip(1..) {
        subflow.id.cookie = SocketCookie(u64::from(number) * 3 + nth);
        subflow.local.set_port(32_768 + u16::try_from(number % 28_000).unwrap());
        for bytes in
            [&mut subflow.bytes_sent, &mut subflow.bytes_acked, &mut subflow.wire_bytes_sent_estimate]
        {
            *bytes = Bytes(bytes.0 / share + spread);
        }
        subflow.created_at = subflow.created_at.map(|at| at + later);
        subflow.closed = subflow.closed.map(|mut closed| {
            closed.at += later;
            closed
        });
    }
    for entry in &mut flow.timeline {
        entry.at += later;
    }
    let ids: Vec<_> = flow.subflows.iter().map(|subflow| subflow.id).collect();
    let mut last = 0;
    for entry in &mut flow.timeline {
        match &mut entry.event {
            TimelineEvent::SubflowOpened { subflow }
            | TimelineEvent::SubflowEstablished { subflow }
            | TimelineEvent::SubflowClosed { subflow, .. } => {
                *subflow = ids[usize::from(subflow.cookie.0 % 16 == 2)];
                last += 1;
            }
            _ => {}
        }
    }
    assert_eq!(last, 6);
    if let Some(found) = &mut flow.bottlenecks {
        found.groups = ids.iter().map(|id| vec![*id]).collect();
        for pair in &mut found.pairs {
            (pair.a, pair.b) = (ids[0], ids[1]);
        }
    }
    flow.opened_at = flow.opened_at.map(|at| at + later);
    flow.closed_at = flow.closed_at.map(|at| at + later);
    flow
}

/// CPU time of this process, seconds; the kernel counts it in hundredths.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    fields[11..=12].iter().map(|ticks| ticks.parse::<f64>().unwrap()).sum::<f64>() / 100.0
}

fn main() {
    let wanted: u32 = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(50_000);
    let folder = tempfile::TempDir::new().unwrap();
    println!(
        "| connections of two subflows | a second | a second of CPU | bytes each | read back in |\n|---|---:|---:|---:|---:|"
    );
    for (words, share) in [("of 120 MB", 1), ("of 12 kB", 10_000)] {
        let file = folder.path().join("flows.db");
        let _ = std::fs::remove_file(&file);
        let template = fixture::closed(1);
        let snapshots: Vec<_> = (0..wanted.div_ceil(IN_A_SNAPSHOT))
            .map(|turn| {
                let first = turn * IN_A_SNAPSHOT + 1;
                let flows = (first..first + IN_A_SNAPSHOT).map(|number| one(&template, number, share));
                let mut snapshot = fixture::snapshot(flows.collect());
                snapshot.at += SignedDuration::from_secs(i64::from(turn));
                Arc::new(snapshot)
            })
            .collect();
        let store = Store::open(&file, &Limits::none()).unwrap();
        let (start, cpu) = (Instant::now(), cpu_seconds());
        for snapshot in &snapshots {
            store.deliver(snapshot);
        }
        store.close();
        let (seconds, cpu) = (start.elapsed().as_secs_f64(), cpu_seconds() - cpu);
        drop(snapshots);
        let flows = f64::from(wanted.div_ceil(IN_A_SNAPSHOT) * IN_A_SNAPSHOT);
        let size = std::fs::metadata(&file).unwrap().len() as f64;
        let start = Instant::now();
        let (report, _) = Archive::open(&file).unwrap().report(Period::default()).unwrap();
        assert!((report.connections.len() as f64 - flows).abs() < 0.5);
        let read = start.elapsed().as_secs_f64();
        println!(
            "| {flows} {words} | {:.0} | {:.0} | {:.0} | {read:.1} s |",
            flows / seconds,
            flows / cpu,
            size / flows
        );
    }
}
