// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counters of events: the outcomes of joins.

use mpwatch_fixtures as fixture;
use mpwatch_model::flow::subflow::Closed;
use mpwatch_model::kernel::lifecycle::{CloseReason, TcpState};
use mpwatch_model::metric::event_counter::SUBFLOW_EVENTS;
use mpwatch_model::unit::Bytes;

#[test]
fn a_join_counts_once_by_its_outcome() {
    let joins =
        SUBFLOW_EVENTS.iter().find(|row| row.name == "mpwatch_host_joins_total").expect("the counter");
    let connection = fixture::connection(1, 2);
    assert_eq!((joins.kind)(&connection.subflows[0]), None, "the initial subflow");
    let established = &connection.subflows[1];
    assert_eq!((joins.kind)(established), Some("established"));
    let closed = |reason| Some(Closed { at: fixture::at(5_000_000), reason });
    let mut ended = established.clone();
    (ended.state, ended.closed) = (TcpState::Close, closed(CloseReason::Timeout));
    assert_eq!((joins.kind)(&ended), Some("established"), "a path that failed later");
    let mut waiting = established.clone();
    (waiting.handshake, waiting.bytes_acked, waiting.bytes_received) = (None, Bytes(0), Bytes(0));
    waiting.state = TcpState::SynSent;
    assert_eq!((joins.kind)(&waiting), None, "not answered yet");
    waiting.state = TcpState::Close;
    for (reason, outcome) in [
        (CloseReason::Refused, "refused"),
        (CloseReason::Unanswered, "unanswered"),
        (CloseReason::OptionRemoved, "option_removed"),
        (CloseReason::RemovedByAdmin, "other"),
    ] {
        waiting.closed = closed(reason);
        assert_eq!((joins.kind)(&waiting), Some(outcome));
    }
    waiting.created_at = None;
    assert_eq!((joins.kind)(&waiting), None, "its SYN was not traced");
}
