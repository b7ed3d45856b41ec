// SPDX-License-Identifier: MIT OR Apache-2.0
//! A store returns what was written to it, also after a full disk, a slow writer, or a file that cannot be used.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::SignedDuration;
use mpwatch_fixtures as fixture;
use mpwatch_model::flow::bottleneck::DetectionMethod;
use mpwatch_model::flow::connection::Connection;
use mpwatch_model::flow::series::{CounterSample, CounterSeries};
use mpwatch_model::flow::timeline::{ObservedBy, TimelineEntry, TimelineEvent};
use mpwatch_model::host::setup::Label;
use mpwatch_model::id::{NetnsCookie, SocketCookie};
use mpwatch_model::kernel::lifecycle::{CloseReason, FallbackReason};
use mpwatch_model::settle::settled;
use mpwatch_model::snapshot::{Report, Snapshot};
use mpwatch_model::unit::Bytes;
use rusqlite::Connection as Database;
use tempfile::TempDir;

use crate::error::StoreError;
use crate::open;
use crate::schema::values::nanos;
use crate::write::limits::{SharedStatus, Status};
use crate::write::queue::Batch;
use crate::write::writer::Writer;
use crate::{Archive, Limits, Period, RunStart, Store, StoreLosses};

mod bounds;
mod clock;
mod fields;
mod files;
mod idle;
mod knowledge;
mod merge;
mod outbox;
mod recovery;
mod runs;
mod schema;
mod views;

fn folder() -> (TempDir, PathBuf) {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("flows.db");
    (folder, file)
}

/// A snapshot this many seconds after the first.
fn tick(second: i64, connections: Vec<Connection>) -> Arc<Snapshot> {
    let mut snapshot = fixture::snapshot(connections);
    snapshot.at += SignedDuration::from_secs(second);
    Arc::new(snapshot)
}

