// SPDX-License-Identifier: MIT OR Apache-2.0
//! Connections and subflows from the first record to the last, with records in any order.

use jiff::Timestamp;
use mpwatch_model::flow::connection::Connection;
use mpwatch_model::flow::timeline::{ObservedBy, TimelineEntry, TimelineEvent};
use mpwatch_model::id::{NetnsCookie, SocketCookie, Token};
use mpwatch_model::kernel::clock::ClockChange;
use mpwatch_model::kernel::event::{KernelEvent, MskView, NetnsName, Stall, SubflowRecord, Tick};
use mpwatch_model::kernel::lifecycle::{CarriedBy, CloseReason, FallbackReason, TcpState};
use mpwatch_model::snapshot::Report;
use mpwatch_model::unit::{BitsPerSecond, Bytes, Micros, Nanos};
use proptest::prelude::*;

use super::records::{SECOND, closed_connection, closed_subflow, connection, msk, subflow, tick, tracker};
use crate::tracker::{Closed, Selection, Tracker};

proptest! {
    #[test]
    fn final_records_in_any_order_make_one_complete_connection(order in Just(vec![0, 1, 2, 3, 4]).prop_shuffle()) {
        let events = [
            KernelEvent::Connection(connection(2 * SECOND, 500)),
            KernelEvent::Subflow(subflow(11, 2 * SECOND, 500)),
            closed_connection(3 * SECOND, 1_500),
            closed_subflow(11, 3 * SECOND, 1_000),
            closed_subflow(12, 3 * SECOND, 600),
        ];
        let mut tracker = tracker(Closed::Keep);
        for index in order {
            tracker.apply(&events[index]);
        }
        tick(&mut tracker, 4 * SECOND);
        let report = tracker.report();
        prop_assert_eq!(report.connections.len(), 1);
        let connection = &report.connections[0];
        prop_assert_eq!(connection.bytes_sent, Some(Bytes(1_500)));
        prop_assert_eq!(connection.bytes_reinjected, Some(Bytes(100)));
        prop_assert_eq!(connection.subflows.len(), 2);
        prop_assert!(connection.subflows.iter().all(|s| s.closed.is_some_and(|c| c.reason == CloseReason::Fin)));
        prop_assert_eq!(report.losses.vanished, 0);
    }

    #[test]
    fn a_tick_between_final_records_does_not_split_a_connection(order in Just(vec![0, 1, 2]).prop_shuffle(), split in 0usize..4) {
        let events = [
            closed_subflow(11, 3 * SECOND, 1_000),
            closed_subflow(12, 3 * SECOND, 600),
            closed_connection(3 * SECOND, 1_500),
        ];
        let mut tracker = tracker(Closed::Keep);
        for (position, index) in order.into_iter().enumerate() {
            if position == split {
                tick(&mut tracker, 4 * SECOND);
            }
            tracker.apply(&events[index]);
        }
        tick(&mut tracker, 5 * SECOND);
        prop_assert_eq!(tracker.report().connections.len(), 1);
    }
}

/// The report of a run with 54 000 connections, which have tokens from 1 on.
fn report_of_54_000(selection: Option<Selection>) -> Report {
    const EACH: u32 = 6_000;
    let mut tracker = tracker(Closed::Keep).selecting(selection);
    for turn in 0..9_u32 {
        let at = u64::from(2 + turn) * SECOND;
        for number in turn * EACH..(turn + 1) * EACH {
            let mut record = connection(at, 500);
            (record.msk.cookie, record.msk.token) = (SocketCookie(1 + u64::from(number)), Token(1 + number));
            (record.closed, record.last, record.msk.state) = (Some(Nanos(at)), true, TcpState::Close);
            let mut last = subflow(u64::from(100_000 + number), at, 500);
            (last.msk, last.closed, last.last) = (Some(record.msk.clone()), Some(Nanos(at)), true);
            tracker.apply(&KernelEvent::Connection(record));
            tracker.apply(&KernelEvent::Subflow(last));
        }
        tick(&mut tracker, at);
    }
    (11..21).for_each(|second| drop(tick(&mut tracker, second * SECOND)));
    tracker.report()
}

