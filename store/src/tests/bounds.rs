// SPDX-License-Identifier: MIT OR Apache-2.0
//! The file, its log and the work of the writer stay within their limits, also with a full disk or a reader that does not end.

use mpwatch_model::finding::{Fact, of_connection};
use mpwatch_model::flow::subflow::{Closed, Subflow};
use mpwatch_model::id::SubflowId;
use mpwatch_model::kernel::lifecycle::TcpState;

use super::*;
use crate::error::with_suffix;

fn count(file: &std::path::Path, table: &str) -> i64 {
    let database = Database::open(file).unwrap();
    database.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0)).unwrap()
}

fn many(first: u64, number: u64) -> Vec<Connection> {
    (first..first + number).map(|birth| another(&fixture::closed(1), birth)).collect()
}

fn size(file: &std::path::Path) -> u64 {
    std::fs::metadata(file).map_or(0, |found| found.len())
}

#[test]
fn a_smaller_limit_returns_pages_to_the_file_system() {
    let (_folder, file) = folder();
    let store = Store::open(&file, &Limits::none()).unwrap();
    store.deliver(&tick(0, many(1, 4_000)));
    store.close();
    let before = size(&file);
    assert!(before > 2_000_000, "{before}");
    let store = Store::open(&file, &Limits { bytes: Some(400_000), ..Limits::none() }).unwrap();
    (1..4).for_each(|second| store.deliver(&tick(second, Vec::new())));
    store.close();
    assert!(size(&file) <= 400_000, "{} of {before}", size(&file));
    assert!(count(&file, "connection") > 100);
}

#[test]
fn closed_connections_are_deleted_before_open_ones() {
    let (_folder, file) = folder();
    let store = Store::open(&file, &Limits { bytes: Some(400_000), ..Limits::none() }).unwrap();
    let open = fixture::connection(9, 2);
    for second in 0..4_u64 {
        let mut connections = many(1 + second * 1_000, 1_000);
        let mut open = open.clone();
        open.age_s += second as f64 * 20.0;
        open.bytes_sent = open.bytes_sent.map(|bytes| bytes + Bytes(second));
        connections.push(open);
        store.deliver(&tick(second.cast_signed() * 20, connections));
    }
    wait_until(|| store.figures().retired > 0);
    store.close();
    let (report, samples) = read(&file);
    assert!(report.connections.iter().any(|connection| connection.id == open.id));
    assert_eq!(samples[&(open.id, open.subflows[0].id)].len(), 4);
    assert!(report.connections.len() < 2_000);
}

#[test]
fn connections_that_were_open_when_mpwatch_was_killed_are_deleted_first() {
    let (_folder, file) = folder();
    let store = Store::open(&file, &Limits::none()).unwrap();
    let open = (1..1_001).map(|birth| another(&fixture::connection(9, 2), birth)).collect();
    store.deliver(&tick(0, open));
    store.close();
    let store = Store::open(&file, &Limits { bytes: Some(400_000), ..Limits::none() }).unwrap();
    let mut later = many(5_000, 200);
    for connection in &mut later {
        connection.shift(60_000_000_000);
    }
    store.deliver(&tick(60, later));
    (61..64).for_each(|second| store.deliver(&tick(second, Vec::new())));
    store.close();
    let is_later = |connection: &&Connection| connection.id.birth.0 >= 5_000;
    let closed = read(&file).0.connections.iter().filter(is_later).count();
    assert!((1..1_000).contains(&(count(&file, "connection") - 200)), "some were deleted");
    assert_eq!(closed, 200, "the newest");
}

