// SPDX-License-Identifier: MIT OR Apache-2.0
//! Start and end of outages, as evaluated at ticks and as recorded by the subflows.

use jiff::Timestamp;
use mpwatch_model::flow::progress::Progress;
use mpwatch_model::flow::timeline::TimelineEvent;
use mpwatch_model::kernel::event::{KernelEvent, MskView, Stall, Waiting};
use mpwatch_model::unit::{Bytes, Micros, Nanos};

use super::records::{connection, msk, subflow, tick, tracker};
use crate::tracker::{Closed, Tracker};

const MS: u64 = 1_000_000;
/// When data is sent on the first path (`SENT`) and on the second path, in milliseconds.
const SENT: u64 = 10_000;
const AGAIN: u64 = 10_200;
/// When data is acknowledged on the first path (`ANSWERED`) and on the second path, in milliseconds.
const ANSWERED: u64 = 10_870;
const ANSWERED_AGAIN: u64 = 11_060;

/// Applies the records of both paths at a time, with the stalls that the first path has recorded.
fn apply(tracker: &mut Tracker, now: u64, stalls: &[Stall]) {
    let waits = (SENT..ANSWERED).contains(&now);
    let view = MskView {
        window: Some(Bytes(100_000)),
        unacked: Bytes(if waits { 200 } else { 0 }),
        ..msk(if now < ANSWERED { 1_000 } else { 1_200 })
    };
    tracker.apply(&KernelEvent::Connection(connection(now * MS, 0)));
    for (cookie, sent, answered) in [(11, SENT, ANSWERED), (12, AGAIN, ANSWERED_AGAIN)] {
        let is_busy = (sent..answered).contains(&now);
        let acked = if now < answered { 1_000 } else { 1_200 };
        let mut record = subflow(cookie, now * MS, acked);
        (record.msk, record.mp_join) = (Some(view.clone()), cookie == 12);
        // Packets that waited for the end of the outage have long RTTs.
        record.tcp.srtt = Micros(if now < answered { 5_000 } else { 3_000_000 });
        record.waiting = Waiting {
            in_flight: u32::from(is_busy),
            window: Bytes(100_000),
            backoff: u8::from(is_busy && now > sent + 205),
            probes: 0,
            last_ack: Some(Nanos(if now < answered { 9_000 * MS } else { answered * MS })),
            busy_since: is_busy.then_some(Nanos(sent * MS)),
            limit: None,
        };
        if cookie == 11 {
            (record.progress, record.stalls) = (Some(Nanos(now * MS)), stalls.to_vec());
        }
        tracker.apply(&KernelEvent::Subflow(record));
    }
    tick(tracker, now * MS);
}

/// Start and end of each outage, in milliseconds.
fn outages(tracker: Tracker) -> Vec<(u64, u64)> {
    stalls(tracker).into_iter().map(|(times, _)| times).collect()
}

/// Start and end of each outage, in milliseconds, and the retransmission timeout before it.
fn stalls(tracker: Tracker) -> Vec<((u64, u64), Option<Micros>)> {
    let report = tracker.report();
    let timeline = &report.connections[0].timeline;
    let stalls = timeline.iter().filter_map(|entry| match entry.event {
        TimelineEvent::Stalled { gap, timeout } => {
            let from = u64::try_from(entry.at.as_millisecond()).unwrap();
            Some(((from, from + gap.0 / 1_000), timeout))
        }
        _ => None,
    });
    stalls.collect()
}

#[test]
fn an_outage_lasts_from_the_first_data_to_the_first_acknowledgement() {
    for interval in [200, 300, 400] {
        let mut tracker = tracker(Closed::Keep);
        for now in (9_000..12_000).step_by(interval) {
            apply(&mut tracker, now, &[]);
        }
        let found = [((SENT, ANSWERED), Some(Micros(870_000)))];
        assert_eq!(
            stalls(tracker),
            found,
            "a tick every {interval} ms; an outage of the live view stays one"
        );
    }
}

