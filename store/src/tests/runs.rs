// SPDX-License-Identifier: MIT OR Apache-2.0
//! A connection that several runs observed has one row: nothing is counted twice, and nothing is lost that only one run observed.

use std::collections::BTreeMap;

use mpwatch_model::flow::observed::Observed;
use mpwatch_model::flow::subflow::Scheduler;
use mpwatch_model::host::energy::{FlowEnergy, IdleSource};
use mpwatch_model::host::setup::{Label, Setup};
use mpwatch_model::unit::{Microjoules, Micros, Nanos};

use super::*;

/// The state that a restarted daemon observes: times are unknown, the kernel's counters continue, CPU time and energy start from 0.
pub(super) fn adopted(connection: &Connection) -> Connection {
    let mut flow = connection.clone();
    (flow.opened_at, flow.seen_open, flow.second_path, flow.bytes_reinjected) = (None, false, None, None);
    flow.age_s = 1.0;
    let (bytes, duration) = (Bytes(1_000_000), Nanos(2_000_000_000));
    let wire_bytes_estimate = Bytes(1_100_000);
    flow.observed =
        Some(Observed { bytes, bytes_sent: bytes, duration, active: duration, wire_bytes_estimate });
    for subflow in &mut flow.subflows {
        (subflow.created_at, subflow.handshake, subflow.joined_after) = (None, None, None);
        (subflow.joined_after_bytes, subflow.retransmits) = (None, None);
        subflow.rtt_samples = 1;
        subflow.scheduler = Some(Scheduler { considered: 5, picked: 3 });
    }
    flow.timeline = vec![TimelineEntry {
        at: fixture::at(20_000_000),
        source: ObservedBy::Sampled,
        event: TimelineEvent::Adopted,
    }];
    flow
}

pub(super) fn run(file: &std::path::Path, second: i64, snapshots: Vec<Vec<Connection>>) {
    let store = Store::open(file, &Limits::none()).unwrap();
    for (flows, nth) in snapshots.into_iter().zip(0..) {
        store.deliver(&tick(second + nth, flows));
    }
    assert_eq!(store.close(), StoreLosses::default());
}

#[test]
fn a_connection_that_outlives_a_run_keeps_its_row() {
    let (_folder, file) = folder();
    let first = fixture::connection(1, 2);
    run(&file, 0, vec![vec![first.clone()]]);
    let mut second = adopted(&first);
    second.bytes_sent = first.bytes_sent.map(|bytes| bytes + Bytes(7));
    // One subflow ended between the runs, and one is new.
    let mut third = second.subflows.remove(1);
    third.id.cookie = SocketCookie(999);
    second.subflows.push(third.clone());
    run(&file, 20, vec![vec![second.clone()], vec![second.clone()]]);
    let (report, samples) = read(&file);
    assert_eq!(report.connections.len(), 1);
    let found = &report.connections[0];
    assert_eq!((found.id, found.opened_at, found.seen_open), (first.id, first.opened_at, true));
    assert_eq!(
        (found.bytes_sent, found.bytes_reinjected),
        (second.bytes_sent, Some(Bytes(39_999_993))),
        "reinjected: what the three subflows sent in excess"
    );
    assert_eq!(found.second_path, first.second_path);
    let ids: Vec<_> = found.subflows.iter().map(|subflow| subflow.id).collect();
    assert_eq!(ids, [first.subflows[0].id, first.subflows[1].id, third.id]);
    let [kept, gone, _] = &found.subflows[..] else { panic!("three subflows") };
    let end = gone.closed.map(|closed| (closed.at, closed.reason));
    let last = Some((tick(0, Vec::new()).at, CloseReason::Unobserved));
    assert_eq!((gone.bytes_sent, end), (first.subflows[1].bytes_sent, last), "the last state");
    assert_eq!(
        (kept.created_at, kept.handshake),
        (first.subflows[0].created_at, first.subflows[0].handshake)
    );
    assert_eq!(kept.rtt_samples, first.subflows[0].rtt_samples);
    let before = first.subflows[0].scheduler.unwrap();
    assert_eq!(
        kept.scheduler,
        Some(Scheduler { considered: before.considered + 5, picked: before.picked + 3 }),
        "the sum of the counts of both runs"
    );
    let (cpu, energy) = (first.subflows[0].cpu.unwrap(), first.subflows[0].energy.unwrap());
    assert_eq!(kept.cpu, Some(cpu + cpu));
    assert_eq!(kept.energy.unwrap().active, FlowEnergy::sum([&energy, &energy]).active);
    let (before, after) = (first.observed.unwrap(), second.observed.unwrap());
    assert_eq!(found.observed, Some(before.plus(after)), "each run has observed a part");
    let bytes = (before.bytes + after.bytes).0 as f64;
    let energy = found.energy.unwrap();
    assert!((energy.j_per_gb.unwrap() / (energy.active.unwrap().joules() * 1e9 / bytes) - 1.0).abs() < 1e-9);
    let gap = found.unobserved_gap().unwrap();
    assert!((gap - 19.0).abs() < 1e-6, "not observed for {gap} s");
    assert!(found.partly_observed);
    let events: Vec<&TimelineEvent> = found.timeline.iter().map(|entry| &entry.event).collect();
    assert_eq!(events.iter().filter(|event| ***event == TimelineEvent::Adopted).count(), 1);
    assert!(events.contains(&&TimelineEvent::Opened));
    let of_first = &samples[&(first.id, first.subflows[0].id)];
    assert_eq!(of_first.len(), 2, "one sample per run, in order: {of_first:?}");
    assert!(of_first.is_sorted_by_key(|sample| sample.at));
    let database = Database::open(&file).unwrap();
    let of = |sql: &str| database.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap();
    assert_eq!(of("SELECT sum(bytes_sent) FROM v_connection"), second.bytes_sent.unwrap().0.cast_signed());
    assert_eq!(of("SELECT partly_observed FROM v_connection"), 1);
    assert_eq!((of("SELECT runs FROM v_connection"), of("SELECT count(*) FROM v_run")), (2, 2));
}

