// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which connections need an explanation, and how long an answer applies.

use mpwatch_fixtures as fixture;
use mpwatch_model::id::Token;
use mpwatch_model::kernel::event::{KernelEvent, SubflowRecord, Tick};
use mpwatch_model::kernel::lifecycle::{FallbackReason, TcpState};
use mpwatch_model::unit::{Bytes, Nanos};
use mpwatch_model::why::answer::Explanation;

use super::records::{SECOND, connection, msk, subflow, tracker};
use crate::tracker::close::fallback_reason;
use crate::tracker::{Closed, Tracker};

/// A tick with these subflows. Returns the number of connections that need an explanation, and whether the only connection has a cause.
fn step(tracker: &mut Tracker, second: u64, subflows: &[&SubflowRecord]) -> (usize, bool) {
    let mut socket = connection(second * SECOND, second);
    socket.msk.fallback = subflows.iter().any(|record| record.msk.as_ref().is_some_and(|msk| msk.fallback));
    tracker.apply(&KernelEvent::Connection(socket));
    for record in subflows {
        tracker.apply(&KernelEvent::Subflow((*record).clone()));
    }
    tracker.apply(&KernelEvent::Tick(Tick { at: Nanos(second * SECOND), ..Tick::default() }));
    let asked = tracker.take_unexplained(10);
    for question in &asked {
        let connection = question.id;
        tracker.apply(&KernelEvent::Explanation(Explanation {
            connection,
            cause: Some(fixture::cause().into()),
        }));
    }
    let snapshot = tracker.end_tick();
    let [found] = &snapshot.connections[..] else { panic!("one connection") };
    (asked.len(), found.cause.is_some())
}

/// The second subflow in this state.
fn join(second: u64, state: TcpState) -> SubflowRecord {
    let is_joined = state == TcpState::Established;
    let mut record = subflow(12, second * SECOND, 0);
    (record.mp_capable, record.mp_join, record.state) = (false, true, state);
    (record.seen_open, record.established) = (is_joined, is_joined.then_some(Nanos(second * SECOND)));
    record
}

#[test]
fn a_connection_is_asked_about_once_and_a_second_path_ends_the_cause() {
    let mut tracker = tracker(Closed::Forget);
    let initial = subflow(11, SECOND, 10);
    assert_eq!(step(&mut tracker, 2, &[&initial]), (0, false), "a second path may still join");
    assert_eq!(step(&mut tracker, 4, &[&initial]), (1, true));
    assert_eq!(step(&mut tracker, 5, &[&initial]), (0, true));
    let joined = join(6, TcpState::Established);
    assert_eq!(step(&mut tracker, 6, &[&initial, &joined]), (0, false));
}

#[test]
fn a_connection_without_data_cannot_have_a_second_path_yet() {
    let mut tracker = tracker(Closed::Forget);
    let mut initial = subflow(11, SECOND, 0);
    initial.tcp.bytes_acked = Bytes(1);
    assert_eq!(step(&mut tracker, 4, &[&initial]), (0, false), "only the SYN was acknowledged");
    initial.tcp.bytes_acked = Bytes(11);
    assert_eq!(step(&mut tracker, 5, &[&initial]), (1, true));
}

#[test]
fn a_join_is_given_time_until_its_first_retransmission() {
    let mut tracker = tracker(Closed::Forget);
    let initial = subflow(11, SECOND, 10);
    let mut joining = join(3, TcpState::SynSent);
    assert_eq!(step(&mut tracker, 4, &[&initial, &joining]), (0, false));
    joining.tcp.segments_retransmitted = 1;
    assert_eq!(step(&mut tracker, 5, &[&initial, &joining]), (1, true));
}

#[test]
fn a_connection_that_falls_back_later_is_asked_about_again() {
    let mut tracker = tracker(Closed::Forget);
    let mut initial = subflow(11, SECOND, 10);
    assert_eq!(step(&mut tracker, 4, &[&initial]), (1, true));
    initial.msk.as_mut().unwrap().fallback = true;
    assert_eq!(step(&mut tracker, 5, &[&initial]), (1, true));
    assert_eq!(step(&mut tracker, 6, &[&initial]), (0, true));
}

#[test]
fn an_idle_connection_is_asked_about_before_it_is_put_aside_and_keeps_its_cause() {
    let mut tracker = tracker(Closed::Forget).with_shared_idle();
    let initial = subflow(11, SECOND, 10);
    tracker.apply(&KernelEvent::Subflow(initial.clone()));
    tracker.apply(&KernelEvent::Connection(connection(SECOND, 10)));
    let mut asked = 0;
    for tenth in 11..30 {
        let at = Nanos(SECOND / 10 * tenth);
        tracker.apply(&KernelEvent::SubflowUnchanged(initial.id));
        tracker.apply(&KernelEvent::ConnectionUnchanged(msk(10).cookie));
        tracker.apply(&KernelEvent::Tick(Tick { at, ..Tick::default() }));
        for question in tracker.take_unexplained(10) {
            asked += 1;
            let cause = Some(fixture::cause().into());
            tracker.apply(&KernelEvent::Explanation(Explanation { connection: question.id, cause }));
        }
        drop(tracker.end_tick());
    }
    let snapshot = tracker.end_tick();
    let idle: Vec<_> = snapshot.idle.iter().map(|idle| idle.connection(Nanos(3 * SECOND), 0)).collect();
    assert_eq!((asked, idle.len(), snapshot.connections.len()), (1, 1, 0));
    assert!(idle[0].cause.is_some());
    assert_eq!(snapshot.open_counts().causes, [("no-option-in-answer".into(), 1)].into());
}

#[test]
fn a_fallback_with_a_known_key_came_after_the_handshake() {
    let mut record = subflow(11, SECOND, 10);
    record.mp_capable = false;
    assert_eq!(fallback_reason(&record), FallbackReason::AfterHandshake);
    record.msk.as_mut().unwrap().remote_token = Token(0);
    assert_eq!(fallback_reason(&record), FallbackReason::NoMpCapableInSynAck);
}
