// SPDX-License-Identifier: MIT OR Apache-2.0
//! Many short connections: the number of Prometheus series stays bounded, and their totals are equal to the database.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use jiff::SignedDuration;
use mpwatch_exporters::prometheus::{Totals, expose};
use mpwatch_fixtures as fixture;
use mpwatch_model::flow::connection::Connection;
use mpwatch_model::id::{SocketCookie, Token};
use mpwatch_model::metric::service::Service;
use mpwatch_model::unit::Bytes;
use mpwatch_store::{Limits, Store, StoreLosses};
use rusqlite::OpenFlags;
use tempfile::TempDir;

/// Number of new connections per snapshot. Each connection is in three snapshots.
const PER_SNAPSHOT: u32 = 1_000;
const TOP_FLOWS: usize = 10;

/// A connection that carried some bytes, with its own peer and control group, over one of a few interfaces.
fn flow(number: u32) -> Connection {
    let mut flow = fixture::closed(number + 1);
    let token = Token(number.wrapping_mul(0x9e37_79b9));
    (flow.id.token, flow.id.birth) = (token, SocketCookie(u64::from(number) + 1));
    flow.token = Some(token);
    flow.subflows.truncate(1);
    flow.bottlenecks = None;
    flow.timeline.clear();
    let subflow = &mut flow.subflows[0];
    subflow.id.cookie = flow.id.birth;
    let address = Ipv4Addr::from_bits(Ipv4Addr::new(10, 0, 0, 0).to_bits() + number);
    subflow.remote = SocketAddr::from((address, 5201));
    flow.remote = Some(subflow.remote);
    flow.cgroup = Some(format!("/system.slice/service-{number}.service"));
    (flow.bytes_sent, flow.bytes_received) =
        (Some(Bytes(u64::from(number % 977) * 13 + 1)), Some(Bytes(u64::from(number % 89))));
    flow
}

fn value(text: &str, series: &str) -> i64 {
    let line = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("{series}")).parse().unwrap()
}

fn churn(connections: u32) {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("flows.db");
    let store = Store::open(&file, &Limits::none()).unwrap();
    let mut totals = Totals::new(TOP_FLOWS);
    let turns = connections.div_ceil(PER_SNAPSHOT);
    let mut counts = Vec::new();
    let mut text = String::new();
    for turn in 0..turns + 3 {
        let numbers = (turn.saturating_sub(2) * PER_SNAPSHOT)..((turn + 1).min(turns) * PER_SNAPSHOT);
        let mut snapshot = fixture::snapshot(numbers.map(flow).collect());
        snapshot.at += SignedDuration::from_secs(turn.into());
        let snapshot = Arc::new(snapshot);
        totals.update(&snapshot);
        store.deliver(&snapshot);
        text = expose(&snapshot, &totals.values(), &Service::default());
        counts.push(text.lines().filter(|line| !line.starts_with('#')).count());
    }
    assert_eq!(store.close(), StoreLosses::default());
    let database = rusqlite::Connection::open_with_flags(&file, OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
    let sums = "SELECT count(*), sum(bytes_sent), sum(bytes_received) FROM v_connection";
    let sums: [i64; 3] =
        database.query_row(sums, [], |row| Ok([row.get(0)?, row.get(1)?, row.get(2)?])).unwrap();
    let totals_sent_received = ["mpwatch_host_sent_bytes_total", "mpwatch_host_received_bytes_total"];
    assert_eq!(sums[0], i64::from(turns * PER_SNAPSHOT), "each connection has one row");
    assert_eq!(
        sums[1..],
        totals_sent_received.map(|series| value(&text, series)),
        "metrics and database agree"
    );
    // docs/runbook.md documents the bound. Series of closed connections stay for five more minutes.
    let most = counts.iter().max().unwrap();
    assert!(*most <= 3_500 + 450 * TOP_FLOWS, "{most} series");
    println!("{connections} connections, at most {most} series");
}

#[test]
fn series_stay_bounded_and_totals_equal_the_database() {
    churn(20_000);
}

#[test]
#[ignore = "takes half a minute; the test above does the same with fewer connections: cargo test -p mpwatch-tests --test unit churn -- --ignored"]
fn a_hundred_thousand_short_connections() {
    churn(100_000);
}