#[test]
fn a_restart_adds_no_event_that_the_timeline_has() {
    use TimelineEvent::{
        AddressAnnounced, Adopted, FellBack, PeerAddressAnnounced, PeerAddressRemoved, SubflowStale,
    };
    let (_folder, file) = folder();
    let mut first = fixture::connection(1, 2);
    let [failed, works] = [first.subflows[0].id, first.subflows[1].id];
    let sampled = |second: i64, event| TimelineEntry {
        at: fixture::at(second * 1_000_000),
        source: ObservedBy::Sampled,
        event,
    };
    let address = || PeerAddressAnnounced { address_id: 3, address: None };
    let fell_back = |reason| FellBack { reason };
    let fails = |subflow, silent: u64| SubflowStale {
        subflow,
        stale: true,
        silent: Some(Micros(silent * 1_000_000)),
    };
    let recovers = |subflow| SubflowStale { subflow, stale: false, silent: None };
    let before = [
        sampled(2, fell_back(FallbackReason::NoMpCapableInSynAck)),
        sampled(2, AddressAnnounced { total: 1 }),
        sampled(3, address()),
        sampled(4, PeerAddressRemoved { address_id: 3 }),
        sampled(5, fails(works, 2)),
        sampled(8, recovers(works)),
        sampled(10, fails(failed, 2)),
    ];
    let repeated = [
        sampled(21, fell_back(FallbackReason::Unknown)),
        sampled(21, AddressAnnounced { total: 1 }),
        sampled(21, address()),
        sampled(21, PeerAddressRemoved { address_id: 3 }),
        sampled(21, fails(failed, 13)),
    ];
    let after = [
        sampled(24, recovers(failed)),
        sampled(25, address()),
        sampled(26, AddressAnnounced { total: 2 }),
        sampled(27, fails(works, 2)),
        sampled(28, fails(failed, 2)),
    ];
    first.timeline = before.to_vec();
    let mut second = adopted(&first);
    second.timeline.extend([&repeated[..], &after].concat());
    run(&file, 12, vec![vec![first]]);
    run(&file, 30, vec![vec![second.clone()], vec![second]]);
    let timeline = read(&file).0.connections.remove(0).timeline;
    let is_listed = |event: &TimelineEvent| {
        matches!(event, FellBack { .. } | SubflowStale { .. } | Adopted)
            || matches!(
                event,
                AddressAnnounced { .. } | PeerAddressAnnounced { .. } | PeerAddressRemoved { .. }
            )
    };
    let found: Vec<_> = timeline.into_iter().filter(|entry| is_listed(&entry.event)).collect();
    assert_eq!(found, [&before[..], &[sampled(20, Adopted)], &after].concat());
}