#[test]
fn a_full_disk_does_not_stop_retention() {
    let (_folder, file) = folder();
    let (database, _lock) = open::for_writing(&file).unwrap();
    let status = Arc::new(SharedStatus::new(Status { limits: Limits::none(), ..Status::default() }));
    let mut writer = Writer::new(database, Arc::clone(&status)).unwrap();
    writer.write(Batch::new(&tick(0, many(1, 2_000))));
    let pages: i64 = writer.file.database.pragma_query_value(None, "page_count", |row| row.get(0)).unwrap();
    writer.file.database.pragma_update_and_check(None, "max_page_count", pages, |_| Ok(())).unwrap();
    writer.write(Batch::new(&tick(1, many(10_000, 50))));
    assert_eq!(status.with(|status| (status.figures.waiting, status.losses.paused.is_some())), (50, true));
    // As after a reload with a smaller limit.
    status.with(|status| status.limits.bytes = Some(400_000));
    (2..4).for_each(|second| writer.write(Batch::new(&tick(second, Vec::new()))));
    let (waiting, paused) = status.with(|status| (status.figures.waiting, status.losses.paused.clone()));
    assert_eq!((waiting, paused), (0, None));
    assert!(status.with(|status| status.figures.retired) > 1_000);
    let reserve = with_suffix(&file, "-reserve");
    assert!(reserve.exists());
    writer.finish(Duration::ZERO);
    assert!(!reserve.exists());
    assert!(read(&file).0.connections.iter().any(|connection| connection.id.birth.0 == 10_049));
}

#[test]
fn the_log_is_bounded_while_a_reader_holds_an_old_state() {
    let (_folder, file) = folder();
    let limits = Limits { bytes: Some(4 << 20), ..Limits::none() };
    let store = Store::open(&file, &limits).unwrap();
    store.deliver(&tick(0, many(1, 10)));
    wait_until(|| store.figures().written == 10);
    let reader = Database::open(&file).unwrap();
    reader.execute_batch("BEGIN; SELECT count(*) FROM connection").unwrap();
    let log = with_suffix(&file, "-wal");
    let mut second = 1;
    while store.losses().paused.is_none() {
        assert!(second < 100, "the log has {} bytes", size(&log));
        store.deliver(&tick(second * 2, many(second.unsigned_abs() * 1_000, 500)));
        second += 1;
    }
    assert!(store.losses().paused.unwrap().contains("one long transaction"));
    // At most the limit of 4 MiB, and the transactions of one snapshot.
    assert!(size(&log) < 7 << 20, "{}", size(&log));
    assert!(
        store.figures().bytes > 2_500_000,
        "the reported size includes the log; the data alone has at most 1.7 MB"
    );
    reader.execute_batch("COMMIT").unwrap();
    store.deliver(&tick(300, many(1_000_000, 10)));
    wait_until(|| store.losses().paused.is_none());
    assert!(size(&log) <= 3 << 20, "{}", size(&log));
    assert_eq!(store.close().flows_lost, 0);
}

#[test]
fn a_closed_connection_is_written_once_unless_more_than_its_rates_change() {
    let (_folder, file) = folder();
    let store = Store::open(&file, &Limits::none()).unwrap();
    let mut closed = fixture::closed(1);
    store.deliver(&tick(0, vec![closed.clone()]));
    (closed.send, closed.subflows[0].send) = (None, None);
    store.deliver(&tick(1, vec![closed.clone()]));
    store.deliver(&tick(2, Vec::new()));
    assert_eq!(store.close(), StoreLosses::default());
    assert_eq!(count(&file, "connection"), 1);
    let database = Database::open(&file).unwrap();
    let change: i64 = database.query_row("SELECT changed FROM connection", [], |row| row.get(0)).unwrap();
    assert_eq!(change % (1 << 36), 1, "the first change");
}

#[test]
fn open_connections_have_rows_soon_and_when_their_state_changes() {
    let (_folder, file) = folder();
    let store = Store::open(&file, &Limits::none()).unwrap();
    let mut flow = fixture::connection(1, 2);
    (flow.bytes_sent, flow.bytes_received, flow.age_s) = (Some(Bytes(10)), Some(Bytes(10)), 1.0);
    let mut older_than_mpwatch = another(&flow, 7);
    (older_than_mpwatch.seen_open, older_than_mpwatch.opened_at) = (false, None);
    let deliver = |second, flow: &Connection, rows| {
        store.deliver(&tick(second, vec![flow.clone(), older_than_mpwatch.clone()]));
        store.deliver(&tick(second, vec![flow.clone(), older_than_mpwatch.clone()]));
        wait_until(|| store.figures().written >= rows);
        assert_eq!(store.figures().written, rows, "second {second}");
    };
    deliver(0, &flow, 1);
    flow.age_s = 2.0;
    deliver(1, &flow, 2);
    flow.age_s = 3.0;
    deliver(2, &flow, 2);
    let event = TimelineEvent::SubflowStale { subflow: flow.subflows[1].id, stale: true, silent: None };
    flow.timeline.push(TimelineEntry { at: fixture::at(15_000_000), source: ObservedBy::Sampled, event });
    deliver(3, &flow, 3);
    flow.outage_since = Some(fixture::at(15_000_000));
    deliver(4, &flow, 4);
    flow.outage_since = None;
    deliver(5, &flow, 5);
    assert!(
        read(&file)
            .0
            .connections
            .iter()
            .any(|connection| connection.timeline == settled(flow.clone()).timeline)
    );
    store.close();
}

