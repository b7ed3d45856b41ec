// SPDX-License-Identifier: MIT OR Apache-2.0
//! Failures and outages that end while mpwatch is not running.

use mpwatch_model::flow::outage;
use mpwatch_model::flow::progress::Progress;
use mpwatch_model::flow::subflow::Closed;
use mpwatch_model::unit::Micros;

use super::runs::{adopted, run};
use super::*;
use crate::schema::values::timestamp;

/// Seconds after the opening.
fn at(second: i64) -> jiff::Timestamp {
    fixture::at(second * 1_000_000)
}

fn sampled(second: i64, event: TimelineEvent) -> TimelineEntry {
    TimelineEntry { at: at(second), source: ObservedBy::Sampled, event }
}

fn mark(connection: &Connection, stale: bool, silent: Option<u64>) -> TimelineEvent {
    let silent = silent.map(|seconds| Micros(seconds * 1_000_000));
    TimelineEvent::SubflowStale { subflow: connection.subflows[1].id, stale, silent }
}

/// A connection whose second path failed at 6 s, and lost the other one too: an outage since 7 s.
fn failed() -> Connection {
    let mut flow = fixture::connection(1, 2);
    flow.timeline.push(sampled(8, mark(&flow, true, Some(2))));
    (flow.subflows[1].progress, flow.subflows[1].progress_since) = (Progress::Failed, Some(at(6)));
    flow.outage_since = Some(at(7));
    settled(flow)
}

/// The same connection in a run from 41 s on, in this state. `acked`: payload that the second path has carried meanwhile.
fn later(progress: Progress, acked: u64) -> Connection {
    let mut flow = adopted(&failed());
    flow.outage_since = None;
    (flow.subflows[1].progress, flow.subflows[1].progress_since) = (progress, Some(at(40)));
    flow.subflows[1].bytes_acked += Bytes(acked);
    flow
}

/// The merged record of runs that each wrote one of these states twice.
fn merged(states: &[Connection]) -> Connection {
    let (_folder, file) = folder();
    for (state, second) in states.iter().zip([0, 30, 60]) {
        let next = Connection { age_s: state.age_s + 1.0, ..state.clone() };
        run(&file, second, vec![vec![state.clone()], vec![next]]);
    }
    read(&file).0.connections.remove(0)
}

/// Start, recovery and number of intervals of each failure of the second path, in seconds.
fn failures(flow: &Connection) -> Vec<(i64, Option<i64>, usize)> {
    let second = |at: jiff::Timestamp| (nanos(at) - nanos(fixture::at(0))) / 1_000_000_000;
    let found = outage::path_failures(flow, &flow.subflows[1]).into_iter();
    found.map(|failure| (second(failure.at), failure.recovered.map(second), failure.intervals)).collect()
}

fn stalls(flow: &Connection) -> Vec<(jiff::Timestamp, Micros)> {
    let gap = |entry: &TimelineEntry| match entry.event {
        TimelineEvent::Stalled { gap, .. } if entry.at >= at(7) => Some((entry.at, gap)),
        _ => None,
    };
    flow.timeline.iter().filter_map(gap).collect()
}

/// When the run from 41 s on found the connection.
fn found() -> i64 {
    let snapshot = tick(30, Vec::new());
    // The connection is 1 s old for that run.
    (nanos(snapshot.at) - nanos(fixture::at(0))) / 1_000_000_000 - 1
}

#[test]
fn a_path_that_works_after_a_restart_has_recovered() {
    for (progress, acked, recovers) in [
        (Progress::Working, 0, true),
        (Progress::Idle, 1, true),
        (Progress::Stalled, 1, true),
        (Progress::Idle, 0, false),
        (Progress::Failed, 1, false),
    ] {
        let flow = merged(&[failed(), later(progress, acked), later(Progress::Idle, acked)]);
        let recovered = recovers && (acked > 0 || progress == Progress::Idle);
        let expected = recovered.then_some(found());
        let once = merged(&[failed(), later(progress, acked)]);
        assert_eq!(failures(&once), [(6, recovers.then_some(found()), 1)], "{progress:?}, {acked}");
        assert_eq!(once.subflows[1].path_failures, 1);
        let kept = failures(&flow)[0].1;
        assert!(expected.is_none() || kept == expected, "{progress:?}, {acked}: a third run keeps it");
    }
}

