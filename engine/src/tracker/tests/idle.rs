// SPDX-License-Identifier: MIT OR Apache-2.0
//! Ticks skip idle connections. The report is the same as if the records of these connections were repeated at every tick.

use std::sync::Arc;

use mpwatch_model::flow::connection::Connection;
use mpwatch_model::host::energy::EnergySource;
use mpwatch_model::host::energy::window::{
    Cpus, EnergyWindow, WindowEnergy, ZoneId, ZoneOutcome, ZoneWindow,
};
use mpwatch_model::host::machine::MissingHook;
use mpwatch_model::id::{NetnsCookie, SocketCookie, Token};
use mpwatch_model::kernel::cpu::{CpuAccounts, CpuTimes, LedgerMode};
use mpwatch_model::kernel::event::{ConnectionRecord, KernelEvent, NetnsName, SubflowRecord, Tick};
use mpwatch_model::snapshot::Snapshot;
use mpwatch_model::unit::{Bytes, Microjoules, Nanos};
use proptest::prelude::*;

use super::records::{SECOND, closed_connection, closed_subflow, connection, subflow, tick, tracker};
use crate::tracker::{Closed, Tracker};

/// Two connections with two subflows each.
const CONNECTIONS: u32 = 2;

/// Bytes that each connection sends in a second. `None`: it is idle.
type Step = [Option<u16>; CONNECTIONS as usize];

/// The records of a connection that has sent `sent` bytes.
fn records(number: u32, at: u64, sent: u64) -> (ConnectionRecord, [SubflowRecord; 2]) {
    let mut socket = connection(at, sent);
    (socket.msk.cookie, socket.msk.token) = (SocketCookie(u64::from(number) + 7), Token(number + 1));
    let subflows = [0, 1].map(|place: u32| {
        let mut record = subflow(u64::from(100 + number * 2 + place), at, sent / 2);
        (record.msk, record.mp_join) = (Some(socket.msk.clone()), place == 1);
        record.cpu = Some(CpuTimes::from_classes([0, sent * 1_000, 0, 0, 0], true));
        record
    });
    (socket, subflows)
}

pub(super) fn energy(flow: u64) -> (EnergyWindow, Vec<CpuAccounts>) {
    let source = EnergySource::RaplPowercap;
    let zone = Arc::new(ZoneId { index: 0, label: "package-0".to_owned(), cpus: Cpus::All, source });
    let spent =
        WindowEnergy { energy: Microjoules(1_000_000), elapsed: Nanos(SECOND), edge: 0.0, estimate: None };
    let zones = vec![ZoneWindow { zone, epoch: 0, outcome: ZoneOutcome::Energy(spent) }];
    let window = EnergyWindow { source, elapsed: Nanos(SECOND), zones, ..EnergyWindow::default() };
    (window, vec![CpuAccounts { flow: Nanos(flow), ..CpuAccounts::default() }])
}

/// A tracker with its input. At every tick it gets the records of all connections (`repeats`), or only records that have changed.
struct Fed {
    tracker: Tracker,
    repeats: bool,
    sent: [u64; CONNECTIONS as usize],
}

impl Fed {
    fn new(tracker: Tracker, repeats: bool) -> Self {
        Self { tracker, repeats, sent: [0; CONNECTIONS as usize] }
    }

    /// Applies one second of traffic. Idle sockets are listed in every eighth second.
    fn tick(&mut self, second: u64, step: Step) -> Snapshot {
        let at = second * SECOND;
        for (number, sends) in (0..CONNECTIONS).zip(step) {
            let sent = &mut self.sent[number as usize];
            *sent += u64::from(sends.unwrap_or(0));
            let (socket, subflows) = records(number, at, *sent);
            if self.repeats || sends.is_some() || second == 2 {
                self.tracker.apply(&KernelEvent::Connection(socket));
                for subflow in subflows {
                    self.tracker.apply(&KernelEvent::Subflow(subflow));
                }
            } else if second.is_multiple_of(8) {
                self.tracker.apply(&KernelEvent::ConnectionUnchanged(socket.msk.cookie));
                for subflow in &subflows {
                    self.tracker.apply(&KernelEvent::SubflowUnchanged(subflow.id));
                }
            }
        }
        let (window, cpus) = energy(self.sent.iter().map(|sent| sent * 2_000).sum());
        let tick = Tick { at: Nanos(at), energy: Some(window), cpus, ..Tick::default() };
        self.tracker.apply(&KernelEvent::Tick(tick));
        self.tracker.end_tick()
    }
}

fn by_id(snapshot: &Snapshot) -> Vec<Connection> {
    let mut connections = snapshot.complete().connections.clone();
    connections.sort_by_key(|connection| connection.id);
    connections
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![6 => Just(None), 1 => any::<u16>().prop_map(Some)];
    proptest::collection::vec([step.clone(), step], 1..120)
}

proptest! {
    // Few cases, because each compares about sixty snapshots of three trackers.
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn an_idle_connection_is_reported_as_if_its_records_were_repeated(steps in steps()) {
        let mut repeated = Fed::new(tracker(Closed::Keep), true);
        let mut listed = Fed::new(tracker(Closed::Keep), false);
        let mut shared = Fed::new(tracker(Closed::Forget).with_shared_idle(), false);
        for (second, step) in (2..).zip(steps) {
            let expected = by_id(&repeated.tick(second, step));
            prop_assert_eq!(&by_id(&listed.tick(second, step)), &expected, "second {}", second);
            prop_assert_eq!(&by_id(&shared.tick(second, step)), &expected, "second {}, shared", second);
        }
        let reports = [repeated, listed].map(|fed| fed.tracker.report());
        prop_assert_eq!(&reports[0], &reports[1]);
    }
}