/// Waits until the writer has reached a state.
#[track_caller]
fn wait_until(condition: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !condition() {
        assert!(Instant::now() < deadline, "not reached within 30 s");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The same connection with another identity.
fn another(connection: &Connection, birth: u64) -> Connection {
    let mut other = connection.clone();
    other.id.birth = SocketCookie(birth);
    other
}

/// The connections of a period in one part.
fn report(
    archive: &Archive,
    period: Period,
    label: Option<&Label>,
) -> Result<(Report, CounterSeries), StoreError> {
    let mut whole = (Report::default(), CounterSeries::new());
    archive.parts(period, label, usize::MAX, |report, samples| {
        whole = (report, samples);
        Ok::<_, StoreError>(())
    })?;
    Ok(whole)
}

fn read(file: &std::path::Path) -> (Report, CounterSeries) {
    report(&Archive::open(file).unwrap(), Period::default(), None).unwrap()
}

fn all_kinds() -> Vec<Connection> {
    let mut bare = fixture::connection(5, 1);
    bare.subflows.clear();
    (bare.opened_at, bare.seen_open) = (None, false);
    fixture::settle(&mut bare);
    (bare.local, bare.process, bare.cgroup, bare.role, bare.timeline) = (None, None, None, None, Vec::new());
    bare.pod = None;
    let mut large = fixture::connection(u32::MAX, 2);
    large.subflows[0].id.cookie = SocketCookie(u64::MAX);
    large.subflows[0].bytes_sent = Bytes(1 << 62);
    large.subflows[1].energy = None;
    large.subflows[1].cpu = None;
    large.bottlenecks = Some(fixture::bottleneck::disjoint(&large.subflows));
    large.timeline.retain(|entry| entry.event == TimelineEvent::Opened);
    large.subflows.iter_mut().for_each(|subflow| subflow.created_at = None);
    fixture::settle(&mut large);
    let mut capped = fixture::failover(6);
    let cap = fixture::bottleneck::cap(&capped.subflows);
    let found = capped.bottlenecks.as_mut().unwrap();
    (found.shared_caps, found.method) = (vec![cap], DetectionMethod::Rfc8382);
    found.pairs[0].probability = Some(0.123_456);
    let pair = &mut found.pairs[1];
    (pair.a, pair.b, pair.evidence, pair.since) = (pair.b, pair.a, None, None);
    let all =
        [fixture::closed(1), fixture::failover(2), fixture::fallen_back(3), eventful(4), bare, large, capped];
    all.map(stopped).into()
}

/// The connection with the rates that its row has: 0 once it has closed.
fn stopped(mut connection: Connection) -> Connection {
    if !connection.is_open() {
        let none = Some(mpwatch_model::unit::BitsPerSecond(0));
        (connection.send, connection.receive) = (none, none);
        connection.subflows.iter_mut().for_each(|subflow| (subflow.send, subflow.receive) = (none, none));
    }
    connection
}

/// A connection with every kind of event, also steps that do not follow from columns.
fn eventful(token: u32) -> Connection {
    let mut flow = fixture::failover(token);
    let (first, second) = (flow.subflows[0].id, flow.subflows[1].id);
    let mut add = |micros, event| {
        flow.timeline.push(TimelineEntry { at: fixture::at(micros), source: ObservedBy::Sampled, event });
    };
    add(1, TimelineEvent::PriorityChanged { subflow: second, backup: true });
    add(0, TimelineEvent::Opened);
    add(2, TimelineEvent::SubflowClosed { subflow: second, reason: CloseReason::Unknown });
    add(3, TimelineEvent::PeerAddressAnnounced { address_id: 9, address: None });
    add(4, TimelineEvent::PeerAddressRemoved { address_id: 9 });
    add(5, TimelineEvent::AddressAnnounced { total: 2 });
    add(6, TimelineEvent::FellBack { reason: FallbackReason::Unknown });
    add(7, TimelineEvent::SubflowStale { subflow: first, stale: false, silent: None });
    settled(flow)
}

#[test]
fn a_connection_is_read_as_it_was_written() {
    let (_folder, file) = folder();
    let start = RunStart { boot_id: fixture::host().boot_id, at: fixture::at(-250_000) };
    let store = Store::open_run(&file, &Limits::none(), Some(&start)).unwrap();
    store.deliver(&tick(0, all_kinds()));
    assert_eq!(store.close(), StoreLosses::default());
    let mut connections = all_kinds();
    connections.sort_by_key(|connection| (connection.opened_at, connection.id));
    let given = fixture::report(connections);
    let (found, _) = read(&file);
    for (found, given) in found.connections.iter().zip(&given.connections) {
        assert_eq!(found, given);
    }
    assert_eq!(found, given);
}

#[test]
fn a_connection_has_one_row_with_its_last_state() {
    let (_folder, file) = folder();
    let store = Store::open(&file, &Limits::none()).unwrap();
    let open = fixture::connection(1, 2);
    store.deliver(&tick(0, vec![open.clone()]));
    let mut closed = stopped(fixture::closed(1));
    store.deliver(&tick(1, vec![closed.clone()]));
    closed.bytes_acked = Some(Bytes(7));
    store.deliver(&tick(2, vec![closed.clone()]));
    store.deliver(&tick(3, vec![closed.clone(), fixture::connection(2, 1)]));
    store.deliver(&tick(4, Vec::new()));
    store.close();
    let (report, samples) = read(&file);
    assert_eq!(report.connections.len(), 2, "the second is open in the last snapshot");
    assert_eq!(report.connections[0], closed);
    assert!(report.connections[1].is_open());
    assert_eq!(samples[&(open.id, open.subflows[0].id)].len(), 1, "a long flow was sampled");
}

/// Samples of a connection that carries this many bytes a second for ten minutes, or is in an outage.
fn samples_of_ten_minutes(bytes_per_second: u64, has_outage: bool) -> Vec<CounterSample> {
    let (_folder, file) = folder();
    let store = Store::open(&file, &Limits::none()).unwrap();
    for second in 0..600_u32 {
        let mut flow = fixture::connection(1, 1);
        flow.age_s = 1.0 + f64::from(second);
        flow.outage_since = has_outage.then(|| fixture::at(0));
        flow.bytes_sent = flow.bytes_sent.map(|bytes| bytes + Bytes(bytes_per_second * u64::from(second)));
        store.deliver(&tick(second.into(), vec![flow]));
    }
    store.close();
    read(&file).1.into_values().next().unwrap()
}

#[test]
fn idle_connections_are_sampled_less_often() {
    let (busy, idle) = (samples_of_ten_minutes(1, false), samples_of_ten_minutes(0, false));
    for busy in [&busy, &samples_of_ten_minutes(0, true)] {
        assert!((50..100).contains(&busy.len()), "{} samples", busy.len());
    }
    assert!((2..20).contains(&idle.len()), "{} samples of an idle connection", idle.len());
    assert!(busy.is_sorted_by_key(|sample| sample.at));
}

#[test]
fn connections_wait_while_the_disk_is_full() {
    let (_folder, file) = folder();
    let (database, _lock) = open::for_writing(&file).unwrap();
    let limits = Limits { backlog: 30, ..Limits::none() };
    let status = Arc::new(SharedStatus::new(Status { limits, ..Status::default() }));
    let mut writer = Writer::new(database, Arc::clone(&status)).unwrap();
    writer.write(Batch::new(&tick(0, vec![fixture::closed(1)])));
    let pages: i64 = writer.file.database.pragma_query_value(None, "page_count", |row| row.get(0)).unwrap();
    writer.file.database.pragma_update_and_check(None, "max_page_count", pages, |_| Ok(())).unwrap();
    let many: Vec<Connection> = (0..40).map(|n| another(&fixture::closed(2), 100 + n)).collect();
    writer.write(Batch::new(&tick(1, many)));
    let losses = status.with(|status| status.losses.clone());
    assert!(losses.paused.unwrap().contains("the disk is full; 30 connections wait"));
    assert_eq!(losses.flows_lost, 10, "connections without room in memory are counted");
    writer.file.database.pragma_update_and_check(None, "max_page_count", 1_000_000, |_| Ok(())).unwrap();
    writer.write(Batch::new(&tick(2, vec![fixture::closed(3)])));
    let losses = status.with(|status| status.losses.clone());
    assert_eq!((losses.paused, losses.flows_lost), (None, 10));
    writer.finish(Duration::ZERO);
    assert_eq!(read(&file).0.connections.len(), 1 + 30 + 1);
    assert_eq!(status.with(|status| status.figures.written), 32);
}

/// Offers ten snapshots with one closed connection each to a writer that is blocked. Returns the content of the file afterwards.
fn write_while_blocked(backlog: usize) -> (Report, StoreLosses) {
    let (_folder, file) = folder();
    let store = Store::open(&file, &Limits { queue: 1, backlog, ..Limits::none() }).unwrap();
    let other = Database::open(&file).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    for second in 0..10 {
        store.offer(&tick(second, vec![another(&fixture::closed(1), 1 + second.cast_unsigned())]));
    }
    let losses = store.losses();
    assert!((1..10).contains(&losses.snapshots_dropped), "{losses:?}");
    other.execute_batch("ROLLBACK").unwrap();
    store.close();
    let (report, _) = read(&file);
    assert_eq!(report.losses.store_snapshots_dropped, losses.snapshots_dropped, "the report has it");
    (report, losses)
}

#[test]
fn a_blocked_writer_loses_no_closed_connection() {
    let (report, losses) = write_while_blocked(9);
    assert_eq!((report.connections.len(), losses.flows_lost), (10, 0));
}

#[test]
fn connections_beyond_the_backlog_are_counted_as_lost() {
    let (report, losses) = write_while_blocked(2);
    assert_eq!(report.connections.len() as u64, 10 - losses.flows_lost);
    assert_eq!(report.losses.store_flows_lost, losses.flows_lost);
    assert!(losses.flows_lost >= 1, "{losses:?}");
}

#[test]
fn the_oldest_connections_are_deleted_first() {
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
    assert_eq!(report.connections.iter().map(|connection| connection.id).collect::<Vec<_>>(), [late.id]);
    let database = Database::open(&file).unwrap();
    let left = "SELECT (SELECT count(*) FROM subflow) + (SELECT count(*) FROM event) + (SELECT count(*) FROM sample) + (SELECT count(*) FROM pair)";
    assert_eq!(database.query_row(left, [], |row| row.get::<_, i64>(0)).unwrap(), 2 + 1);
}

#[test]
fn the_file_stays_within_its_size() {
    let (_folder, file) = folder();
    let limits = Limits { bytes: Some(400_000), ..Limits::none() };
    let store = Store::open(&file, &limits).unwrap();
    for second in 0..20_i64 {
        let first = 1 + second * 200;
        let flows = (first..first + 200).map(|birth| another(&fixture::closed(1), birth.cast_unsigned()));
        store.deliver(&tick(second, flows.collect()));
    }
    wait_until(|| store.figures().retired > 0 || store.losses().paused.is_some());
    store.close();
    assert!(std::fs::metadata(&file).unwrap().len() < 600_000);
    let kept: Vec<u64> = read(&file).0.connections.iter().map(|connection| connection.id.birth.0).collect();
    assert!(kept.contains(&4_000) && !kept.contains(&1), "the newest are kept: {kept:?}");
}

#[test]
fn names_and_namespaces_of_deleted_connections_are_deleted() {
    let (_folder, file) = folder();
    let limits = Limits { bytes: Some(400_000), ..Limits::none() };
    let store = Store::open(&file, &limits).unwrap();
    let job = |number: u64| {
        let mut flow = another(&fixture::closed(1), number);
        flow.id.netns = NetnsCookie(number);
        (flow.netns, flow.cgroup) = (format!("job-{number}"), Some(format!("/job-{number}.service")));
        flow
    };
    for second in 0..12 {
        store.deliver(&tick(second, (1..=1_000).map(|n| job(second.unsigned_abs() * 1_000 + n)).collect()));
    }
    assert_eq!(store.close().paused, None);
    let database = Database::open(&file).unwrap();
    let count = |table: &str| -> i64 {
        database.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0)).unwrap()
    };
    let [connections, netns, names] = ["connection", "netns", "name"].map(count);
    // Each connection has a name and a namespace of its own; unused ones stay until the next sweep.
    assert!((1..1_000).contains(&connections), "{connections}");
    assert!(netns < 3_500 && names < 3_500, "{netns}, {names}");
    assert_eq!(i64::try_from(read(&file).0.connections.len()).unwrap(), connections, "names in use are kept");
}