#[test]
fn a_filter_is_applied_before_the_limit_of_the_report() {
    let report = report_of_54_000(Some(Box::new(|connection| connection.id.token <= Token(10))));
    assert_eq!((report.connections.len(), report.losses.connections_unreported), (10, 0));
    assert_eq!(report.filtered_out, 53_990);
}

#[test]
fn the_report_keeps_the_latest_closed_connections_and_counts_the_others() {
    let report = report_of_54_000(None);
    assert_eq!((report.connections.len(), report.losses.connections_unreported), (50_000, 4_000));
    assert!(
        report.connections.iter().all(|connection| connection.id.token > Token(4_000)),
        "the latest are kept"
    );
}

#[test]
fn times_follow_a_calendar_clock_that_is_set_later() {
    let mut tracker = tracker(Closed::Keep);
    tracker.apply(&KernelEvent::Subflow(subflow(11, 2 * SECOND, 500)));
    tracker.apply(&KernelEvent::Connection(connection(2 * SECOND, 500)));
    tracker.apply(&closed_subflow(11, 3 * SECOND, 500));
    tracker.apply(&closed_connection(3 * SECOND, 500));
    // The connection is in the archive of the report before the calendar clock is set.
    (4..14).for_each(|second| drop(tick(&mut tracker, second * SECOND)));
    let at = Nanos(14 * SECOND);
    let day_ns = 86_400 * i64::try_from(SECOND).unwrap();
    tracker.apply(&KernelEvent::Clock(ClockChange { at, boot_epoch_ns: day_ns }));
    let snapshot = tick(&mut tracker, 14 * SECOND);
    assert_eq!(snapshot.boot_epoch_ns, day_ns);
    let after = |second: i64| Timestamp::from_second(86_400 + second).unwrap();
    assert_eq!(snapshot.at, after(14));
    let report = tracker.report();
    let [connection] = &report.connections[..] else { panic!("one connection") };
    assert_eq!((connection.opened_at, connection.closed_at), (Some(after(1)), Some(after(3))));
    assert_eq!((report.run.from, report.run.to), (after(1), after(14)));
    assert!(connection.timeline.iter().all(|entry| entry.at >= after(1)), "{:?}", connection.timeline);
}

#[test]
fn a_closed_connection_is_reported_for_two_more_ticks_and_then_discarded() {
    let mut tracker = tracker(Closed::Forget);
    tracker.apply(&closed_connection(3 * SECOND, 10));
    tracker.apply(&closed_subflow(11, 3 * SECOND, 10));
    for second in [4, 5] {
        assert_eq!(tick(&mut tracker, second * SECOND).connections.len(), 1);
    }
    assert!(tick(&mut tracker, 6 * SECOND).connections.is_empty());
}