#[test]
fn a_stall_recorded_after_the_outage_was_reported_is_not_reported_again() {
    let mut tracker = tracker(Closed::Keep);
    for now in (9_000..11_200).step_by(200) {
        apply(&mut tracker, now, &[]);
    }
    // The kernel rounds the times of acknowledgements to timer ticks.
    let stall = Stall { from: Nanos(SENT * MS), to: Nanos((ANSWERED + 3) * MS), unacked: Some(true) };
    apply(&mut tracker, 11_300, &[stall]);
    assert_eq!(outages(tracker), [(SENT, ANSWERED)]);
}

/// The last DATA_ACK of a burst came late, so that the record begins at the burst and not at the data that waited.
#[test]
fn idle_time_before_an_outage_does_not_belong_to_it() {
    let mut tracker = tracker(Closed::Keep);
    for now in (9_100..10_900).step_by(200) {
        apply(&mut tracker, now, &[]);
    }
    let stall = Stall { from: Nanos(8_000 * MS), to: Nanos(ANSWERED * MS), unacked: Some(true) };
    apply(&mut tracker, 11_000, &[stall]);
    assert_eq!(outages(tracker), [(SENT, ANSWERED)]);
}

/// A firewall of this host drops what the only path sends: the data stays unsent, and the kernel tries again at timeouts.
#[test]
fn data_that_this_host_refuses_to_send_waits_since_it_was_written() {
    let (written, answered) = (11_500, 16_100);
    let mut tracker = tracker(Closed::Keep);
    let mut since = Vec::new();
    for now in (9_000..18_000).step_by(1_000) {
        let waits = (written..answered).contains(&now);
        let unacked = Bytes(if waits { 10_000 } else { 0 });
        let acked = if now < answered { 1_000 } else { 11_000 };
        let view = MskView { window: Some(Bytes(100_000)), unacked, ..msk(acked) };
        let mut record = subflow(11, now * MS, acked);
        record.tcp.srtt = Micros(5_000);
        let missed = if waits { u8::try_from(now / 1_000 - 11).unwrap() } else { 0 };
        record.waiting = Waiting {
            in_flight: 0,
            window: Bytes(100_000),
            backoff: missed,
            probes: missed,
            last_ack: Some(Nanos(if now < answered { 7_000 } else { answered } * MS)),
            busy_since: waits.then_some(Nanos(written * MS)),
            limit: None,
        };
        record.msk = Some(view.clone());
        let mut socket = connection(now * MS, 0);
        socket.msk = view;
        tracker.apply(&KernelEvent::Connection(socket));
        tracker.apply(&KernelEvent::Subflow(record));
        let found = tick(&mut tracker, now * MS).connections.remove(0);
        since.push(found.outage_since.map(Timestamp::as_millisecond));
    }
    assert!(since.iter().flatten().all(|since| *since == 11_500), "{since:?}");
    assert_eq!(outages(tracker), [(written, answered)]);
}

#[test]
fn an_outage_whose_record_was_overwritten_is_reported_until_the_next_stall() {
    let mut tracker = tracker(Closed::Keep);
    for now in (9_000..10_800).step_by(200) {
        apply(&mut tracker, now, &[]);
    }
    let stall =
        Stall { from: Nanos((ANSWERED + 10) * MS), to: Nanos((ANSWERED + 210) * MS), unacked: Some(true) };
    apply(&mut tracker, 11_300, &[stall]);
    assert_eq!(outages(tracker), [(SENT, ANSWERED + 10), (ANSWERED + 10, ANSWERED + 210)]);
}

