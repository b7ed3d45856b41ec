// SPDX-License-Identifier: MIT OR Apache-2.0
//! What goes into a store comes out of it again, also where the disk is full, the writer is behind or the file is somebody else's.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use jiff::SignedDuration;
use mpwatch_model::connection::Connection as Flow;
use mpwatch_model::fixture;
use mpwatch_model::id::SocketCookie;
use mpwatch_model::lifecycle::CloseReason;
use mpwatch_model::series::{CounterSample, CounterSeries};
use mpwatch_model::snapshot::{Report, Snapshot};
use mpwatch_model::timeline::{ObservedBy, TimelineEntry, TimelineEvent};
use mpwatch_model::unit::Bytes;
use rusqlite::Connection;
use tempfile::TempDir;

use super::queue::Load;
use super::writer::Writer;
use super::*;

mod runs;
mod views;

fn folder() -> (TempDir, PathBuf) {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("flows.db");
    (folder, file)
}

/// A snapshot this many seconds after the first.
fn tick(second: i64, connections: Vec<Flow>) -> Arc<Snapshot> {
    let mut snapshot = fixture::snapshot(connections);
    snapshot.at += SignedDuration::from_secs(second);
    Arc::new(snapshot)
}

/// The same connection once more, as another one.
fn another(connection: &Flow, birth: u64) -> Flow {
    let mut other = connection.clone();
    other.id.birth = SocketCookie(birth);
    other
}

fn read(file: &std::path::Path) -> (Report, CounterSeries) {
    Archive::open(file).unwrap().report(Period::default()).unwrap()
}

/// What follows from the rest is not stored: the fixtures' made-up values of it are put right.
fn consistent(mut connection: Flow) -> Flow {
    for subflow in &mut connection.subflows {
        let payload = subflow.bytes_sent + subflow.bytes_received;
        subflow.energy = subflow.energy.map(|energy| energy.over(payload));
    }
    let payload = connection.bytes_sent.unwrap() + connection.bytes_received.unwrap();
    connection.energy = connection.energy.map(|energy| energy.over(payload));
    connection
}

fn all_kinds() -> Vec<Flow> {
    let mut odd = fixture::failover(4);
    // Things in an order, and at times, that no rule gives.
    let subflow = odd.subflows[1].id;
    let told =
        |micros, what| TimelineEntry { at: fixture::at(micros), source: ObservedBy::Sampled, event: what };
    odd.timeline.push(told(1, TimelineEvent::PriorityChanged { subflow, backup: true }));
    odd.timeline.push(told(0, TimelineEvent::Opened));
    odd.timeline.push(told(2, TimelineEvent::SubflowClosed { subflow, reason: CloseReason::Unknown }));
    odd.timeline.push(told(3, TimelineEvent::PeerAddressAnnounced { address_id: 9, address: None }));
    odd.timeline.push(told(4, TimelineEvent::PeerAddressRemoved { address_id: 9 }));
    odd.timeline.push(told(5, TimelineEvent::AddressAnnounced { total: 2 }));
    let mut bare = fixture::connection(5, 1);
    bare.subflows.clear();
    fixture::settle(&mut bare);
    (bare.local, bare.process, bare.cgroup, bare.role, bare.timeline) = (None, None, None, None, Vec::new());
    let mut large = fixture::connection(u32::MAX, 2);
    large.subflows[0].id.cookie = SocketCookie(u64::MAX);
    large.subflows[0].bytes_sent = Bytes(1 << 62);
    large.subflows[1].energy = None;
    large.subflows[1].cpu = None;
    large.bottlenecks = Some(fixture::bottleneck::disjoint(&large.subflows));
    large.timeline.clear();
    fixture::settle(&mut large);
    let all = vec![fixture::closed(1), fixture::failover(2), fixture::fallen_back(3), odd, bare, large];
    all.into_iter().map(consistent).collect()
}

#[test]
fn a_connection_comes_out_as_it_went_in() {
    let (_folder, file) = folder();
    let beginning = Beginning { boot_id: fixture::host().boot_id, at: fixture::at(-250_000) };
    let store = Store::open_run(&file, &Limits::none(), Some(&beginning)).unwrap();
    store.deliver(&tick(0, all_kinds()));
    assert_eq!(store.close(), StoreLosses::default());
    let mut given = fixture::report(all_kinds());
    given.connections.sort_by_key(|connection| (connection.opened_at, connection.id));
    let (found, _) = read(&file);
    for (found, given) in found.connections.iter().zip(&given.connections) {
        assert_eq!(found, given);
    }
    assert_eq!(found, given);
}

#[test]
fn ordinary_timelines_need_no_events() {
    let (_folder, file) = folder();
    let store = Store::open(&file, &Limits::none()).unwrap();
    store.deliver(&tick(0, vec![fixture::closed(1)]));
    store.close();
    let database = Connection::open(&file).unwrap();
    let count = |table: &str| -> i64 {
        database.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0)).unwrap()
    };
    assert_eq!((count("event"), count("v_event")), (0, 8));
}