#[test]
fn rates_cover_the_interval_and_an_adopted_connection_starts_without_rates() {
    let mut tracker = tracker(Closed::Forget);
    let mut adopted = connection(2 * SECOND, 1_000_000);
    adopted.opened = None;
    tracker.apply(&KernelEvent::Connection(adopted));
    let path = |cookie, at, bytes| {
        KernelEvent::Subflow(SubflowRecord { seen_open: false, created: None, ..subflow(cookie, at, bytes) })
    };
    tracker.apply(&path(11, 2 * SECOND, 600_000));
    tracker.apply(&path(12, 2 * SECOND, 400_000));
    let first = tick(&mut tracker, 2 * SECOND);
    assert_eq!(first.connections[0].send, None, "earlier bytes do not count");
    assert_eq!(first.connections[0].observed.unwrap().bytes, Bytes(0));
    // 25 000 of these bytes are sent on both subflows.
    tracker.apply(&KernelEvent::Connection(connection(3 * SECOND, 1_125_000)));
    tracker.apply(&path(11, 3 * SECOND, 700_000));
    tracker.apply(&path(12, 3 * SECOND, 450_000));
    let second = tick(&mut tracker, 3 * SECOND);
    let connection = &second.connections[0];
    assert_eq!(connection.send, Some(BitsPerSecond(1_200_000)), "the sum of the rates of its subflows");
    let rates: Vec<_> = connection.subflows.iter().map(|subflow| subflow.send.unwrap().0).collect();
    assert_eq!(rates, [800_000, 400_000]);
    let observed = connection.observed.unwrap();
    assert_eq!((observed.bytes, observed.active), (Bytes(125_000), Nanos(SECOND)));
    assert_eq!(connection.subflows[0].observed.bytes, Bytes(100_000));
    // Shares of the observed payload: 100 000 and 50 000 bytes.
    let shares: Vec<f64> = connection.subflows.iter().map(|subflow| subflow.share_sent.unwrap()).collect();
    assert!(
        shares.iter().zip([2.0 / 3.0, 1.0 / 3.0]).all(|(share, of)| (share - of).abs() < 1e-9),
        "{shares:?}"
    );
    assert_eq!((connection.jain_index, connection.partly_observed), (Some(0.9), true));
    assert_eq!((first.interval_s, second.interval_s), (None, Some(1.0)));
}

#[test]
fn a_flow_that_vanishes_is_counted_and_closed_for_an_unknown_reason() {
    let mut tracker = tracker(Closed::Keep);
    tracker.apply(&KernelEvent::Connection(connection(2 * SECOND, 10)));
    tracker.apply(&KernelEvent::Subflow(subflow(11, 2 * SECOND, 10)));
    for second in 2..100 {
        tick(&mut tracker, second * SECOND);
    }
    let report = tracker.report();
    assert_eq!(report.losses.vanished, 2, "the subflow and the connection's socket");
    let connection = &report.connections[0];
    assert!(connection.closed_at.is_some());
    assert_eq!(connection.subflows[0].closed.unwrap().reason, CloseReason::Unknown);
}

#[test]
fn an_unchanged_flow_neither_vanishes_nor_has_a_rate() {
    let mut tracker = tracker(Closed::Keep);
    tracker.apply(&KernelEvent::Connection(connection(2 * SECOND, 10)));
    tracker.apply(&KernelEvent::Subflow(subflow(11, 2 * SECOND, 10)));
    for second in 2..16 {
        tracker.apply(&KernelEvent::ConnectionUnchanged(SocketCookie(7)));
        tracker.apply(&KernelEvent::SubflowUnchanged(subflow(11, 0, 0).id));
        // The tracker has no state of these sockets: they were reported before the stream began, or were discarded.
        tracker.apply(&KernelEvent::ConnectionUnchanged(SocketCookie(70)));
        tracker.apply(&KernelEvent::SubflowUnchanged(subflow(70, 0, 0).id));
        tick(&mut tracker, second * SECOND);
    }
    let report = tracker.report();
    assert_eq!((report.losses.vanished, report.connections.len()), (0, 1));
    let connection = &report.connections[0];
    assert!(connection.closed_at.is_none() && connection.subflows[0].closed.is_none());
    assert_eq!(connection.subflows[0].bytes_sent, Bytes(10));
    assert_eq!(
        (connection.send, connection.subflows[0].send),
        (Some(BitsPerSecond(0)), Some(BitsPerSecond(0)))
    );
}

#[test]
fn a_socket_that_connects_again_is_a_new_connection() {
    let mut tracker = tracker(Closed::Keep);
    tracker.apply(&closed_connection(3 * SECOND, 10));
    tracker.apply(&closed_subflow(11, 3 * SECOND, 10));
    let mut again = connection(4 * SECOND, 0);
    (again.opened, again.msk.token) = (Some(Nanos(4 * SECOND)), Token(0xbeef));
    tracker.apply(&KernelEvent::Connection(again));
    tick(&mut tracker, 5 * SECOND);
    let ids: Vec<String> = tracker.report().connections.iter().map(|c| c.id.to_string()).collect();
    assert_eq!(ids, ["1-0000abcd-7", "1-0000beef-7"]);
}

