// SPDX-License-Identifier: MIT OR Apache-2.0
//! Why subflows ended, if this depends on the end of the connection.

use mpwatch_model::finding::{Fact, of_connection};
use mpwatch_model::flow::connection::Connection;
use mpwatch_model::kernel::event::KernelEvent;
use mpwatch_model::kernel::lifecycle::{CloseReason, TcpState};

use super::records::{SECOND, closed_connection, closed_subflow, subflow, tick, tracker};
use crate::tracker::Closed;

/// A subflow that was reset at this time.
fn reset(cookie: u64, at: u64, in_order: bool) -> KernelEvent {
    let KernelEvent::Subflow(mut record) = closed_subflow(cookie, at, 10) else { unreachable!() };
    (record.end.reset_received, record.end.in_order) = (true, in_order);
    KernelEvent::Subflow(record)
}

fn only(events: &[&KernelEvent]) -> Connection {
    let mut tracker = tracker(Closed::Keep);
    for event in events {
        tracker.apply(event);
    }
    tick(&mut tracker, 9 * SECOND).connections.remove(0)
}

fn is_aborted(connection: &Connection) -> bool {
    of_connection(connection).iter().any(|finding| matches!(finding.fact, Fact::Aborted { .. }))
}

fn reasons(connection: &Connection) -> Vec<CloseReason> {
    connection.subflows.iter().filter_map(|subflow| subflow.closed.map(|closed| closed.reason)).collect()
}

/// After an outage, the peer has unread duplicates of data that it received on another path. The kernel then resets its subflow.
#[test]
fn a_connection_whose_subflows_are_reset_after_both_data_fins_were_acknowledged_is_closed_in_order() {
    let closed = closed_connection(3 * SECOND, 10);
    let with_end = |in_order| reset(11, 3 * SECOND + 20_000_000, in_order);
    let late = |in_order| reset(12, 4 * SECOND, in_order);
    let orders = [[&closed, &with_end(true), &late(true)], [&with_end(true), &late(true), &closed]];
    for events in orders {
        let found = only(&events);
        assert_eq!(reasons(&found), [CloseReason::Fin, CloseReason::ResetReceived]);
        assert!(!is_aborted(&found));
    }
    let aborted = only(&[&closed, &with_end(false), &late(false)]);
    assert_eq!(reasons(&aborted), [CloseReason::ResetReceived; 2]);
    assert!(is_aborted(&aborted));
    assert!(!is_aborted(&only(&[&closed, &late(false)])), "no reset at the end of the connection");
}

#[test]
fn a_join_that_the_peer_never_acknowledges_is_unanswered_and_not_a_path() {
    for (closed_at, is_found) in [(1, false), (5, true)] {
        let KernelEvent::Subflow(mut join) = closed_subflow(12, SECOND + closed_at * SECOND / 2, 0) else {
            unreachable!()
        };
        (join.mp_join, join.mp_capable, join.established, join.handshake) = (true, false, None, None);
        join.tcp.bytes_acked.0 = 1;
        let initial = KernelEvent::Subflow(subflow(11, 2 * SECOND, 10));
        let mut open = join.clone();
        (open.closed, open.last, open.state) = (None, false, TcpState::SynSent);
        let open = KernelEvent::Subflow(open);
        let lingers = of_connection(&only(&[&initial, &closed_connection(6 * SECOND, 10), &open]));
        assert!(lingers.iter().any(|finding| matches!(finding.fact, Fact::JoinFailed(_))));
        let open = only(&[&initial, &open]);
        let found = only(&[&initial, &KernelEvent::Subflow(join)]);
        assert!(!open.subflows[1].is_path() && !found.subflows[1].is_path());
        assert_eq!(reasons(&found), [CloseReason::Unanswered]);
        let failed = of_connection(&found).iter().any(|finding| matches!(finding.fact, Fact::JoinFailed(_)));
        assert_eq!(failed, is_found, "a connection that closes soon is not a failure");
    }
}