/// A peer with Linux 6.18 and a full receive buffer: TCP acknowledges each segment, MPTCP acknowledges none.
#[test]
fn a_peer_that_accepts_nothing_on_a_path_that_works_causes_an_outage() {
    let state = |window: u64, stalls: &[Stall]| {
        let mut tracker = tracker(Closed::Keep);
        let mut found = Vec::new();
        for second in 10..20 {
            let is_stuck = (12..18).contains(&second);
            let view = MskView {
                window: Some(Bytes(window)),
                unacked: Bytes(80_000),
                ..msk(if is_stuck { 12_000 } else { second * 1_000 })
            };
            let mut record = subflow(11, second * 1_000 * MS, second * 500);
            record.msk = Some(view.clone());
            record.stalls = if second < 18 { Vec::new() } else { stalls.to_vec() };
            record.progress = Some(Nanos(second * 1_000 * MS));
            (record.waiting.in_flight, record.waiting.window) = (1, Bytes(window));
            record.waiting.last_ack = Some(Nanos((second * 1_000 - 10) * MS));
            record.waiting.busy_since = Some(Nanos((second * 1_000 - 5) * MS));
            let mut socket = connection(second * 1_000 * MS, 0);
            socket.msk = view;
            tracker.apply(&KernelEvent::Connection(socket));
            tracker.apply(&KernelEvent::Subflow(record));
            let snapshot = tick(&mut tracker, second * 1_000 * MS);
            found.push(snapshot.connections[0].outage_since.map(Timestamp::as_millisecond));
        }
        (found, outages(tracker))
    };
    let since = Some(12_000);
    let (found, ended) = state(100_000, &[]);
    assert_eq!(found, [None, None, None, None, since, since, since, since, None, None]);
    assert_eq!(ended, [(12_000, 17_990)]);
    // A record has the time of the last DATA_ACK, a tick only notices it.
    let stall = Stall { from: Nanos(11_400 * MS), to: Nanos(17_950 * MS), unacked: Some(true) };
    assert_eq!(state(100_000, &[stall]).1, [(11_400, 17_950)]);
    // No outage is reported if the receiver has closed its window.
    assert_eq!(state(100, &[]).0, [None; 10]);
}

/// The peer discarded data while its window was closed. The stall until that data is retransmitted begins after the last tick with a closed window.
#[test]
fn a_stall_between_the_last_closed_window_and_the_next_tick_is_no_outage() {
    let stalls = |opened: u64| {
        let mut tracker = tracker(Closed::Keep);
        for second in 10..16 {
            let at = second * 1_000 * MS;
            let mut record = subflow(11, at, second * 500);
            let is_closed = second < opened;
            record.msk = Some(MskView {
                unsent: Bytes(9_000),
                window: Some(Bytes(if is_closed { 0 } else { 90_000 })),
                ..msk(second * 500)
            });
            (record.waiting.in_flight, record.waiting.last_ack) = (1, Some(Nanos(at)));
            record.waiting.window = Bytes(if is_closed { 0 } else { 90_000 });
            record.progress = Some(Nanos(at));
            if second >= 13 {
                let (from, to) = (Nanos(12_200 * MS), Nanos(12_761 * MS));
                record.stalls = vec![Stall { from, to, unacked: Some(true) }];
            }
            tracker.apply(&KernelEvent::Connection(connection(at, second * 500)));
            tracker.apply(&KernelEvent::Subflow(record));
            tick(&mut tracker, at);
        }
        outages(tracker)
    };
    assert_eq!(stalls(13), []);
    assert_eq!(stalls(0), [(12_200, 12_761)], "the window was always open");
}

/// After a receiver's pause, Linux sends nothing until MPTCP's retransmission timer expires, which takes about 5 s.
#[test]
fn a_sender_that_sends_nothing_after_a_pause_of_the_receiver_is_in_an_outage_only_after_5_s() {
    let states = |resumed: u64| {
        let mut tracker = tracker(Closed::Keep);
        let mut found = Vec::new();
        for second in 10..26 {
            let at = second * 1_000 * MS;
            let window = Bytes(if second < 13 { 0 } else { 90_000 });
            let sent = if second < resumed { 10_000 } else { second * 1_000 };
            let mut record = subflow(11, at, sent);
            let view =
                MskView { unsent: Bytes(9_000), unacked: Bytes(500), window: Some(window), ..msk(sent) };
            record.msk = Some(view.clone());
            (record.waiting.window, record.waiting.last_ack) = (window, Some(Nanos(13_000 * MS)));
            let mut socket = connection(at, 0);
            socket.msk = view;
            tracker.apply(&KernelEvent::Connection(socket));
            tracker.apply(&KernelEvent::Subflow(record));
            let since = tick(&mut tracker, at).connections[0].outage_since;
            found.extend(since.map(|since| (second, since.as_millisecond())));
        }
        (found, outages(tracker))
    };
    assert_eq!(states(18), (vec![], vec![]));
    let (live, ended) = states(24);
    assert_eq!(live.first().copied(), Some((19, 17_000)), "{live:?}");
    assert_eq!(ended.iter().map(|(from, _)| *from).collect::<Vec<_>>(), [17_000]);
}