#[test]
fn a_change_between_two_records_is_on_the_timeline_once() {
    let mut tracker = tracker(Closed::Forget);
    tracker.apply(&KernelEvent::Connection(connection(2 * SECOND, 10)));
    tracker.apply(&KernelEvent::Subflow(subflow(11, 2 * SECOND, 10)));
    tick(&mut tracker, 2 * SECOND);
    let mut changed = subflow(11, 3 * SECOND, 10);
    (changed.stale, changed.backup) = (true, true);
    for _ in 0..2 {
        tracker.apply(&KernelEvent::Subflow(changed.clone()));
    }
    let snapshot = tick(&mut tracker, 3 * SECOND);
    let timeline = &snapshot.connections[0].timeline;
    let count =
        |matches: fn(&TimelineEvent) -> bool| timeline.iter().filter(|entry| matches(&entry.event)).count();
    assert_eq!(count(|event| matches!(event, TimelineEvent::SubflowStale { stale: true, .. })), 1);
    assert_eq!(count(|event| matches!(event, TimelineEvent::PriorityChanged { backup: true, .. })), 1);
    assert_eq!(count(|event| matches!(event, TimelineEvent::SubflowEstablished { .. })), 1);
}

#[test]
fn the_failure_of_a_path_before_tracing_began_is_not_on_the_timeline() {
    for (created, events) in [(None, 0), (Some(Nanos(SECOND)), 1)] {
        let mut tracker = tracker(Closed::Forget);
        let mut failed = subflow(11, 2 * SECOND, 10);
        (failed.stale, failed.created, failed.established) = (true, created, created);
        tracker.apply(&KernelEvent::Connection(connection(2 * SECOND, 10)));
        tracker.apply(&KernelEvent::Subflow(failed));
        let snapshot = tick(&mut tracker, 3 * SECOND);
        let connection = &snapshot.connections[0];
        assert!(connection.subflows[0].is_failed());
        let found = connection
            .timeline
            .iter()
            .filter(|entry| matches!(entry.event, TimelineEvent::SubflowStale { .. }));
        assert_eq!(found.count(), events, "{created:?}");
    }
}

#[test]
fn a_closed_socket_that_a_process_still_holds_is_not_reported_again() {
    let mut tracker = tracker(Closed::Keep);
    tracker.apply(&closed_subflow(8, 2 * SECOND, 10));
    tracker.apply(&closed_connection(2 * SECOND, 10));
    for n in 3..7 {
        tick(&mut tracker, n * SECOND);
    }
    let mut held = connection(7 * SECOND, 10);
    (held.closed, held.msk.state) = (Some(Nanos(2 * SECOND)), TcpState::Close);
    tracker.apply(&KernelEvent::Connection(held));
    let mut dying = subflow(8, 7 * SECOND, 10);
    (dying.closed, dying.state) = (Some(Nanos(2 * SECOND)), TcpState::Close);
    tracker.apply(&KernelEvent::Subflow(dying));
    assert_eq!(tick(&mut tracker, 7 * SECOND).connections.len(), 0);
    assert_eq!(tracker.report().connections.len(), 1);
}

#[test]
fn a_namespace_that_reuses_an_inode_does_not_get_the_earlier_name() {
    let mut tracker = tracker(Closed::Forget);
    let named = NetnsName { netns: NetnsCookie(1), inode: 2, name: "earlier".to_owned() };
    let reported = |tracker: &mut Tracker, netns| {
        let mut record = connection(2 * SECOND, 0);
        (record.netns, record.msk.cookie) = (NetnsCookie(netns), SocketCookie(70 + netns));
        tracker.apply(&KernelEvent::Connection(record));
        let snapshot = tick(tracker, 2 * SECOND);
        let found = snapshot.connections.iter().find(|connection| connection.id.netns == NetnsCookie(netns));
        found.unwrap().netns.clone()
    };
    tracker.apply(&KernelEvent::Netns(named));
    assert_eq!(reported(&mut tracker, 1), "earlier");
    assert_eq!(reported(&mut tracker, 9), "net:[2]");
}