#[test]
fn a_connection_that_closes_in_a_third_run_has_its_whole_age() {
    let (_folder, file) = folder();
    let first = fixture::connection(1, 2);
    run(&file, 0, vec![vec![first.clone()]]);
    run(&file, 20, vec![vec![adopted(&first)]]);
    let mut last = adopted(&first);
    (last.closed_at, last.state) =
        (Some(fixture::at(41_000_000)), mpwatch_model::kernel::lifecycle::TcpState::Close);
    run(&file, 40, vec![vec![last]]);
    let (report, _) = read(&file);
    assert_eq!(report.connections[0].closed_at, Some(fixture::at(41_000_000)));
    assert!((report.connections[0].age_s - 41.0).abs() < 1e-6);
}

#[test]
fn another_boot_is_another_connection() {
    let (_folder, file) = folder();
    for boot in ["a", "b"] {
        let store = Store::open(&file, &Limits::none()).unwrap();
        let mut snapshot = fixture::snapshot(vec![fixture::connection(1, 2)]);
        snapshot.host.boot_id = boot.to_owned();
        store.deliver(&Arc::new(snapshot));
        store.close();
    }
    assert_eq!(read(&file).0.connections.len(), 2);
}

#[test]
fn counters_of_two_runs_at_the_same_time_are_not_added() {
    let (_folder, file) = folder();
    let flow = fixture::closed(1);
    run(&file, 0, vec![vec![flow.clone()], Vec::new()]);
    // A recording of the same time, with an earlier beginning, imported late.
    let mut seen = fixture::snapshot(vec![fixture::connection(1, 2)]);
    seen.at -= SignedDuration::from_secs(1);
    let store = Store::open(&file, &Limits::none()).unwrap();
    store.deliver(&Arc::new(seen));
    store.close();
    let (report, _) = read(&file);
    assert_eq!(report.connections.len(), 1);
    let found = &report.connections[0];
    assert_eq!(
        (found.closed_at, found.bytes_sent),
        (flow.closed_at, flow.bytes_sent),
        "the later state is kept"
    );
    assert_eq!(found.subflows[0].cpu, flow.subflows[0].cpu);
    assert_eq!(found.subflows[0].energy.unwrap().active, flow.subflows[0].energy.unwrap().active);
}

#[test]
fn a_run_that_the_file_has_is_refused() {
    let (_folder, file) = folder();
    let start = RunStart { boot_id: fixture::host().boot_id, at: fixture::at(-5) };
    let open = || Store::open_run(&file, &Limits::none(), Some(&start));
    let store = open().unwrap();
    store.deliver(&tick(0, vec![fixture::closed(1)]));
    store.close();
    let refused = open().err().expect("a second time").to_string();
    assert!(refused.contains("has this recording already: run 1"), "{refused}");
    assert!(!file.with_extension("db.lock").exists());
}

#[test]
fn a_run_without_energy_keeps_the_energy_of_the_one_before() {
    let (_folder, file) = folder();
    let first = fixture::connection(1, 1);
    run(&file, 0, vec![vec![first.clone()]]);
    let mut second = adopted(&first);
    second.subflows[0].energy = Some(FlowEnergy::absent(Nanos(10)));
    run(&file, 20, vec![vec![second]]);
    let found = read(&file).0.connections[0].subflows[0].energy.unwrap();
    assert_eq!(found.active, first.subflows[0].energy.unwrap().active);
    assert!(found.active > Some(Microjoules(0)));
}

