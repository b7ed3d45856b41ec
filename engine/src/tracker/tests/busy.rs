// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernel's clocks of a sender, and the account of a subflow's time.

use mpwatch_model::kernel::busy::{BusyTimes, Limit};
use mpwatch_model::kernel::event::{KernelEvent, SubflowRecord, TcpCounters};
use mpwatch_model::unit::Nanos;

use super::records::{SECOND, closed_connection, connection, subflow, tick, tracker};
use crate::tracker::{Closed, Tracker};

/// Seconds of the total and of the receive window, as reported after the record.
fn reported(tracker: &mut Tracker, record: &SubflowRecord, at: u64) -> Option<[u64; 2]> {
    tracker.apply(&KernelEvent::Connection(connection(record.at.0, 0)));
    tracker.apply(&KernelEvent::Subflow(record.clone()));
    let busy = tick(tracker, at * SECOND).connections[0].busy?;
    Some([busy.total, busy.receive_window].map(|time| time.0 / SECOND))
}

fn record(at: u64, total: u64, running: Option<(Limit, u64)>) -> SubflowRecord {
    let mut record = subflow(11, at * SECOND, 100);
    record.tcp.busy = Some(BusyTimes { total: Nanos(total * SECOND), ..BusyTimes::default() });
    record.waiting.limit = running.map(|(limit, _)| limit);
    record.waiting.busy_since = running.map(|(_, since)| Nanos(since * SECOND));
    record
}

#[test]
fn the_running_interval_counts_also_while_no_record_changes() {
    let mut tracker = tracker(Closed::Forget);
    let waiting = record(10, 3, Some((Limit::ReceiveWindow, 8)));
    assert_eq!(reported(&mut tracker, &waiting, 10), Some([5, 2]));
    assert_eq!(
        tick(&mut tracker, 14 * SECOND).connections[0].busy.unwrap().receive_window,
        Nanos(6 * SECOND)
    );
    assert_eq!(reported(&mut tracker, &record(15, 13, None), 15), Some([13, 6]), "never less than reported");
    let unknown = SubflowRecord { tcp: TcpCounters::default(), ..record(16, 0, None) };
    assert_eq!(reported(&mut tracker, &unknown, 16), None);
}

#[test]
fn the_running_interval_ends_when_the_subflow_closes() {
    let mut tracker = tracker(Closed::Keep);
    let running = record(12, 3, Some((Limit::Network, 8)));
    let closed = SubflowRecord { closed: Some(Nanos(12 * SECOND)), last: true, ..running };
    assert_eq!(reported(&mut tracker, &closed, 20), Some([7, 0]));
}

/// A path without a link still waits for the answer to its FIN.
#[test]
fn time_after_the_close_of_the_connection_does_not_count() {
    let mut tracker = tracker(Closed::Keep);
    let waiting = |at| record(at, 3, Some((Limit::Network, 8)));
    assert_eq!(reported(&mut tracker, &waiting(10), 10), Some([5, 0]));
    tracker.apply(&closed_connection(11 * SECOND, 10));
    for second in [12, 13, 20] {
        tracker.apply(&KernelEvent::Subflow(waiting(second)));
        let busy = tick(&mut tracker, second * SECOND).connections[0].busy.unwrap();
        assert_eq!(busy.total, Nanos(6 * SECOND), "{second}");
    }
    let end = SubflowRecord { closed: Some(Nanos(21 * SECOND)), last: true, ..record(21, 16, None) };
    tracker.apply(&KernelEvent::Subflow(end));
    assert_eq!(tick(&mut tracker, 22 * SECOND).connections[0].busy.unwrap().total, Nanos(6 * SECOND));
}

#[test]
fn time_before_mpwatch_found_a_subflow_does_not_count() {
    let mut tracker = tracker(Closed::Forget);
    let older =
        |at, total| SubflowRecord { seen_open: false, ..record(at, total, Some((Limit::Network, 9))) };
    assert_eq!(reported(&mut tracker, &older(10, 100), 10), Some([0, 0]));
    assert_eq!(reported(&mut tracker, &older(14, 100), 14), Some([4, 0]));
}
