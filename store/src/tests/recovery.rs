// SPDX-License-Identifier: MIT OR Apache-2.0
//! Failures and outages that end while mpwatch is not running.

use mpwatch_model::flow::outage;
use mpwatch_model::flow::progress::Progress;
use mpwatch_model::unit::Micros;

use super::runs::{adopted, run};
use super::*;

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