#[test]
fn the_last_picture_of_a_connection_is_kept_once() {
    let (_folder, file) = folder();
    let store = Store::open(&file, &Limits::none()).unwrap();
    let open = consistent(fixture::connection(1, 2));
    store.deliver(&tick(0, vec![open.clone()]));
    let mut closed = consistent(fixture::closed(1));
    store.deliver(&tick(1, vec![closed.clone()]));
    closed.bytes_acked = Some(Bytes(7));
    store.deliver(&tick(2, vec![closed.clone()]));
    store.deliver(&tick(3, vec![closed.clone(), consistent(fixture::connection(2, 1))]));
    store.deliver(&tick(4, Vec::new()));
    store.close();
    let (report, samples) = read(&file);
    assert_eq!(report.connections.len(), 2, "the second was last seen open, and is kept so");
    assert_eq!(report.connections[0], closed);
    assert!(report.connections[1].is_open());
    assert_eq!(samples[&(open.id, open.subflows[0].id)].len(), 1, "a long flow was sampled");
}

/// Samples of ten minutes of a connection that carries so much each second.
fn samples_of_ten_minutes(each_second: u64) -> Vec<CounterSample> {
    let (_folder, file) = folder();
    let store = Store::open(&file, &Limits::none()).unwrap();
    for second in 0..600_u32 {
        let mut flow = fixture::connection(1, 1);
        flow.age_s = 1.0 + f64::from(second);
        flow.bytes_sent = flow.bytes_sent.map(|bytes| bytes + Bytes(each_second * u64::from(second)));
        store.deliver(&tick(second.into(), vec![flow]));
    }
    store.close();
    read(&file).1.into_values().next().unwrap()
}

#[test]
fn samples_are_sparse() {
    let (busy, idle) = (samples_of_ten_minutes(1), samples_of_ten_minutes(0));
    assert!((50..100).contains(&busy.len()), "{} samples", busy.len());
    assert!((2..20).contains(&idle.len()), "{} samples of nothing new", idle.len());
    assert!(busy.is_sorted_by_key(|sample| sample.at));
}

#[test]
fn what_the_disk_has_no_room_for_waits() {
    let (_folder, file) = folder();
    let (database, _lock) = open::for_writing(&file).unwrap();
    let limits = Limits { backlog: 30, ..Limits::none() };
    let shared = Arc::new(Shared(Mutex::new(Status { limits, ..Status::default() })));
    let mut writer = Writer::new(database, Arc::clone(&shared)).unwrap();
    writer.take(Load::of(&tick(0, vec![fixture::closed(1)])));
    let pages: i64 = writer.database.pragma_query_value(None, "page_count", |row| row.get(0)).unwrap();
    writer.database.pragma_update_and_check(None, "max_page_count", pages, |_| Ok(())).unwrap();
    let many: Vec<Flow> = (0..40).map(|n| another(&fixture::closed(2), 100 + n)).collect();
    writer.take(Load::of(&tick(1, many)));
    let losses = shared.with(|status| status.losses.clone());
    assert!(losses.paused.unwrap().contains("the disk is full; 30 connections wait"), "it says so");
    assert_eq!(losses.flows_lost, 10, "what has no room in memory either is counted");
    writer.database.pragma_update_and_check(None, "max_page_count", 1_000_000, |_| Ok(())).unwrap();
    writer.take(Load::of(&tick(2, vec![fixture::closed(3)])));
    let losses = shared.with(|status| status.losses.clone());
    assert_eq!((losses.paused, losses.flows_lost), (None, 10));
    writer.finish(Duration::ZERO);
    assert_eq!(read(&file).0.connections.len(), 1 + 30 + 1);
    assert_eq!(shared.with(|status| status.written), 32);
}

/// Offers ten snapshots, of one closed connection each, to a writer that is held up; what is in the file afterwards.
fn behind(backlog: usize) -> (Report, StoreLosses) {
    let (_folder, file) = folder();
    let store = Store::open(&file, &Limits { queue: 1, backlog, ..Limits::none() }).unwrap();
    let other = Connection::open(&file).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    for second in 0..10 {
        store.offer(&tick(second, vec![another(&fixture::closed(1), 1 + second.cast_unsigned())]));
    }
    let losses = store.losses();
    assert!((1..10).contains(&losses.snapshots_dropped), "{losses:?}");
    other.execute_batch("ROLLBACK").unwrap();
    // Where it says so, it has written what waits.
    store.close();
    let (report, _) = read(&file);
    assert_eq!(report.losses.store_snapshots_dropped, losses.snapshots_dropped, "every report tells");
    (report, losses)
}

#[test]
fn a_writer_that_is_behind_loses_no_connection_that_closed() {
    let (report, losses) = behind(9);
    assert_eq!((report.connections.len(), losses.flows_lost), (10, 0));
}

#[test]
fn what_has_no_room_while_the_writer_is_behind_is_counted() {
    let (report, losses) = behind(2);
    assert_eq!(report.connections.len() as u64, 10 - losses.flows_lost);
    assert_eq!(report.losses.store_flows_lost, losses.flows_lost);
    assert!(losses.flows_lost >= 1, "{losses:?}");
}

