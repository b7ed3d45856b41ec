// SPDX-License-Identifier: MIT OR Apache-2.0
//! A peer opens and closes subflows without end: the connection lists a bounded number of ended subflows, and its sums include all subflows.

use mpwatch_model::flow::connection::Connection;
use mpwatch_model::flow::subflow::MAX_ENDED;
use mpwatch_model::id::SubflowId;
use mpwatch_model::kernel::cpu::CpuTimes;
use mpwatch_model::kernel::event::{KernelEvent, SubflowRecord, Tick};
use mpwatch_model::snapshot::Snapshot;
use mpwatch_model::unit::{Bytes, Nanos};

use super::idle::energy;
use super::records::{SECOND, closed_connection, closed_subflow, connection, subflow, tick, tracker};
use crate::tracker::{Closed, Tracker};

/// Number of joins: ten times the maximum number of ended subflows that are listed.
const JOINS: u64 = 10 * MAX_ENDED as u64;
const CPU: u64 = 1_000;

fn only(snapshot: &Snapshot) -> &Connection {
    assert_eq!(snapshot.connections.len(), 1);
    &snapshot.connections[0]
}

/// The last record of a subflow that joined and ended. Every third such subflow has no payload.
fn ended_join(nth: u64, at: u64) -> SubflowRecord {
    let mut record = subflow(100 + nth, at, if nth.is_multiple_of(3) { 0 } else { nth });
    (record.mp_join, record.mp_capable) = (true, false);
    (record.created, record.established) = (Some(Nanos(at - SECOND / 2)), Some(Nanos(at - SECOND / 4)));
    (record.closed, record.last) = (Some(Nanos(at)), true);
    record.end.fin_received_first = true;
    record.tcp.bytes_retransmitted = Bytes(u64::from(!nth.is_multiple_of(3)));
    record.cpu = Some(CpuTimes::from_classes([0, CPU, 0, 0, 0], true));
    record
}

/// Opens the initial subflow and the first joined subflow.
fn open(tracker: &mut Tracker, at: u64) {
    let cpu = Some(CpuTimes::from_classes([0, CPU, 0, 0, 0], true));
    tracker.apply(&KernelEvent::Connection(connection(at, 1_000_000)));
    let mut joined = SubflowRecord { cpu, mp_join: true, mp_capable: false, ..subflow(12, at, 500) };
    joined.established = Some(Nanos(SECOND + 2_000_000));
    for record in [SubflowRecord { cpu, ..subflow(11, at, 1_000_000) }, joined] {
        tracker.apply(&KernelEvent::Subflow(record));
    }
}

/// In each of the following seconds, `each` subflows join and end; energy is charged at each tick.
fn come_and_go(tracker: &mut Tracker, joins: u64, each: u64) -> Snapshot {
    let mut last = None;
    for second in 0..joins / each {
        let at = (2 + second) * SECOND;
        open(tracker, at);
        let here = second * each..(second + 1) * each;
        here.for_each(|nth| tracker.apply(&KernelEvent::Subflow(ended_join(nth, at))));
        let (window, cpus) = energy((2 + (second + 1) * each) * CPU);
        let tick = Tick { at: Nanos(at), energy: Some(window), cpus, ..Tick::default() };
        tracker.apply(&KernelEvent::Tick(tick));
        last = Some(tracker.end_tick());
    }
    last.unwrap()
}

/// The sums over all subflows, including dropped subflows.
fn expected(joins: u64) -> (Bytes, CpuTimes) {
    let retransmitted = (0..joins).filter(|nth| !nth.is_multiple_of(3)).count() as u64;
    (Bytes(retransmitted), CpuTimes::from_classes([0, (2 + joins) * CPU, 0, 0, 0], true))
}