/// A request every 6 s, in flight at one tick. No payload waited at the tick before, which was idle or 5 s ago.
#[test]
fn payload_waits_only_since_it_was_sent() {
    for interval in [1, 5] {
        let mut tracker = tracker(Closed::Keep);
        for second in (10..70_u64).step_by(interval) {
            let is_waiting = second == 40;
            let at = second * 1_000 * MS;
            let view = MskView {
                window: Some(Bytes(90_000)),
                unacked: Bytes(if is_waiting { 100 } else { 0 }),
                ..msk(if second <= 40 { 1_000 } else { 1_100 })
            };
            let mut record = subflow(11, at, if second <= 40 { 1_000 } else { 1_100 });
            record.msk = Some(view.clone());
            record.waiting.in_flight = u32::from(is_waiting);
            record.waiting.window = Bytes(90_000);
            record.waiting.last_ack = Some(Nanos(if second <= 40 { 10_000 } else { 40_040 } * MS));
            record.waiting.busy_since = is_waiting.then_some(Nanos(at - 40 * MS));
            let mut socket = connection(at, 0);
            socket.msk = view;
            tracker.apply(&KernelEvent::Connection(socket));
            tracker.apply(&KernelEvent::Subflow(record));
            let snapshot = tick(&mut tracker, at);
            assert_eq!(snapshot.connections[0].outage_since, None, "{second} s");
        }
        assert_eq!(outages(tracker), [], "a tick every {interval} s");
    }
}

#[test]
fn a_path_that_worked_when_it_was_read_works_at_a_tick_seconds_later() {
    let mut tracker = tracker(Closed::Keep);
    for second in 10..20 {
        let at = second * 3_000 * MS;
        let mut record = subflow(11, at, second * 500);
        (record.waiting.in_flight, record.waiting.window) = (1, Bytes(100_000));
        (record.waiting.last_ack, record.waiting.busy_since) =
            (Some(Nanos(at - 8 * MS)), Some(Nanos(at - 900 * MS)));
        record.msk =
            Some(MskView { unacked: Bytes(1_000), window: Some(Bytes(100_000)), ..msk(second * 500) });
        tracker.apply(&KernelEvent::Connection(connection(at, second * 500)));
        tracker.apply(&KernelEvent::Subflow(record));
        let snapshot = tick(&mut tracker, at + 2_400 * MS);
        let connection = &snapshot.connections[0];
        assert_eq!((connection.subflows[0].progress, connection.outage_since), (Progress::Working, None));
    }
}

/// The BPF programs record a stall when the second segment after it arrives, possibly after a later pause of the receiver.
#[test]
fn a_later_pause_of_the_receiver_does_not_hide_a_stall() {
    let stalls_after_a_pause = |stall: Stall| {
        let mut tracker = tracker(Closed::Keep);
        for second in 10..30 {
            let is_paused = (20..22).contains(&second);
            let at = second * 1_000 * MS;
            let mut record = subflow(11, at, 1_000);
            record.waiting.window = Bytes(if is_paused { 0 } else { 100_000 });
            record.waiting.last_ack = Some(Nanos(at - 10 * MS));
            record.waiting.busy_since = is_paused.then_some(Nanos(at - 500 * MS));
            record.progress = Some(Nanos(at));
            record.stalls = if second > 22 { vec![stall] } else { Vec::new() };
            tracker.apply(&KernelEvent::Connection(connection(at, 1_000)));
            tracker.apply(&KernelEvent::Subflow(record));
            tick(&mut tracker, at);
        }
        outages(tracker)
    };
    let stall =
        |from: u64, to: u64| Stall { from: Nanos(from * MS), to: Nanos(to * MS), unacked: Some(true) };
    assert_eq!(stalls_after_a_pause(stall(15_000, 16_000)), [(15_000, 16_000)]);
    assert_eq!(stalls_after_a_pause(stall(19_500, 22_300)), []);
}