#[test]
fn a_failure_that_both_runs_observed_ends_with_the_recovery_that_the_later_run_observed() {
    let mut still_failed = later(Progress::Failed, 0);
    still_failed.timeline.push(sampled(42, mark(&still_failed, true, Some(36))));
    assert_eq!(failures(&merged(&[failed(), still_failed.clone()])), [(6, None, 1)]);
    let mut works = still_failed;
    works.subflows[1].bytes_acked += Bytes(1);
    works.subflows[1].progress = Progress::Working;
    works.timeline.push(sampled(45, mark(&works, false, None)));
    assert_eq!(failures(&merged(&[failed(), works])), [(6, Some(45), 1)]);
}

#[test]
fn a_path_that_fails_anew_after_a_restart_had_recovered() {
    let mut again = later(Progress::Failed, 1_000);
    again.timeline.push(sampled(60, mark(&again, true, Some(2))));
    let flow = merged(&[failed(), again]);
    assert_eq!(failures(&flow), [(6, Some(found()), 1), (58, None, 1)]);
    assert_eq!(flow.subflows[1].path_failures, 2);
}

#[test]
fn segments_from_the_peer_do_not_end_the_failure_of_the_other_direction() {
    let with_waiting_data = |mut connection: Connection| {
        connection.subflows[1].bytes_sent += Bytes(60_000);
        connection
    };
    for progress in [Progress::Working, Progress::Stalled, Progress::Failed] {
        let mut answered = with_waiting_data(later(progress, 0));
        answered.subflows[1].bytes_received += Bytes(300);
        // The later run counts from the segment that it received, and reports the failure again.
        answered.timeline.push(sampled(42, mark(&answered, true, Some(1))));
        let flow = merged(&[with_waiting_data(failed()), answered]);
        assert_eq!(failures(&flow), [(6, None, 1)], "{progress:?}");
        assert_eq!(flow.timeline.iter().filter(|entry| is_failure(entry)).count(), 1, "{progress:?}");
    }
}

fn is_failure(entry: &TimelineEntry) -> bool {
    matches!(entry.event, TimelineEvent::SubflowStale { stale: true, .. })
}

#[test]
fn an_outage_that_ends_between_two_runs_is_a_stall() {
    let flow = merged(&[failed(), later(Progress::Working, 1), later(Progress::Working, 2)]);
    let gap = u64::try_from(found() - 7).unwrap() * 1_000_000;
    let near = |found: u64| found.abs_diff(gap) < 1_000_000;
    let [(since, length)] = stalls(&flow)[..] else { panic!("{:?}", flow.timeline) };
    assert!(since == at(7) && near(length.0) && flow.outage_since.is_none(), "{length:?}, not {gap}");
    // Another outage had begun when the later run began.
    let mut again = later(Progress::Working, 1);
    again.outage_since = Some(at(20));
    let flow = merged(&[failed(), again]);
    assert_eq!((stalls(&flow), flow.outage_since), (vec![(at(7), Micros(13_000_000))], Some(at(20))));
}

#[test]
fn an_outage_that_outlives_a_restart_is_one_outage() {
    // Without an acknowledgement, the later run may date the outage later.
    for (acked, since) in [(0, 7), (0, 42), (1, 7)] {
        let mut lasts = later(Progress::Failed, acked);
        lasts.outage_since = Some(at(since));
        let flow = merged(&[failed(), lasts.clone()]);
        assert_eq!((stalls(&flow), flow.outage_since), (vec![], Some(at(7))), "{acked}, {since}");
    }
    let mut ended = later(Progress::Working, 1);
    let gap = Micros(40_000_000);
    ended.timeline.push(sampled(7, TimelineEvent::Stalled { gap, timeout: None }));
    let flow = merged(&[failed(), ended]);
    assert_eq!((stalls(&flow), flow.outage_since), (vec![(at(7), gap)], None));
    // The later run dates it by its own start.
    for acked in [0, 1] {
        let mut ended = later(Progress::Working, acked);
        ended.timeline.push(sampled(42, TimelineEvent::Stalled { gap: Micros(18_000_000), timeout: None }));
        let flow = merged(&[failed(), ended]);
        assert_eq!((stalls(&flow), flow.outage_since), (vec![(at(7), Micros(53_000_000))], None), "{acked}");
    }
}