#[test]
fn a_run_without_idle_power_makes_the_energy_unknown_and_adds_to_its_bounds() {
    let (_folder, file) = folder();
    let first = fixture::connection(1, 1);
    run(&file, 0, vec![vec![first.clone()]]);
    let mut second = adopted(&first);
    let energy = second.subflows[0].energy.unwrap();
    second.subflows[0].energy =
        Some(FlowEnergy { active: None, j_per_gb: None, idle: IdleSource::Unknown, ..energy });
    run(&file, 20, vec![vec![second]]);
    let found = read(&file).0.connections[0].subflows[0].energy.unwrap();
    let sum = FlowEnergy::sum([&energy, &energy]);
    assert_eq!((found.active, found.j_per_gb, found.idle), (None, None, IdleSource::Unknown));
    assert_eq!((found.lo, found.hi, found.full), (sum.lo, sum.hi, sum.full));
}

#[test]
fn closing_does_not_wait_longer_than_its_timeout() {
    let (_folder, file) = folder();
    let store = Store::open(&file, &Limits::none()).unwrap();
    store.deliver(&tick(0, vec![fixture::closed(1)]));
    wait_until(|| store.figures().written > 0);
    let other = Database::open(&file).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    store.deliver(&tick(1, vec![fixture::connection(2, 2)]));
    let losses = store.close_within(Duration::from_millis(10));
    assert_eq!((losses.flows_lost, losses.paused.is_some()), (1, true));
    other.execute_batch("ROLLBACK").unwrap();
    // The writer may still write the second connection.
    let closed = fixture::closed(1).id;
    assert!(
        read(&file).0.connections.iter().any(|connection| connection.id == closed),
        "committed rows are safe"
    );
}

#[test]
fn a_writer_that_is_blocked_for_a_while_writes_everything() {
    let (_folder, file) = folder();
    let store = Store::open(&file, &Limits::none()).unwrap();
    store.deliver(&tick(0, vec![fixture::closed(1)]));
    let other = Database::open(&file).unwrap();
    wait_until(|| other.execute_batch("BEGIN IMMEDIATE").is_ok());
    let open = fixture::connection(2, 2);
    store.deliver(&tick(1, vec![open.clone()]));
    wait_until(|| store.losses().paused.is_some());
    std::thread::scope(|scope| {
        let closing = scope.spawn(|| store.close_within(Duration::from_mins(1)));
        other.execute_batch("ROLLBACK").unwrap();
        let losses = closing.join().unwrap();
        assert_eq!((losses.flows_lost, losses.paused), (0, None));
    });
    assert!(
        read(&file).0.connections.iter().any(|connection| connection.id == open.id && connection.is_open())
    );
}

#[test]
fn a_file_that_is_removed_pauses_the_store() {
    let (_folder, file) = folder();
    let store = Store::open(&file, &Limits::none()).unwrap();
    std::fs::rename(&file, file.with_extension("old")).unwrap();
    store.deliver(&tick(0, vec![fixture::closed(1)]));
    wait_until(|| store.losses().paused.is_some());
    assert!(store.losses().paused.unwrap().contains("the file was removed"));
    assert_eq!(store.figures().waiting, 1);
    std::fs::rename(file.with_extension("old"), &file).unwrap();
    assert_eq!(store.close().paused, None, "the file is back");
    assert_eq!(read(&file).0.connections.len(), 1);
}

#[test]
fn a_removed_log_is_merged_and_replaced() {
    let (_folder, file) = folder();
    let log = crate::error::with_suffix(&file, "-wal");
    let store = Store::open(&file, &Limits::none()).unwrap();
    store.deliver(&tick(0, vec![fixture::closed(1)]));
    wait_until(|| store.figures().written == 1);
    std::fs::remove_file(&log).unwrap();
    store.deliver(&tick(1, vec![another(&fixture::closed(1), 2)]));
    wait_until(|| store.figures().written == 2);
    // The state that a killed writer leaves.
    let (_other, killed) = folder();
    std::fs::copy(&file, &killed).unwrap();
    std::fs::copy(&log, crate::error::with_suffix(&killed, "-wal")).unwrap();
    assert_eq!(read(&killed).0.connections.len(), 2);
    assert_eq!(store.close(), StoreLosses::default());
    let (report, _) = read(&file);
    assert_eq!((report.connections.len(), report.run.cut_short), (2, None));
}