/// The only path of a connection whose receiver has closed its window, at each second. If `fails`, the path does not work from 13 s
/// to 20 s. `in_flight`: 0 if the window is 0 and the kernel probes; 1 if the window is smaller than a segment and the kernel retransmits.
fn states_behind_a_closed_window(in_flight: u32, fails: bool) -> (Vec<Progress>, Vec<Option<i64>>, Tracker) {
    let mut tracker = tracker(Closed::Keep);
    let (mut states, mut since) = (Vec::new(), Vec::new());
    for second in 10..24 {
        let missed = if fails && (14..20).contains(&second) { u8::try_from(second - 13).unwrap() } else { 0 };
        let answered = second - u64::from(missed);
        let window = Bytes(u64::from(in_flight) * 500);
        let view = MskView { window: Some(window), unsent: Bytes(5_000), ..msk(1_000) };
        let mut record = subflow(11, second * 1_000 * MS, 1_000);
        record.tcp.srtt = Micros(1_000);
        record.msk = Some(view.clone());
        record.waiting = Waiting {
            in_flight,
            window,
            // The kernel doubles the interval also if each probe is answered.
            backoff: u8::try_from(second - 9).unwrap(),
            probes: if in_flight == 0 { missed } else { 0 },
            last_ack: Some(Nanos((answered * 1_000 - 10) * MS)),
            busy_since: Some(Nanos(9_500 * MS)),
            limit: None,
        };
        let mut socket = connection(second * 1_000 * MS, 0);
        socket.msk = view;
        tracker.apply(&KernelEvent::Connection(socket));
        tracker.apply(&KernelEvent::Subflow(record));
        let found = tick(&mut tracker, second * 1_000 * MS).connections.remove(0);
        states.push(found.subflows[0].progress);
        since.push(found.outage_since.map(Timestamp::as_millisecond));
    }
    (states, since, tracker)
}

#[test]
fn a_path_that_fails_while_the_window_is_closed_is_noticed_at_its_third_unanswered_probe() {
    use Progress::{Failed, LimitedByReceiver};
    for in_flight in [0, 1] {
        let (states, since, tracker) = states_behind_a_closed_window(in_flight, true);
        let expected = [[LimitedByReceiver; 6].as_slice(), &[Failed; 4], &[LimitedByReceiver; 4]].concat();
        assert_eq!(states, expected, "{in_flight} in flight");
        assert_eq!(
            since,
            [[None; 6].as_slice(), &[Some(13_000); 4], &[None; 4]].concat(),
            "{in_flight} in flight"
        );
        assert_eq!(outages(tracker), [(13_000, 19_990)], "{in_flight} in flight");
        let (states, since, _) = states_behind_a_closed_window(in_flight, false);
        assert_eq!((states, since), (vec![LimitedByReceiver; 14], vec![None; 14]), "{in_flight} in flight");
    }
}

#[test]
fn two_outages_with_an_acknowledgement_between_two_ticks_are_not_one() {
    let busy = [(10_000, 11_100), (11_150, 12_900)];
    let mut tracker = tracker(Closed::Keep);
    for now in (9_000..15_000).step_by(1_000) {
        let waiting = busy.into_iter().find(|(sent, answered)| (*sent..*answered).contains(&now));
        let answered = busy.into_iter().map(|(_, answered)| answered).rfind(|answered| *answered <= now);
        let unacked = Bytes(if waiting.is_some() { 200 } else { 0 });
        let view = MskView { window: Some(Bytes(100_000)), unacked, ..msk(answered.unwrap_or(9_000)) };
        let mut record = subflow(11, now * MS, answered.unwrap_or(9_000));
        record.tcp.srtt = Micros(5_000);
        record.waiting = Waiting {
            in_flight: u32::from(waiting.is_some()),
            window: Bytes(100_000),
            backoff: u8::from(waiting.is_some()),
            probes: 0,
            last_ack: Some(Nanos(answered.unwrap_or(9_000) * MS)),
            busy_since: waiting.map(|(sent, _)| Nanos(sent * MS)),
            limit: None,
        };
        record.msk = Some(view);
        tracker.apply(&KernelEvent::Connection(connection(now * MS, 0)));
        tracker.apply(&KernelEvent::Subflow(record));
        tick(&mut tracker, now * MS);
    }
    assert_eq!(outages(tracker), busy);
}