#[test]
fn each_unusable_file_has_its_own_error() {
    let (folder, file) = folder();
    let refused = |path: &std::path::Path| match Store::open(path, &Limits::none()) {
        Ok(_) => panic!("{} was opened", path.display()),
        Err(error) => error,
    };
    let store = Store::open(&file, &Limits::none()).unwrap();
    assert!(refused(&file).to_string().contains("is being written by another mpwatch"));
    store.close();
    let text = folder.path().join("notes.txt");
    std::fs::write(&text, "some text that is longer than the hundred bytes of a header ".repeat(20)).unwrap();
    assert!(refused(&text).to_string().contains("is not a database of mpwatch"), "{}", refused(&text));
    let other = folder.path().join("other.db");
    Database::open(&other).unwrap().execute_batch("CREATE TABLE t (x)").unwrap();
    assert!(refused(&other).to_string().contains("is not a database of mpwatch"));
    assert!(refused(&folder.path().join("none/flows.db")).to_string().contains("folder must exist"));
    let database = Database::open(&file).unwrap();
    database.pragma_update(None, "user_version", 99).unwrap();
    drop(database);
    let newer = refused(&file);
    assert!(newer.to_string().contains("has schema 99"));
    assert!(newer.to_string().contains("use a newer mpwatch"));
    assert!(Archive::open(&file).is_err_and(|e| e.to_string().contains("has schema 99")));
    assert!(
        Archive::open(&folder.path().join("no.db")).is_err_and(|e| e.to_string().contains("no such file"))
    );
}

#[test]
fn a_second_run_is_appended() {
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
    let joins = 2 * fixture::snapshot(Vec::new()).counters.mptcp_mib["MPJoinSynTx"];
    assert_eq!(report.counters.mptcp_mib, [("MPJoinSynTx".to_owned(), joins)].into());
    assert_eq!(report.energy, None, "energy is a total of one run");
}

#[test]
fn a_report_has_the_connections_of_its_period() {
    let (_folder, file) = folder();
    let store = Store::open(&file, &Limits::none()).unwrap();
    store.deliver(&tick(0, vec![fixture::closed(1)]));
    store.close();
    let archive = Archive::open(&file).unwrap();
    let count = |since: Option<i64>, until: Option<i64>| {
        let period = Period { since: since.map(fixture::at), until: until.map(fixture::at) };
        report(&archive, period, None).unwrap().0.connections.len()
    };
    assert_eq!((count(Some(0), None), count(Some(11_000_000), Some(11_500_000))), (1, 1));
    assert_eq!((count(Some(12_000_001), None), count(None, Some(-1))), (0, 0));
}
