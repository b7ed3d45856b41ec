// SPDX-License-Identifier: MIT OR Apache-2.0
//! CPU time and energy of a connection and its subflows.

use std::sync::Arc;

use mpwatch_model::flow::connection::Connection;
use mpwatch_model::flow::observed::Observed;
use mpwatch_model::host::energy::EnergySource;
use mpwatch_model::host::energy::window::{
    Cpus, EnergyWindow, WindowEnergy, ZoneId, ZoneOutcome, ZoneWindow,
};
use mpwatch_model::kernel::cpu::{CpuAccounts, CpuSampling, CpuTimes};
use mpwatch_model::kernel::event::{KernelEvent, Tick};
use mpwatch_model::snapshot::Snapshot;
use mpwatch_model::unit::{Bytes, Microjoules, Nanos};
use proptest::prelude::*;

use super::records::{SECOND, closed_connection, closed_subflow, connection, subflow, tick, tracker};
use crate::tracker::{Closed, Tracker};

/// Two subflows with this payload and 1 us in a softirq each, and the CPU time of the connection itself.
fn apply(tracker: &mut Tracker, at: u64, sent: [u64; 2], [syscall, worker]: [u64; 2]) {
    for (cookie, sent) in [(11, sent[0]), (12, sent[1])] {
        let mut record = subflow(cookie, at, sent);
        record.cpu = Some(CpuTimes::from_classes([0, 1_000, 0, 0, 0], true));
        (record.mp_join, record.mp_capable) = (cookie == 12, cookie == 11);
        tracker.apply(&KernelEvent::Subflow(record));
    }
    let mut record = connection(at, sent[0] + sent[1]);
    record.cpu = Some(CpuTimes::from_classes([syscall, 0, 0, 0, worker], true));
    tracker.apply(&KernelEvent::Connection(record));
}

fn only(snapshot: &Snapshot) -> &Connection {
    assert_eq!(snapshot.connections.len(), 1);
    &snapshot.connections[0]
}

fn syscalls(connection: &Connection) -> Vec<u64> {
    connection.subflows.iter().map(|subflow| subflow.cpu.unwrap().syscall.unwrap().0).collect()
}

#[test]
fn system_calls_are_divided_by_the_payload_of_each_subflow_since_the_last_tick() {
    let mut tracker = tracker(Closed::Forget);
    apply(&mut tracker, 2 * SECOND, [300, 100], [4_001, 10]);
    assert_eq!(syscalls(only(&tick(&mut tracker, 2 * SECOND))), [3_000, 1_001]);
    apply(&mut tracker, 3 * SECOND, [300, 200], [5_001, 10]);
    assert_eq!(syscalls(only(&tick(&mut tracker, 3 * SECOND))), [3_000, 2_001]);
    // Without payload since the last tick, CPU time is divided in proportion to the total payload.
    apply(&mut tracker, 4 * SECOND, [300, 200], [5_006, 10]);
    assert_eq!(syscalls(only(&tick(&mut tracker, 4 * SECOND))), [3_003, 2_003]);
}

#[test]
fn final_values_that_read_as_zero_change_nothing() {
    let mut tracker = tracker(Closed::Forget);
    apply(&mut tracker, 2 * SECOND, [300, 100], [4_000, 10]);
    tick(&mut tracker, 2 * SECOND);
    apply(&mut tracker, 3 * SECOND, [300, 100], [0, 0]);
    let after = tick(&mut tracker, 3 * SECOND);
    assert_eq!(only(&after).cpu, Some(CpuTimes::from_classes([4_000, 2_000, 0, 0, 10], true)));
}

/// Payload and CPU time are observed from the first tick on. Before, the ledger had charged 1 us to the subflow and 4.01 us to the
/// connection. Payload in flight at the first tick counts as observed, because its acknowledgements are observed.
#[test]
fn time_of_an_older_connection_before_the_first_tick_is_not_charged() {
    let mut tracker = tracker(Closed::Forget);
    let mut apply = |at: u64, sent: u64, acked: u64, spent: u64| {
        let mut initial = subflow(11, at, sent);
        initial.cpu = Some(CpuTimes::from_classes([0, spent, 0, 0, 0], true));
        (initial.seen_open, initial.created, initial.tcp.bytes_acked) = (false, None, Bytes(acked));
        let mut socket = connection(at, sent);
        socket.cpu = Some(CpuTimes::from_classes([4 * spent, 0, 0, 0, 10], true));
        socket.opened = None;
        socket.msk.bytes.as_mut().unwrap().acked = Bytes(acked);
        initial.msk = Some(socket.msk.clone());
        tracker.apply(&KernelEvent::Subflow(initial));
        tracker.apply(&KernelEvent::Connection(socket));
        tick(&mut tracker, at)
    };
    let first = apply(2 * SECOND, 9_000, 8_000, 1_000);
    assert_eq!(only(&first).cpu, Some(CpuTimes::from_classes([0; 5], true)));
    assert_eq!(only(&first).observed.unwrap().bytes, Bytes(0));
    let later = apply(3 * SECOND, 20_000, 20_000, 4_000);
    assert_eq!(only(&later).cpu, Some(CpuTimes::from_classes([12_000, 3_000, 0, 0, 0], true)));
    let observed = |bytes: u64, observed: Observed| {
        (Bytes(bytes), Bytes(bytes)) == (observed.bytes, observed.bytes_sent)
    };
    assert!(observed(12_000, only(&later).observed.unwrap()), "{later:#?}");
    assert!(observed(12_000, only(&later).subflows[0].observed), "{later:#?}");
}