/// TCP closes the subflows of a connection after its MPTCP socket, failed subflows minutes later.
#[test]
fn fairness_does_not_count_the_time_after_the_connection_closed() {
    let end_of = |second: u64| {
        let mut tracker = tracker(Closed::Keep);
        tracker.apply(&KernelEvent::Connection(connection(2 * SECOND, 500)));
        tracker.apply(&closed_connection(3 * SECOND, 2_000));
        tracker.apply(&closed_subflow(11, 3 * SECOND, 1_000));
        tracker.apply(&closed_subflow(12, second * SECOND, 1_000));
        tick(&mut tracker, 9 * SECOND);
        tracker.report().connections[0].jain_index.unwrap()
    };
    assert_eq!((end_of(3), end_of(8)), (1.0, 1.0));
}

/// The payload of a subflow that closed before tracing began is in the kernel's total of the connection, but its wire bytes are unknown.
#[test]
fn the_excess_of_an_adopted_connection_covers_only_observed_traffic() {
    let mut tracker = tracker(Closed::Forget);
    let at = |seconds: u64, of_connection: u64, own: u64, segments: u32| {
        let mut socket = connection(seconds * SECOND, of_connection);
        socket.opened = None;
        let mut record = subflow(1, seconds * SECOND, own);
        (record.seen_open, record.created, record.msk) = (false, None, Some(msk(of_connection)));
        (record.tcp.segments_out, record.tcp.data_segments_out) = (segments, segments);
        [KernelEvent::Connection(socket), KernelEvent::Subflow(record)]
    };
    for event in at(2, 9_000_000, 1_000_000, 1_000) {
        tracker.apply(&event);
    }
    let adopted = tick(&mut tracker, 2 * SECOND).connections.remove(0);
    assert_eq!(adopted.excess_ratio(), None, "nothing was observed yet");
    for event in at(3, 9_100_000, 1_100_000, 1_100) {
        tracker.apply(&event);
    }
    let observed = tick(&mut tracker, 3 * SECOND).connections.remove(0);
    // 100 segments, each with 66 bytes of headers and 24 bytes of MPTCP options.
    let wire = 100_000 + 100 * (66 + 24);
    assert_eq!(observed.observed.unwrap().wire_bytes_estimate, Bytes(wire));
    let expected = 1.0 - 100_000.0 / wire as f64;
    assert!((observed.excess_ratio().unwrap() - expected).abs() < 1e-9, "{:?}", observed.excess_ratio());
}

#[test]
fn causes_of_retransmissions_are_counted_on_an_adopted_subflow_too() {
    let mut tracker = tracker(Closed::Forget);
    let record = subflow(1, SECOND, 1_000);
    let (seen_open, created, retransmits_timeout) = (false, None, 19);
    tracker.apply(&KernelEvent::Subflow(SubflowRecord { seen_open, created, retransmits_timeout, ..record }));
    let found = tick(&mut tracker, SECOND).connections.remove(0).subflows.remove(0);
    assert_eq!(found.retransmits.map(|causes| [causes.fast, causes.timeout]), Some([0, 19]));
}