#[test]
fn ended_subflows_are_bounded_and_the_sums_stay_exact() {
    let each = MAX_ENDED as u64;
    let mut tracker = tracker(Closed::Keep);
    let snapshot = come_and_go(&mut tracker, JOINS, each);
    // All subflows that ended in the last second are reported before any of them is dropped.
    let reported = only(&snapshot);
    assert_eq!(reported.subflows.len() as u64, 2 + 2 * each);
    assert_eq!((reported.bytes_retransmitted, reported.cpu.unwrap()), expected(JOINS));
    let sent = (0..JOINS).filter(|nth| !nth.is_multiple_of(3)).map(|nth| nth - 1).sum::<u64>();
    assert_eq!(reported.bytes_reinjected, Some(Bytes(500 + sent)));

    open(&mut tracker, 100 * SECOND);
    let after = tick(&mut tracker, 100 * SECOND);
    let connection = only(&after);
    let dropped = connection.dropped_subflows.as_ref().unwrap();
    assert_eq!((connection.subflows.len(), u64::from(dropped.count)), (2 + MAX_ENDED, JOINS - each));
    assert_eq!(after.losses.subflows_dropped, JOINS - each);
    assert!(!after.losses.any(), "no total is incomplete");
    assert_eq!(
        (connection.bytes_retransmitted, connection.cpu),
        (reported.bytes_retransmitted, reported.cpu)
    );
    assert_eq!(connection.energy.unwrap().cpu, Nanos((2 + JOINS) * CPU));
    let active = |connection: &Connection| connection.energy.unwrap().full;
    assert_eq!((active(connection), active(connection).is_some()), (active(reported), true));
    assert_eq!(connection.bytes_reinjected, reported.bytes_reinjected);
    assert_eq!(connection.wire_bytes_estimate(), reported.wire_bytes_estimate());
    assert_eq!(connection.second_path, reported.second_path);
    let shares: f64 = connection.subflows.iter().filter_map(|subflow| subflow.share_sent).sum();
    let dropped_share = dropped.observed.bytes_sent.0 as f64 / (1_000_500 + sent) as f64;
    assert!((shares + dropped_share - 1.0).abs() < 1e-9, "{shares} {dropped_share}");
    // Open subflows are kept, and the latest ended subflows with payload.
    let [initial, joined, ended @ ..] = &connection.subflows[..] else {
        panic!("{}", connection.subflows.len())
    };
    assert!(initial.closed.is_none() && joined.closed.is_none());
    assert!(ended.iter().all(|subflow| subflow.bytes_sent > Bytes(0)), "empty subflows are dropped first");
    assert_eq!(ended.last().unwrap().id.cookie.0, 100 + JOINS - 1);
    assert!(ended.iter().all(|subflow| subflow.id.cookie.0 >= 100 + JOINS - 3 * each / 2));
    // The places of the kept subflows do not change.
    let places: Vec<u64> = ended.iter().map(|subflow| u64::from(subflow.place)).collect();
    assert_eq!(places, ended.iter().map(|subflow| subflow.id.cookie.0 - 100 + 3).collect::<Vec<_>>());
}

#[test]
fn a_late_record_of_a_dropped_subflow_is_not_counted_again() {
    let mut tracker = tracker(Closed::Keep);
    let expected = come_and_go(&mut tracker, JOINS, JOINS / 2);
    open(&mut tracker, 100 * SECOND);
    let before = tick(&mut tracker, 100 * SECOND);
    // All final records arrive again, half of them without the mark `last`.
    for nth in 0..JOINS {
        let late = SubflowRecord { last: nth.is_multiple_of(2), ..ended_join(nth, 3 * SECOND) };
        tracker.apply(&KernelEvent::Subflow(late));
    }
    open(&mut tracker, 101 * SECOND);
    let after = tick(&mut tracker, 101 * SECOND);
    let ids = |snapshot: &Snapshot| -> Vec<SubflowId> {
        only(snapshot).subflows.iter().map(|subflow| subflow.id).collect()
    };
    assert_eq!(ids(&after), ids(&before));
    let [expected, before, after] = [&expected, &before, &after].map(only);
    assert_eq!(after.dropped_subflows, before.dropped_subflows);
    assert_eq!(after.bytes_retransmitted, expected.bytes_retransmitted);
    assert_eq!((after.cpu, after.bytes_reinjected), (expected.cpu, expected.bytes_reinjected));
}

#[test]
fn open_subflows_and_those_without_final_counters_are_never_dropped() {
    let mut tracker = tracker(Closed::Keep);
    open(&mut tracker, 2 * SECOND);
    for nth in 0..JOINS {
        let is_open = nth.is_multiple_of(2);
        let record = ended_join(nth, 2 * SECOND);
        let closed = record.closed.filter(|_| !is_open);
        tracker.apply(&KernelEvent::Subflow(SubflowRecord { closed, last: false, ..record }));
    }
    for second in 2..4 {
        assert_eq!(only(&tick(&mut tracker, second * SECOND)).subflows.len() as u64, 2 + JOINS);
    }
}

#[test]
fn a_connection_with_dropped_subflows_closes_like_any_other() {
    let mut tracker = tracker(Closed::Keep);
    come_and_go(&mut tracker, JOINS, JOINS / 2);
    for event in [closed_subflow(11, 90 * SECOND, 1_000_000), closed_subflow(12, 90 * SECOND, 500)] {
        tracker.apply(&event);
    }
    tracker.apply(&closed_connection(90 * SECOND, 1_000_000));
    (90..95).for_each(|second| drop(tick(&mut tracker, second * SECOND)));
    assert!(only_report(tracker).closed_at.is_some());
}

fn only_report(tracker: Tracker) -> Connection {
    let report = tracker.report();
    assert_eq!(report.connections.len(), 1);
    report.connections.into_iter().next().unwrap()
}