#[test]
fn without_a_ledger_cpu_time_is_unknown() {
    let mut tracker = tracker(Closed::Forget);
    tracker.apply(&KernelEvent::Subflow(subflow(11, 2 * SECOND, 100)));
    let snapshot = tick(&mut tracker, 2 * SECOND);
    assert_eq!((only(&snapshot).cpu, only(&snapshot).subflows[0].cpu), (None, None));
}

proptest! {
    #[test]
    fn a_connection_is_the_sum_of_its_subflows(steps in proptest::collection::vec((any::<u16>(), any::<u16>(), any::<u32>(), any::<u32>()), 1..20)) {
        let mut tracker = tracker(Closed::Forget);
        let (mut sent, mut cost) = ([0, 0], [0, 0]);
        for (at, (first, second, syscall, worker)) in (2..).zip(steps) {
            sent = [sent[0] + u64::from(first), sent[1] + u64::from(second)];
            cost = [cost[0] + u64::from(syscall), cost[1] + u64::from(worker)];
            apply(&mut tracker, at * SECOND, sent, cost);
            let snapshot = tick(&mut tracker, at * SECOND);
            let connection = only(&snapshot);
            let whole = CpuTimes::from_classes([cost[0], 2_000, 0, 0, cost[1]], true);
            prop_assert_eq!(connection.cpu, Some(whole));
            let sum = connection.subflows.iter().map(|subflow| subflow.cpu.unwrap()).reduce(|a, b| a + b);
            prop_assert_eq!(sum, Some(whole));
        }
    }
}

fn window(energy: Microjoules) -> EnergyWindow {
    let zone = ZoneId {
        index: 0,
        label: "package-0".to_owned(),
        cpus: Cpus::All,
        source: EnergySource::RaplPowercap,
    };
    let spent = WindowEnergy { energy, elapsed: Nanos(SECOND), edge: 0.0, estimate: None };
    let zone = ZoneWindow { zone: Arc::new(zone), epoch: 0, outcome: ZoneOutcome::Energy(spent) };
    let (source, elapsed) = (EnergySource::RaplPowercap, Nanos(SECOND));
    EnergyWindow { source, elapsed, zones: vec![zone], ..EnergyWindow::default() }
}

/// In a replay, hash maps have another order, but the same flow must get an indivisible microjoule.
#[test]
fn charges_do_not_depend_on_the_order_of_hash_maps() {
    let run = || {
        let mut tracker = tracker(Closed::Keep);
        for cookie in 1..=40 {
            let mut record = subflow(100 + cookie, 2 * SECOND, 10);
            record.msk = None;
            record.cpu = Some(CpuTimes::from_classes([1_000_003, 0, 0, 0, 0], true));
            tracker.apply(&KernelEvent::Subflow(record));
        }
        tracker.apply(&KernelEvent::Tick(Tick {
            at: Nanos(3 * SECOND),
            cpus: vec![CpuAccounts { flow: Nanos(39_000_001), ..CpuAccounts::default() }],
            energy: Some(window(Microjoules(1_000_000_007))),
            ..Tick::default()
        }));
        let report = tracker.report();
        report
            .connections
            .iter()
            .map(|connection| connection.energy.and_then(|energy| energy.full))
            .collect::<Vec<_>>()
    };
    let first = run();
    assert!(first.iter().all(Option::is_some) && first.iter().any(|energy| *energy != first[0]));
    assert!((0..20).all(|_| run() == first));
}

/// If the machine is so busy that no window of the sampled ledger closes, CPU time stays unknown, but memory must not grow.
#[test]
fn a_closed_connection_waits_for_a_window_of_the_ledger_for_a_limited_time() {
    let mut tracker = tracker(Closed::Forget);
    tracker.apply(&closed_connection(3 * SECOND, 10));
    tracker.apply(&closed_subflow(11, 3 * SECOND, 10));
    let is_reported = |second: &u64| {
        tracker.apply(&KernelEvent::Tick(Tick {
            at: Nanos(second * SECOND),
            energy: Some(window(Microjoules(1_000_000))),
            sampling: Some(CpuSampling::default()),
            ..Tick::default()
        }));
        !tracker.end_tick().connections.is_empty()
    };
    let reported: Vec<u64> = (4..100).filter(is_reported).collect();
    assert_eq!(reported, (4..=43).collect::<Vec<_>>());
}