#[test]
fn time_in_which_the_machine_was_suspended_is_not_a_stall() {
    for (stalled, stall) in [(3_600, None), (3_610, Some(Micros(10_000_000)))] {
        let mut tracker = tracker(Closed::Keep);
        tracker.apply(&KernelEvent::Connection(connection(SECOND, 500)));
        tracker.apply(&KernelEvent::Subflow(subflow(11, SECOND, 500)));
        tick(&mut tracker, 2 * SECOND);

        let (from, to) = (Nanos(2 * SECOND), Nanos((2 + stalled) * SECOND));
        let mut resumed = subflow(11, to.0, 1_500);
        resumed.stalls = vec![Stall { from, to, unacked: Some(true) }];
        resumed.progress = Some(to);
        tracker.apply(&KernelEvent::Connection(connection(to.0, 1_500)));
        tracker.apply(&KernelEvent::Subflow(resumed));
        let tick = Tick { at: Nanos(3_613 * SECOND), suspended: Nanos(3_600 * SECOND), ..Tick::default() };
        tracker.apply(&KernelEvent::Tick(tick));

        let report = tracker.report();
        let found = report.connections[0].timeline.iter().find_map(|entry| match entry.event {
            TimelineEvent::Stalled { gap, .. } => Some(gap),
            _ => None,
        });
        assert_eq!(found, stall);
        // 1 000 bytes in 11 s: the time between the ticks without the suspension.
        assert_eq!(report.connections[0].send, Some(BitsPerSecond(727)));
    }
}

#[test]
fn payload_that_is_counted_as_lost_is_not_reported_for_the_only_subflow() {
    let reported = |are_apart| {
        let mut tracker = tracker(Closed::Keep);
        let KernelEvent::Subflow(mut record) = closed_subflow(11, 3 * SECOND, 1_000) else { unreachable!() };
        record.msk = Some(MskView { fallback: true, bytes: None, bytes_are_apart: are_apart, ..msk(0) });
        tracker.apply(&KernelEvent::Subflow(record));
        tick(&mut tracker, 4 * SECOND);
        tracker.report().connections[0].bytes_sent
    };
    assert_eq!((reported(false), reported(true)), (Some(Bytes(1_000)), None));
}

/// A subflow that sent `syns` SYNs. The kernel has marked the fallback because it omits MP_CAPABLE from further SYNs.
fn connecting(at: u64, syns: u32) -> SubflowRecord {
    let mut record = subflow(11, at, 0);
    record.msk = Some(MskView { fallback: true, state: TcpState::SynSent, ..msk(0) });
    (record.state, record.established, record.handshake, record.mp_capable) =
        (TcpState::SynSent, None, None, false);
    record.tcp.segments_out = syns;
    record
}

#[test]
fn syns_without_an_answer_are_not_a_fallback() {
    let mut tracker = tracker(Closed::Keep);
    tracker.apply(&KernelEvent::Subflow(connecting(5 * SECOND, 3)));
    let open = tick(&mut tracker, 5 * SECOND).connections.remove(0);
    assert_eq!((open.fallback, open.carried_by()), (None, CarriedBy::Mptcp));
    let mut closed =
        SubflowRecord { closed: Some(Nanos(9 * SECOND)), last: true, ..connecting(9 * SECOND, 4) };
    (closed.state, closed.end.never_established) = (TcpState::Close, true);
    tracker.apply(&KernelEvent::Subflow(closed));
    let closed = tick(&mut tracker, 9 * SECOND).connections.remove(0);
    assert_eq!((closed.fallback, closed.subflows[0].closed.unwrap().reason), (None, CloseReason::Unanswered));
    assert!(!closed.timeline.iter().any(|entry| matches!(entry.event, TimelineEvent::FellBack { .. })));
}

#[test]
fn a_syn_that_is_answered_only_without_the_option_is_a_fallback() {
    for (option_omitted, expected) in
        [(true, FallbackReason::OptionOmitted), (false, FallbackReason::NoMpCapableInSynAck)]
    {
        let mut tracker = tracker(Closed::Keep);
        tracker.apply(&KernelEvent::Subflow(connecting(5 * SECOND, 3)));
        tick(&mut tracker, 5 * SECOND);
        let mut record = SubflowRecord { option_omitted, ..connecting(9 * SECOND, 5) };
        record.msk.as_mut().unwrap().remote_token = Token(0);
        (record.state, record.established) = (TcpState::Established, Some(Nanos(8 * SECOND)));
        tracker.apply(&KernelEvent::Subflow(record));
        let connection = tick(&mut tracker, 9 * SECOND).connections.remove(0);
        assert_eq!(connection.fallback.unwrap().reason, expected);
        let is_fallback = |entry: &&TimelineEntry| matches!(entry.event, TimelineEvent::FellBack { .. });
        let entry = connection.timeline.iter().find(is_fallback).unwrap();
        assert_eq!((entry.at, entry.source), (Timestamp::from_second(8).unwrap(), ObservedBy::Tracepoint));
    }
}

