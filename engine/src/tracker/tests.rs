// SPDX-License-Identifier: MIT OR Apache-2.0
//! The tracker on streams made by hand: what must hold in whatever order records come.
#![allow(clippy::unwrap_used, reason = "tests")]

use mpwatch_model::energy::power::MachinePower;
use mpwatch_model::event::{
    ConnectionRecord, End, KernelEvent, MskBytes, MskView, NetnsName, Start, SubflowRecord, TcpCounters,
    Tick, Traces,
};
use mpwatch_model::histogram::RttHistogram;
use mpwatch_model::host::Host;
use mpwatch_model::id::{NetnsCookie, SocketCookie, SubflowId, Token};
use mpwatch_model::lifecycle::{CloseReason, TcpState};
use mpwatch_model::snapshot::Snapshot;
use mpwatch_model::timeline::TimelineEvent;
use mpwatch_model::unit::{BitsPerSecond, Bytes, Micros, Nanos};
use proptest::prelude::*;

use super::{Closed, Tracker};

mod bottleneck;
mod cost;

const SECOND: u64 = 1_000_000_000;

fn tracker(closed: Closed) -> Tracker {
    let traces = Traces::ALL;
    let machine = Some(MachinePower { cpus: 2, calibrated: Vec::new() });
    Tracker::new(
        Start { host: Host::default(), boot_epoch_ns: 0, at: Nanos(SECOND), traces, backoff: true, machine },
        closed,
    )
}

fn msk(sent: u64) -> MskView {
    MskView {
        cookie: SocketCookie(7),
        token: Token(0xabcd),
        remote_token: Token(0x1234),
        state: TcpState::Established,
        server_side: false,
        fallback: false,
        bytes: Some(MskBytes {
            sent: Bytes(sent),
            received: Bytes(0),
            acked: Bytes(sent),
            retransmitted: Some(Bytes(0)),
        }),
        addresses_announced: 0,
        addresses_accepted: 0,
        announced: None,
        removed_ids: Vec::new(),
    }
}

fn connection(at: u64, sent: u64) -> ConnectionRecord {
    ConnectionRecord {
        at: Nanos(at),
        netns: NetnsCookie(1),
        netns_inode: 2,
        cgroup: 0,
        opened: Some(Nanos(SECOND)),
        first_seen: Nanos(SECOND),
        closed: None,
        msk: msk(sent),
        cpu: None,
        owner: None,
        last: false,
    }
}

fn subflow(cookie: u64, at: u64, sent: u64) -> SubflowRecord {
    SubflowRecord {
        at: Nanos(at),
        id: SubflowId { cookie: SocketCookie(cookie), generation: 0 },
        netns: NetnsCookie(1),
        netns_inode: 2,
        cgroup: 0,
        msk: Some(msk(sent)),
        created: Some(Nanos(SECOND)),
        established: Some(Nanos(SECOND + 1_000_000)),
        first_seen: Nanos(SECOND),
        closed: None,
        handshake: Some(Micros(1_000)),
        joined_bytes: Some(Bytes(0)),
        effective: None,
        considered: 0,
        picked: 0,
        progress: None,
        unacked: false,
        stalls: Vec::new(),
        retransmits_fast: 0,
        retransmits_timeout: 0,
        retransmits_probe: 0,
        cpu: None,
        tcp: TcpCounters { bytes_sent: Bytes(sent), ..TcpCounters::default() },
        local: "10.0.0.1:1000".parse().unwrap(),
        remote: "10.0.0.2:80".parse().unwrap(),
        local_id: 0,
        remote_id: 0,
        interface: None,
        owner: None,
        state: TcpState::Established,
        error: 0,
        reset_reason: 0,
        tcp_header: 32,
        seen_open: true,
        mp_capable: true,
        mp_join: false,
        asked_mptcp: true,
        passive: false,
        backup: false,
        stale: false,
        last: false,
        end: End::default(),
        rtts: RttHistogram::default(),
    }
}

fn closed_connection(at: u64, sent: u64) -> KernelEvent {
    let mut record = connection(at, sent);
    (record.closed, record.last, record.msk.state) = (Some(Nanos(at)), true, TcpState::Close);
    KernelEvent::Connection(record)
}

fn closed_subflow(cookie: u64, at: u64, sent: u64) -> KernelEvent {
    let mut record = subflow(cookie, at, sent);
    (record.closed, record.last, record.state) = (Some(Nanos(at)), true, TcpState::Close);
    record.end.fin_sent_first = true;
    KernelEvent::Subflow(record)
}

fn tick(tracker: &mut Tracker, at: u64) -> Snapshot {
    tracker.apply(&KernelEvent::Tick(Tick { at: Nanos(at), ..Tick::default() }));
    tracker.snapshot()
}