#[test]
fn a_successor_gets_the_open_connections_of_a_removed_file() {
    let (_folder, file) = folder();
    let store = Store::open(&file, &Limits::none()).unwrap();
    let open = fixture::connection(2, 1);
    store.deliver(&tick(0, vec![fixture::closed(1), open.clone()]));
    wait_until(|| store.figures().written > 0);
    std::fs::remove_file(&file).unwrap();
    store.deliver(&tick(1, vec![another(&fixture::closed(1), 2), open.clone()]));
    wait_until(|| store.is_removed());
    assert_eq!(store.close_removed().flows_lost, 1, "the closed one");
    let store = Store::open(&file, &Limits::none()).unwrap();
    // It may be idle.
    let mut snapshot = Arc::unwrap_or_clone(tick(2, Vec::new()));
    snapshot.idle = fixture::idle(vec![open.clone()]);
    store.deliver(&Arc::new(snapshot));
    assert_eq!(store.close(), StoreLosses::default());
    assert_eq!(read(&file).0.connections[0].id, open.id);
}

#[test]
fn connections_that_close_after_the_file_was_removed_are_lost_and_counted() {
    let (_folder, file) = folder();
    let store = Store::open(&file, &Limits::none()).unwrap();
    store.deliver(&tick(0, vec![fixture::closed(1)]));
    wait_until(|| store.figures().written > 0);
    std::fs::remove_file(&file).unwrap();
    // Before the row of the run is due again.
    store.deliver(&tick(1, vec![another(&fixture::closed(1), 2)]));
    let losses = store.close_within(Duration::from_millis(10));
    assert_eq!(losses.flows_lost, 1);
    assert!(losses.paused.unwrap().contains("the file was removed"));
}

#[test]
fn reading_creates_no_other_file() {
    let (folder, file) = folder();
    run(&file, 0, vec![vec![fixture::closed(1)]]);
    let names = || {
        let mut names: Vec<_> =
            std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    assert_eq!(names(), ["flows.db"], "neither a log nor a lock is left");
    let archive = Archive::open(&file).unwrap();
    assert_eq!(report(&archive, Period::default(), None).unwrap().0.connections.len(), 1);
    assert_eq!(names(), ["flows.db"]);
    // A file that is opened without a writer is read without locks, so a later writer ends the reading.
    let store = Store::open(&file, &Limits::none()).unwrap();
    store.deliver(&tick(20, vec![fixture::closed(2)]));
    wait_until(|| store.figures().written > 0);
    let refused = report(&archive, Period::default(), None).unwrap_err().to_string();
    assert!(refused.contains("run this command again"), "{refused}");
    assert_eq!(read(&file).0.connections.len(), 2);
}

#[test]
fn runs_are_selected_by_their_label() {
    let (_folder, file) = folder();
    for (second, algorithm, number) in [(0, "cubic", 1), (20, "bbr", 5)] {
        let mut snapshot = Arc::unwrap_or_clone(tick(second, vec![fixture::connection(number, 2)]));
        let labels = BTreeMap::from([("cc".to_owned(), algorithm.to_owned())]);
        snapshot.setup = Arc::new(Setup { labels, ..Setup::default() });
        let store = Store::open(&file, &Limits::none()).unwrap();
        store.deliver(&Arc::new(snapshot));
        assert_eq!(store.close(), StoreLosses::default());
    }
    let archive = Archive::open(&file).unwrap();
    let ids = |label: Option<&str>| {
        let label = label.map(|label| label.parse::<Label>().unwrap());
        let (report, _) = report(&archive, Period::default(), label.as_ref()).unwrap();
        report.connections.iter().map(|connection| connection.id).collect::<Vec<_>>()
    };
    assert_eq!(ids(Some("cc=cubic")), [fixture::connection(1, 2).id]);
    assert_eq!(ids(Some("cc=bbr")), [fixture::connection(5, 2).id]);
    assert_eq!((ids(Some("cc=reno")).len(), ids(None).len()), (0, 2));
    let labels: Vec<String> = archive.labels().unwrap().iter().map(Label::to_string).collect();
    assert_eq!(labels, ["cc=bbr", "cc=cubic"]);
}