#[test]
fn the_oldest_go_first() {
    let (_folder, file) = folder();
    let limits = Limits { age: Some(Duration::from_hours(1)), ..Limits::none() };
    let store = Store::open(&file, &limits).unwrap();
    store.deliver(&tick(0, vec![another(&fixture::failover(1), 1), fixture::closed(1)]));
    let mut late = fixture::closed(2);
    late.timeline.clear();
    late.opened_at = late.opened_at.map(|at| at + SignedDuration::from_hours(2));
    late.closed_at = late.closed_at.map(|at| at + SignedDuration::from_hours(2));
    store.deliver(&tick(7_200, vec![late.clone()]));
    store.close();
    let (report, _) = read(&file);
    assert_eq!(report.connections.iter().map(|one| one.id).collect::<Vec<_>>(), [late.id]);
    let database = Connection::open(&file).unwrap();
    let left = "SELECT (SELECT count(*) FROM subflow) + (SELECT count(*) FROM event) + (SELECT count(*) FROM sample) + (SELECT count(*) FROM verdict)";
    assert_eq!(database.query_row(left, [], |row| row.get::<_, i64>(0)).unwrap(), 2 + 1);
}

#[test]
fn the_file_keeps_its_size() {
    let (_folder, file) = folder();
    let limits = Limits { bytes: Some(400_000), ..Limits::none() };
    let store = Store::open(&file, &limits).unwrap();
    for second in 0..20_i64 {
        let first = 1 + second * 200;
        let flows = (first..first + 200).map(|birth| another(&fixture::closed(1), birth.cast_unsigned()));
        store.deliver(&tick(second, flows.collect()));
    }
    while store.figures().retired == 0 && store.losses().paused.is_none() {
        std::thread::yield_now();
    }
    store.close();
    assert!(std::fs::metadata(&file).unwrap().len() < 600_000);
    let kept: Vec<u64> = read(&file).0.connections.iter().map(|one| one.id.birth.0).collect();
    assert!(kept.contains(&4_000) && !kept.contains(&1), "the newest are kept: {kept:?}");
}

#[test]
fn files_that_cannot_be_used_are_told_apart() {
    let (folder, file) = folder();
    let refused = |path: &std::path::Path| match Store::open(path, &Limits::none()) {
        Ok(_) => panic!("{} was taken", path.display()),
        Err(error) => error,
    };
    let store = Store::open(&file, &Limits::none()).unwrap();
    assert!(matches!(refused(&file), StoreError::InUse { .. }));
    store.close();
    let text = folder.path().join("notes.txt");
    std::fs::write(&text, "nothing of ours, and more than the hundred bytes of a header ".repeat(20))
        .unwrap();
    assert!(matches!(refused(&text), StoreError::NotOurs { .. }), "{}", refused(&text));
    let other = folder.path().join("other.db");
    Connection::open(&other).unwrap().execute_batch("CREATE TABLE t (x)").unwrap();
    assert!(matches!(refused(&other), StoreError::NotOurs { .. }));
    assert!(refused(&folder.path().join("none/flows.db")).to_string().contains("folder must exist"));
    let database = Connection::open(&file).unwrap();
    database.pragma_update(None, "user_version", 99).unwrap();
    drop(database);
    let newer = refused(&file);
    assert!(matches!(newer, StoreError::Newer { got: 99, .. }));
    assert!(newer.to_string().contains("use a newer mpwatch"));
    assert!(matches!(Archive::open(&file), Err(StoreError::Newer { .. })));
    assert!(
        Archive::open(&folder.path().join("no.db")).is_err_and(|e| e.to_string().contains("no such file"))
    );
}

#[test]
fn a_second_run_is_added() {
    let (_folder, file) = folder();
    for run in 0..2 {
        let store = Store::open(&file, &Limits::none()).unwrap();
        let mut snapshot = fixture::snapshot(vec![another(&fixture::closed(1), 1 + run)]);
        snapshot.losses = fixture::losses();
        store.deliver(&Arc::new(snapshot));
        store.close();
    }
    let (report, _) = read(&file);
    assert_eq!(
        (report.connections.len(), report.losses.records_lost),
        (2, 2 * fixture::losses().records_lost)
    );
    assert_eq!(report.energy, None, "totals of one run are not those of both");
}

#[test]
fn a_period_has_what_lived_in_it() {
    let (_folder, file) = folder();
    let store = Store::open(&file, &Limits::none()).unwrap();
    store.deliver(&tick(0, vec![fixture::closed(1)]));
    store.close();
    let archive = Archive::open(&file).unwrap();
    let count = |since: Option<i64>, until: Option<i64>| {
        let period = Period { since: since.map(fixture::at), until: until.map(fixture::at) };
        archive.report(period).unwrap().0.connections.len()
    };
    assert_eq!((count(Some(0), None), count(Some(11_000_000), Some(11_500_000))), (1, 1));
    assert_eq!((count(Some(12_000_001), None), count(None, Some(-1))), (0, 0));
}