#[test]
fn a_connect_that_fails_before_its_syn_opens_no_subflow() {
    for (syns, reason) in [(0, CloseReason::NotSent), (1, CloseReason::Unanswered)] {
        let mut tracker = tracker(Closed::Keep);
        let mut record =
            SubflowRecord { closed: Some(Nanos(SECOND)), last: true, ..connecting(SECOND, syns) };
        (record.state, record.end.never_established) = (TcpState::Close, true);
        tracker.apply(&KernelEvent::Subflow(record));
        let connection = tick(&mut tracker, 2 * SECOND).connections.remove(0);
        let subflow = &connection.subflows[0];
        let is_opened = |entry: &TimelineEntry| matches!(entry.event, TimelineEvent::SubflowOpened { .. });
        assert_eq!(subflow.closed.unwrap().reason, reason);
        assert_eq!(subflow.created_at.is_some(), syns > 0);
        assert_eq!(connection.timeline.iter().any(is_opened), syns > 0);
    }
}

#[test]
fn the_initial_subflow_is_first_even_if_it_is_learned_after_a_join() {
    let mut tracker = tracker(Closed::Keep);
    let join = |cookie, at| {
        let mut record = SubflowRecord { mp_join: true, mp_capable: false, ..subflow(cookie, at, 10) };
        record.created = Some(Nanos(SECOND + cookie));
        KernelEvent::Subflow(record)
    };
    tracker.apply(&join(12, 2 * SECOND));
    let first = tick(&mut tracker, 2 * SECOND).connections.remove(0);
    tracker.apply(&KernelEvent::Subflow(subflow(11, 3 * SECOND, 10)));
    tracker.apply(&join(13, 3 * SECOND));
    let second = tick(&mut tracker, 3 * SECOND).connections.remove(0);
    let places = |connection: &Connection| -> Vec<(u64, u32)> {
        connection.subflows.iter().map(|subflow| (subflow.id.cookie.0, subflow.place)).collect()
    };
    assert_eq!((places(&first), places(&second)), (vec![(12, 2)], vec![(11, 1), (12, 2), (13, 3)]));
}

#[test]
fn only_a_received_fin_is_subtracted_from_the_payload() {
    for (fin_received, payload) in [(false, 1_000), (true, 999)] {
        let mut tracker = tracker(Closed::Keep);
        let KernelEvent::Subflow(mut record) = closed_subflow(1, 2 * SECOND, 10) else { panic!("a subflow") };
        (record.msk, record.tcp.bytes_received) = (None, Bytes(1_000));
        record.end.fin_received = fin_received;
        tracker.apply(&KernelEvent::Subflow(record));
        let found = tick(&mut tracker, 2 * SECOND).connections.remove(0);
        assert_eq!(found.bytes_received, Some(Bytes(payload)), "FIN received: {fin_received}");
    }
}

#[test]
fn payload_that_a_local_queue_dropped_was_not_on_the_wire() {
    let mut tracker = tracker(Closed::Keep);
    let mut record = subflow(1, 2 * SECOND, 14_000);
    (record.tcp.mss, record.tcp.segments_out, record.tcp.data_segments_out) = (1_400, 10, 10);
    record.tcp.bytes_dropped = Bytes(2_800);
    for event in [KernelEvent::Connection(connection(2 * SECOND, 11_200)), KernelEvent::Subflow(record)] {
        tracker.apply(&event);
    }
    let found = tick(&mut tracker, 2 * SECOND).connections.remove(0);
    assert_eq!(found.subflows[0].wire_bytes_sent_estimate, Bytes(11_200 + 8 * (66 + 24)));
}