#[test]
fn idle_connections_are_shared_by_snapshots_and_counted() {
    let mut fed = Fed::new(tracker(Closed::Forget).with_shared_idle(), false);
    // The loop ends after the idle power of the zone has become known, which also changes the energy of idle connections.
    let snapshots: Vec<Snapshot> = (2..40).map(|second| fed.tick(second, [None, None])).collect();
    let [.., before, last] = &snapshots[..] else { panic!("snapshots") };
    assert_eq!((last.connections.len(), last.idle.len()), (0, 2));
    assert_eq!((last.open_counts(), last.open_counts().subflows), (snapshots[0].open_counts(), 4));
    for idle in last.idle.iter() {
        assert!(Arc::ptr_eq(before.idle.get(idle.id()).unwrap(), idle));
    }
    let woken = fed.tick(40, [Some(500), None]);
    assert_eq!((woken.connections.len(), woken.idle.len(), last.idle.len()), (1, 1, 2));
    assert_eq!(woken.connections[0].bytes_sent, Some(Bytes(500)));
    assert_eq!(woken.open_counts(), last.open_counts());
}

/// If each reduction by the budget woke all idle connections, the cost would exceed the budget.
#[test]
fn idle_connections_stay_idle_when_the_budget_disables_a_hook() {
    let mut fed = Fed::new(tracker(Closed::Forget).with_shared_idle(), false);
    let idle = (2..40).map(|second| fed.tick(second, [None, None])).last().unwrap();
    assert_eq!(idle.idle.len(), 2);
    let mut start = fed.tracker.start.clone();
    let [what, costs, why] = ["windows", "precision", "trace.budget"].map(str::to_owned);
    start.host.missing.push(MissingHook { what, costs, why });
    fed.tracker.apply(&KernelEvent::Start(start.clone()));
    let reduced = fed.tick(40, [None, None]);
    assert_eq!((reduced.idle.len(), reduced.host.missing.len()), (2, 1));
    start.ledger = LedgerMode::Off;
    fed.tracker.apply(&KernelEvent::Start(start));
    assert_eq!(fed.tick(41, [None, None]).idle.len(), 0);
}

#[test]
fn an_idle_connection_that_is_not_listed_any_more_vanishes() {
    let mut tracker = tracker(Closed::Forget).with_shared_idle();
    tracker.apply(&KernelEvent::Connection(connection(2 * SECOND, 10)));
    tracker.apply(&KernelEvent::Subflow(subflow(11, 2 * SECOND, 10)));
    let last = (2..200).map(|second| tick(&mut tracker, second * SECOND)).last().unwrap();
    assert_eq!((last.connections.len(), last.idle.len(), last.losses.vanished), (0, 0, 2));
}

#[test]
fn an_idle_connection_closes_with_its_final_records() {
    let mut tracker = tracker(Closed::Forget).with_shared_idle();
    tracker.apply(&KernelEvent::Connection(connection(2 * SECOND, 10)));
    tracker.apply(&KernelEvent::Subflow(subflow(11, 2 * SECOND, 10)));
    let idle = (2..20).map(|second| tick(&mut tracker, second * SECOND)).last().unwrap();
    assert_eq!(idle.idle.len(), 1);
    tracker.apply(&closed_connection(20 * SECOND, 10));
    tracker.apply(&closed_subflow(11, 20 * SECOND, 10));
    let closed = tick(&mut tracker, 20 * SECOND);
    assert!(closed.idle.is_empty() && closed.connections[0].closed_at.is_some());
    assert!((closed.connections[0].age_s - 19.0).abs() < 1e-9, "{}", closed.connections[0].age_s);
}

#[test]
fn idle_connections_get_a_name_that_is_learned_later() {
    let mut tracker = tracker(Closed::Forget).with_shared_idle();
    tracker.apply(&KernelEvent::Connection(connection(2 * SECOND, 10)));
    tracker.apply(&KernelEvent::Subflow(subflow(11, 2 * SECOND, 10)));
    for second in 2..10 {
        tick(&mut tracker, second * SECOND);
    }
    let named = NetnsName { netns: NetnsCookie(1), inode: 2, name: "job".to_owned() };
    tracker.apply(&KernelEvent::Netns(named));
    let snapshot = tick(&mut tracker, 10 * SECOND);
    assert_eq!(snapshot.complete().connections[0].netns, "job");
}

/// Unpacked, an idle connection takes 3 400 bytes, and there may be 100 000 idle connections.
#[test]
fn an_idle_connection_with_two_subflows_takes_little_memory() {
    let mut fed = Fed::new(tracker(Closed::Forget).with_shared_idle(), false);
    // The test starts after days, because larger times and counters take more bytes.
    let steps = (1_000_000..1_000_100).map(|second| (second, (second < 1_000_010).then_some(60_000)));
    let last = steps.map(|(second, sends)| fed.tick(second, [sends; 2])).last().unwrap();
    assert_eq!((last.connections.len(), last.idle.len()), (0, 2));
    let bytes = fed.tracker.flows.idle_bytes() / 2;
    assert!(bytes < 1_500, "{bytes} bytes");
}