/// Runs without this connection: the later run lists only another one, or restarts on another boot.
fn ended(boot_id: &str, snapshots: i64) -> (tempfile::TempDir, std::path::PathBuf) {
    let (folder, file) = folder();
    run(&file, 0, vec![vec![failed()]]);
    let store = Store::open(&file, &Limits::none()).unwrap();
    for second in 0..snapshots {
        let mut snapshot = Arc::unwrap_or_clone(tick(60 + second, vec![fixture::connection(2, 1)]));
        boot_id.clone_into(&mut snapshot.host.boot_id);
        store.deliver(&Arc::new(snapshot));
    }
    assert_eq!(store.close(), StoreLosses::default());
    (folder, file)
}

fn sentences(flow: &Connection) -> Vec<String> {
    let found = mpwatch_model::finding::of_connection(flow);
    found.iter().map(|finding| finding.sentence(&mpwatch_model::finding::Format::default())).collect()
}

fn read_first(file: &std::path::Path) -> Connection {
    let connections = read(file).0.connections;
    connections.into_iter().find(|connection| connection.id == failed().id).unwrap()
}

#[test]
fn a_connection_that_ended_between_two_runs_ends_at_its_last_observation() {
    let last = tick(0, Vec::new()).at;
    for boot_id in [fixture::host().boot_id.as_str(), "another"] {
        let (_folder, file) = ended(boot_id, 2);
        let flow = read_first(&file);
        assert_eq!((flow.closed_at, flow.outage_since, flow.partly_observed), (Some(last), None, true));
        assert!(flow.has_unobserved_end());
        assert_eq!(stalls(&flow).len(), 1, "the outage ends with it: {:?}", flow.timeline);
        let found = sentences(&flow);
        assert!(
            found.iter().any(|text| text.ends_with("it ended while mpwatch was not running")),
            "{found:?}"
        );
        assert!(found.iter().any(|text| text.contains("until mpwatch last observed it")), "{found:?}");
        assert!(
            found.iter().all(|text| !text.contains("so far") && !text.contains("has not ended")),
            "{found:?}"
        );
        let other = read(&file).0.connections.into_iter().find(|other| other.id != flow.id).unwrap();
        assert!(other.is_open(), "this run lists it");
        let database = Database::open(&file).unwrap();
        let run: i64 =
            database.query_row("SELECT run FROM connection WHERE closed", [], |row| row.get(0)).unwrap();
        assert_eq!(run, 1, "the later run did not observe it");
    }
}

#[test]
fn a_connection_is_not_ended_before_the_second_snapshot_and_is_open_again_if_a_run_finds_it() {
    let boot_id = fixture::host().boot_id;
    let (_folder, file) = ended(&boot_id, 1);
    assert!(read_first(&file).is_open());
    let (_folder, file) = ended(&boot_id, 2);
    assert!(!read_first(&file).is_open());
    let found = later(Progress::Working, 1);
    run(&file, 90, vec![vec![found.clone()], vec![found]]);
    let flow = read_first(&file);
    assert!(flow.is_open() && flow.subflows.iter().all(|subflow| subflow.closed.is_none()));
    assert!(flow.timeline.iter().all(|entry| entry.event != TimelineEvent::Closed));
}

/// A later run cannot find an MPTCP socket without open subflows, or in a namespace that it may not search.
#[test]
fn a_connection_that_a_later_run_cannot_find_stays_open() {
    let open = fixture::connection(1, 1);
    let mut without_subflows = open.clone();
    without_subflows.subflows[0].closed =
        Some(Closed { at: tick(0, Vec::new()).at, reason: CloseReason::Fin });
    for (first, namespaces_unreadable, is_open) in
        [(&without_subflows, 0, true), (&open, 1, true), (&open, 0, false)]
    {
        let (_folder, file) = folder();
        run(&file, 0, vec![vec![first.clone()]]);
        let store = Store::open(&file, &Limits::none()).unwrap();
        for second in [60, 61] {
            let mut snapshot = tick(second, vec![fixture::connection(2, 1)]);
            Arc::make_mut(&mut snapshot).losses.namespaces_unreadable = namespaces_unreadable;
            store.deliver(&snapshot);
        }
        assert_eq!(store.close(), StoreLosses::default());
        let connections = read(&file).0.connections;
        let found = connections.iter().find(|flow| flow.id == first.id).unwrap();
        assert_eq!(found.is_open(), is_open, "{namespaces_unreadable}");
    }
}