proptest! {
    #[test]
    fn finals_make_one_complete_connection_in_whatever_order_they_come(order in Just(vec![0, 1, 2, 3, 4]).prop_shuffle()) {
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
    fn records_split_over_a_tick_never_make_two_connections_of_one(order in Just(vec![0, 1, 2]).prop_shuffle(), split in 0usize..4) {
        let events = [
            closed_subflow(11, 3 * SECOND, 1_000),
            closed_subflow(12, 3 * SECOND, 600),
            closed_connection(3 * SECOND, 1_500),
        ];
        let mut tracker = tracker(Closed::Keep);
        for (place, index) in order.into_iter().enumerate() {
            if place == split {
                tick(&mut tracker, 4 * SECOND);
            }
            tracker.apply(&events[index]);
        }
        tick(&mut tracker, 5 * SECOND);
        prop_assert_eq!(tracker.report().connections.len(), 1);
    }
}

#[test]
fn a_closed_connection_is_shown_for_two_more_ticks_and_then_forgotten() {
    let mut tracker = tracker(Closed::Forget);
    tracker.apply(&closed_connection(3 * SECOND, 10));
    tracker.apply(&closed_subflow(11, 3 * SECOND, 10));
    for second in [4, 5] {
        assert_eq!(tick(&mut tracker, second * SECOND).connections.len(), 1);
    }
    assert!(tick(&mut tracker, 6 * SECOND).connections.is_empty());
}

#[test]
fn rates_are_those_of_the_interval_and_unknown_beginnings_have_none() {
    let mut tracker = tracker(Closed::Forget);
    let mut adopted = connection(2 * SECOND, 1_000_000);
    adopted.opened = None;
    tracker.apply(&KernelEvent::Connection(adopted));
    let first = tick(&mut tracker, 2 * SECOND);
    assert_eq!(first.connections[0].send, BitsPerSecond(0), "a million bytes of long ago are no rate");
    tracker.apply(&KernelEvent::Connection(connection(3 * SECOND, 1_125_000)));
    let second = tick(&mut tracker, 3 * SECOND);
    assert_eq!(second.connections[0].send, BitsPerSecond(1_000_000));
    assert!((second.interval_s - 1.0).abs() < 1e-9);
}

#[test]
fn a_flow_that_vanishes_is_closed_for_an_unknown_reason_and_counted() {
    let mut tracker = tracker(Closed::Keep);
    tracker.apply(&KernelEvent::Connection(connection(2 * SECOND, 10)));
    tracker.apply(&KernelEvent::Subflow(subflow(11, 2 * SECOND, 10)));
    for second in 2..16 {
        tick(&mut tracker, second * SECOND);
    }
    let report = tracker.report();
    assert_eq!(report.losses.vanished, 2, "the subflow and the connection's socket");
    let connection = &report.connections[0];
    assert!(connection.closed_at.is_some());
    assert_eq!(connection.subflows[0].closed.unwrap().reason, CloseReason::Unknown);
}

#[test]
fn what_is_unchanged_is_neither_gone_nor_busy() {
    let mut tracker = tracker(Closed::Keep);
    tracker.apply(&KernelEvent::Connection(connection(2 * SECOND, 10)));
    tracker.apply(&KernelEvent::Subflow(subflow(11, 2 * SECOND, 10)));
    for second in 2..16 {
        tracker.apply(&KernelEvent::ConnectionUnchanged(SocketCookie(7)));
        tracker.apply(&KernelEvent::SubflowUnchanged(subflow(11, 0, 0).id));
        // Nobody knows these: told of before the tracker's stream began, or forgotten.
        tracker.apply(&KernelEvent::ConnectionUnchanged(SocketCookie(70)));
        tracker.apply(&KernelEvent::SubflowUnchanged(subflow(70, 0, 0).id));
        tick(&mut tracker, second * SECOND);
    }
    let report = tracker.report();
    assert_eq!((report.losses.vanished, report.connections.len()), (0, 1));
    let connection = &report.connections[0];
    assert!(connection.closed_at.is_none() && connection.subflows[0].closed.is_none());
    assert_eq!(connection.subflows[0].bytes_sent, Bytes(10));
    assert_eq!((connection.send, connection.subflows[0].send), (BitsPerSecond(0), BitsPerSecond(0)));
}

#[test]
fn a_socket_connected_anew_is_another_connection() {
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
fn what_two_samples_differ_in_stands_on_the_timeline_once() {
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
    assert_eq!(count(|what| matches!(what, TimelineEvent::SubflowStale { stale: true, .. })), 1);
    assert_eq!(count(|what| matches!(what, TimelineEvent::PriorityChanged { backup: true, .. })), 1);
    assert_eq!(count(|what| matches!(what, TimelineEvent::SubflowEstablished { .. })), 1);
}

#[test]
fn a_closed_socket_that_somebody_still_holds_is_not_told_again() {
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
fn a_later_namespace_with_the_inode_of_an_earlier_one_does_not_get_its_name() {
    let mut tracker = tracker(Closed::Forget);
    let named = |netns| KernelEvent::Netns(NetnsName { netns, inode: 2, name: "earlier".to_owned() });
    let shown = |tracker: &mut Tracker, netns| {
        let mut record = connection(2 * SECOND, 0);
        (record.netns, record.msk.cookie) = (NetnsCookie(netns), SocketCookie(70 + netns));
        tracker.apply(&KernelEvent::Connection(record));
        let snapshot = tick(tracker, 2 * SECOND);
        let one = snapshot.connections.iter().find(|one| one.id.netns == NetnsCookie(netns));
        one.unwrap().netns.clone()
    };
    tracker.apply(&named(Some(NetnsCookie(1))));
    assert_eq!(shown(&mut tracker, 1), "earlier");
    assert_eq!(shown(&mut tracker, 9), "net:[2]");
    // Recordings of older versions tell no cookie.
    tracker.apply(&named(None));
    assert_eq!(shown(&mut tracker, 9), "earlier");
}