#[test]
fn the_row_of_a_connection_that_waits_for_an_answer_says_so() {
    let (_folder, file) = folder();
    let store = Store::open(&file, &Limits::none()).unwrap();
    let mut flow = fixture::connection(1, 1);
    let subflow = &mut flow.subflows[0];
    (subflow.handshake, subflow.bytes_acked, subflow.bytes_received) = (None, Bytes(0), Bytes(0));
    (subflow.state, flow.state, flow.bottlenecks) = (TcpState::SynSent, TcpState::SynSent, None);
    (flow.bytes_sent, flow.bytes_received) = (Some(Bytes(0)), Some(Bytes(0)));
    for (second, age_s, rows) in [(0, 2.0, 1), (1, 2.9, 1), (2, 3.9, 2), (3, 4.9, 2)] {
        flow.age_s = age_s;
        store.deliver(&tick(second, vec![flow.clone()]));
        store.deliver(&tick(second, vec![flow.clone()]));
        wait_until(|| store.figures().written >= rows);
        assert_eq!(store.figures().written, rows, "second {second}");
    }
    let report = read(&file).0;
    let facts: Vec<Fact> =
        of_connection(&report.connections[0]).into_iter().map(|found| found.fact).collect();
    assert_eq!(facts, [Fact::NotConnected(CloseReason::Unanswered)]);
    store.close();
}

/// A connection whose peer has opened this many subflows one after the other.
fn with_many_subflows(birth: u64, number: u32) -> Connection {
    let mut flow = another(&fixture::closed(1), birth);
    let first = flow.subflows[0].clone();
    flow.subflows = (0..number)
        .map(|generation| {
            let mut subflow = first.clone();
            subflow.id.generation = generation;
            subflow.place = generation + 1;
            subflow
        })
        .collect();
    let known = fixture::closed(1).bottlenecks.unwrap().pairs[0];
    let found = flow.bottlenecks.as_mut().unwrap();
    found.groups = vec![flow.subflows.iter().map(|subflow| subflow.id).collect()];
    found.pairs.clear();
    for (nth, a) in flow.subflows.iter().enumerate() {
        for b in &flow.subflows[nth + 1..] {
            // Only the last pair has evidence.
            let evidence =
                known.evidence.filter(|_| b.id.generation == number - 1 && nth + 2 == number as usize);
            found.pairs.push(mpwatch_model::flow::bottleneck::PairVerdict {
                a: a.id,
                b: b.id,
                evidence,
                ..known
            });
        }
    }
    flow
}

#[test]
fn verdicts_of_a_connection_and_the_bytes_of_a_batch_are_bounded() {
    let (_folder, file) = folder();
    let store = Store::open(&file, &Limits::none()).unwrap();
    store.deliver(&tick(0, vec![with_many_subflows(1, 450)]));
    store.deliver(&tick(1, (2..32).map(|birth| with_many_subflows(birth, 100)).collect()));
    store.close();
    let found = read(&file).0.connections;
    let largest = found.iter().find(|connection| connection.id.birth.0 == 1).unwrap();
    let pairs = &largest.bottlenecks.as_ref().unwrap().pairs;
    assert_eq!((pairs.len(), largest.subflows.len()), (1_000, 450));
    assert_eq!(pairs.iter().filter(|pair| pair.evidence.is_some()).count(), 1, "the evidence is kept");
    let mut outbox = crate::Outbox::open(&file, "a").unwrap();
    let mut batches = Vec::new();
    while let Some(batch) = Some(outbox.next(None, 1_000, true).unwrap()).filter(|batch| !batch.is_empty()) {
        batches.push(batch.len());
    }
    assert_eq!(batches.iter().sum::<usize>(), 31);
    assert!((2..16).contains(&batches.len()), "{batches:?}");
}