#[test]
fn a_plain_tcp_connection_stays_open_if_the_later_run_traces_no_plain_tcp() {
    let tcp = |token| {
        let mut flow = fixture::connection(token, 1);
        (flow.protocol, flow.token, flow.id.token) =
            (mpwatch_model::kernel::lifecycle::Protocol::Tcp, None, mpwatch_model::id::Token(0));
        another(&flow, token.into())
    };
    for (later, is_open) in [(fixture::connection(2, 1), true), (tcp(3), false)] {
        let (_folder, file) = folder();
        run(&file, 0, vec![vec![tcp(1)]]);
        run(&file, 60, vec![vec![later.clone()], vec![later]]);
        let connections = read(&file).0.connections;
        let found = connections.iter().find(|flow| flow.id == tcp(1).id).unwrap();
        assert_eq!(found.is_open(), is_open);
    }
}

#[test]
fn a_subflow_that_a_later_run_does_not_find_has_ended() {
    let mut found = later(Progress::Working, 0);
    found.subflows.truncate(1);
    let flow = merged(&[failed(), found]);
    let end = flow.subflows[1].closed.map(|closed| (closed.at, closed.reason));
    assert_eq!(end, Some((tick(1, Vec::new()).at, CloseReason::Unobserved)));
    assert!(flow.is_open() && flow.subflows[0].closed.is_none());
    let is_end = |entry: &&TimelineEntry| matches!(entry.event, TimelineEvent::SubflowClosed { .. });
    let ends: Vec<_> = flow.timeline.iter().filter(is_end).map(|entry| entry.source).collect();
    assert_eq!(ends, [ObservedBy::Sampled]);
}

#[test]
fn lengths_that_include_time_without_mpwatch_are_upper_bounds() {
    let mut works = later(Progress::Working, 1);
    works.timeline[0].at = timestamp(nanos(tick(30, Vec::new()).at) - 1_000_000_000);
    let found = sentences(&merged(&[failed(), works.clone()]));
    assert!(found.iter().any(|text| text.contains("works again, at the latest since")), "{found:?}");
    assert!(found.iter().any(|text| text.contains("at most") && text.contains(" outage from ")), "{found:?}");
    // A recovery that a run observed is exact.
    let mut failed_again = works;
    failed_again.subflows[1].progress = Progress::Failed;
    failed_again.timeline.push(sampled(42, mark(&failed_again, true, Some(36))));
    failed_again.timeline.push(sampled(45, mark(&failed_again, false, None)));
    let found = sentences(&merged(&[failed(), failed_again]));
    assert!(found.iter().any(|text| text.contains("works again since")), "{found:?}");
}

#[test]
fn the_length_of_a_lasting_outage_reaches_to_the_last_snapshot_of_the_run() {
    let (_folder, file) = folder();
    run(&file, 0, vec![vec![failed()]]);
    // As in the file of a running daemon, which writes the row of a connection without traffic rarely.
    Database::open(&file).unwrap().execute("UPDATE run SET to_ns = to_ns + 50000000000", []).unwrap();
    let flow = read_first(&file);
    assert!((flow.age_s - failed().age_s - 50.0).abs() < 1e-6, "{}", flow.age_s);
    let gap = |flow: &Connection| flow.age_s - flow.observed.unwrap().duration.seconds();
    assert!((gap(&flow) - gap(&failed())).abs() < 1e-6, "mpwatch was running all the time");
    assert!(
        sentences(&flow).iter().any(|text| text.contains("so far, at +62.5 s")),
        "{:?}",
        sentences(&flow)
    );
    let since = Period { since: Some(tick(40, Vec::new()).at), until: None };
    let (found, _) = report(&Archive::open(&file).unwrap(), since, None).unwrap();
    assert_eq!(found.connections.len(), 1, "it is open in this period");
}
