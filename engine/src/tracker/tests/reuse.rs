// SPDX-License-Identifier: MIT OR Apache-2.0
//! MPTCP sockets that are connected again (AF_UNSPEC): they keep their cookie, and records of both connections may arrive in any order.

use mpwatch_model::id::{SocketCookie, Token};
use mpwatch_model::kernel::event::KernelEvent;
use mpwatch_model::snapshot::Report;
use mpwatch_model::unit::Nanos;
use proptest::prelude::*;

use super::records::{SECOND, closed_connection, closed_subflow, connection, subflow, tick, tracker};
use crate::tracker::{Closed, Tracker};

/// Token of the second connection. The first connection has the token of `records::msk`.
const AGAIN: Token = Token(0xbeef);

/// Moves a record to the socket's second connection, opened at second 4. `token` is 0 if that connection fell back before its SYN.
fn of_second(event: KernelEvent, token: Token) -> KernelEvent {
    let opened = Some(Nanos(4 * SECOND));
    match event {
        KernelEvent::Connection(mut record) => {
            (record.opened, record.first_seen, record.msk.token) = (opened, Nanos(4 * SECOND), token);
            KernelEvent::Connection(record)
        }
        KernelEvent::Subflow(mut record) => {
            (record.created, record.first_seen) = (opened, Nanos(4 * SECOND));
            record.msk.as_mut().unwrap().token = token;
            KernelEvent::Subflow(record)
        }
        other => other,
    }
}

/// Ids of the connections, each with the cookies of its subflows.
fn found(report: &Report) -> Vec<(String, Vec<u64>)> {
    let cookies = |connection: &mpwatch_model::flow::connection::Connection| {
        let mut cookies: Vec<u64> = connection.subflows.iter().map(|subflow| subflow.id.cookie.0).collect();
        cookies.sort_unstable();
        cookies
    };
    report.connections.iter().map(|connection| (connection.id.to_string(), cookies(connection))).collect()
}

fn closed_first(tracker: &mut Tracker) {
    tracker.apply(&closed_connection(3 * SECOND, 10));
    tracker.apply(&closed_subflow(11, 3 * SECOND, 10));
}

#[test]
fn a_subflow_record_before_its_connection_record_does_not_join_the_closed_connection() {
    for token in [AGAIN, Token(0)] {
        let mut tracker = tracker(Closed::Keep);
        closed_first(&mut tracker);
        tracker.apply(&of_second(KernelEvent::Subflow(subflow(12, 5 * SECOND, 20)), token));
        tracker.apply(&of_second(KernelEvent::Connection(connection(5 * SECOND, 20)), token));
        tick(&mut tracker, 5 * SECOND);
        let expected = [("1-0000abcd-7".to_owned(), vec![11]), (format!("1-{token}-7"), vec![12])];
        assert_eq!(found(&tracker.report()), expected);
    }
}

/// The first records of both connections arrive when the kernel destroys their last subflow and has cleared their tokens.
#[test]
fn connections_without_token_and_cookie_have_different_ids() {
    let mut tracker = tracker(Closed::Keep);
    for cookie in [11, 12] {
        let KernelEvent::Subflow(mut record) = closed_subflow(cookie, 3 * SECOND, 10) else { unreachable!() };
        let msk = record.msk.as_mut().unwrap();
        (msk.token, msk.cookie) = (Token(0), SocketCookie(0));
        tracker.apply(&KernelEvent::Subflow(record));
    }
    tick(&mut tracker, 3 * SECOND);
    let expected = [("1-00000000-b".to_owned(), vec![11]), ("1-00000000-c".to_owned(), vec![12])];
    assert_eq!(found(&tracker.report()), expected);
}

proptest! {
    /// The late record belongs to a joined subflow of the first connection, which TCP closes after the second connection was opened.
    #[test]
    fn late_records_of_the_first_connection_stay_with_it(order in Just(vec![0, 1, 2]).prop_shuffle()) {
        let mut tracker = tracker(Closed::Keep);
        closed_first(&mut tracker);
        let later = [
            closed_subflow(13, 6 * SECOND, 30),
            of_second(KernelEvent::Connection(connection(5 * SECOND, 20)), AGAIN),
            of_second(KernelEvent::Subflow(subflow(12, 5 * SECOND, 20)), AGAIN),
        ];
        for index in order {
            tracker.apply(&later[index]);
        }
        tick(&mut tracker, 6 * SECOND);
        let expected = [("1-0000abcd-7".to_owned(), vec![11, 13]), ("1-0000beef-7".to_owned(), vec![12])];
        prop_assert_eq!(found(&tracker.report()), expected);
    }
}

#[test]
fn a_late_record_of_the_first_connection_does_not_make_the_second_vanish() {
    let mut tracker = tracker(Closed::Keep);
    closed_first(&mut tracker);
    tracker.apply(&of_second(KernelEvent::Connection(connection(5 * SECOND, 20)), AGAIN));
    tracker.apply(&of_second(KernelEvent::Subflow(subflow(12, 5 * SECOND, 20)), AGAIN));
    tracker.apply(&closed_subflow(13, 6 * SECOND, 30));
    for second in 6..100 {
        tracker.apply(&KernelEvent::ConnectionUnchanged(SocketCookie(7)));
        tracker.apply(&KernelEvent::SubflowUnchanged(subflow(12, 0, 0).id));
        tick(&mut tracker, second * SECOND);
    }
    let report = tracker.report();
    assert_eq!(report.losses.vanished, 0);
    let open: Vec<_> =
        report.connections.iter().filter(|connection| connection.closed_at.is_none()).collect();
    assert_eq!((open.len(), open[0].id.token), (1, AGAIN));
}