#[test]
fn a_report_is_read_in_parts_that_together_are_the_whole() {
    let (_folder, file) = folder();
    let store = Store::open(&file, &Limits::none()).unwrap();
    store.deliver(&tick(0, all_kinds()));
    store.deliver(&tick(20, all_kinds()));
    store.close();
    let (whole, series) = read(&file);
    for size in [1, 2, 3, 100] {
        let (mut connections, mut samples, mut sizes) = (Vec::new(), CounterSeries::new(), Vec::new());
        let parts = Archive::open(&file).unwrap().parts(Period::default(), None, size, |part, of_part| {
            assert_eq!(part.run, whole.run);
            sizes.push(part.connections.len());
            connections.extend(part.connections);
            samples.extend(of_part);
            Ok::<_, crate::StoreError>(())
        });
        parts.unwrap();
        assert_eq!((&connections, &samples), (&whole.connections, &series), "{size}");
        assert!(sizes.iter().all(|found| (1..=size).contains(found)), "{sizes:?}");
    }
    let nothing = Period { since: Some(fixture::at(1 << 50)), until: None };
    let mut parts = 0;
    let read = Archive::open(&file).unwrap().parts(nothing, None, 5, |_, _| {
        parts += 1;
        Ok::<_, crate::StoreError>(())
    });
    assert_eq!((read.is_ok(), parts), (true, 1), "an empty report is a part");
}

/// Of the ended subflows, a connection lists only the latest. Rows of earlier subflows stay unchanged, and a later run continues the places.
#[test]
fn rows_of_subflows_that_a_connection_does_not_list_any_more_stay() {
    let (_folder, file) = folder();
    let places = |from: u32, to: u32| {
        let mut flow = fixture::connection(1, 1);
        flow.subflows.extend((from..to).map(|place| Subflow {
            id: SubflowId { cookie: SocketCookie(place.into()), generation: 9 },
            place,
            initial: false,
            bytes_retransmitted: Bytes(place.into()),
            closed: Some(Closed { at: fixture::at(1_000_000), reason: CloseReason::Fin }),
            ..fixture::subflow(1, 2)
        }));
        flow
    };
    let mut later = places(60, 90);
    for nth in (2..60).map(|nth| places(nth, nth + 1).subflows.remove(1)) {
        later.dropped_subflows.get_or_insert_default().add(&nth);
    }
    let store = Store::open(&file, &Limits::none()).unwrap();
    // Too many subflows: the first state is written because the tracker will drop some of them.
    store.deliver(&tick(1, vec![Connection { age_s: 1.0, ..places(2, 80) }]));
    store.deliver(&tick(3, vec![Connection { age_s: 3.0, ..later.clone() }]));
    store.close();
    let stored = |subflow: &Subflow| (subflow.place, subflow.id.cookie.0);
    let found = read(&file).0.connections.remove(0);
    let expected: Vec<(u32, u64)> = (2..90).map(|place| (place, place.into())).collect();
    assert_eq!(found.subflows[1..].iter().map(stored).collect::<Vec<_>>(), expected);
    let sum = |connection: Connection| mpwatch_model::settle::settled(connection).bytes_retransmitted;
    assert_eq!(sum(found), sum(later));

    // Another run lists the initial subflow, and has dropped subflows whose opening it observed.
    let mut restarted = places(12, 15);
    for (nth, subflow) in (0..).zip(&mut restarted.subflows[1..]) {
        subflow.id.cookie = SocketCookie(1_000 + nth);
    }
    let store = Store::open(&file, &Limits::none()).unwrap();
    store.deliver(&tick(20, vec![restarted]));
    store.close();
    let found = read(&file).0.connections.remove(0);
    let added = (100..103).zip(1_000..).collect::<Vec<(u32, u64)>>();
    assert_eq!(found.subflows[1..].iter().map(stored).collect::<Vec<_>>(), [expected, added].concat());
}
