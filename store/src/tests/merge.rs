// SPDX-License-Identifier: MIT OR Apache-2.0
//! A restart or an imported recording keeps verdicts, the end of a connection and its events.

use std::sync::Arc;

use mpwatch_model::flow::bottleneck::{Bottlenecks, Verdict};
use mpwatch_model::flow::class::FlowClass;
use mpwatch_model::flow::observed::Observed;
use mpwatch_model::flow::subflow::Closed;
use mpwatch_model::kernel::clock;
use mpwatch_model::kernel::lifecycle::TcpState;
use mpwatch_model::unit::{Micros, Nanos};
use mpwatch_model::why::answer::Cause;

use super::runs::{adopted, run};
use super::*;

/// The verdicts of a run that has no samples.
fn unknown(connection: &Connection) -> Bottlenecks {
    let mut found = fixture::bottleneck::disjoint(&connection.subflows);
    for pair in &mut found.pairs {
        (pair.verdict, pair.probability, pair.since, pair.evidence) = (Verdict::Unknown, None, None, None);
    }
    found
}

/// Writes two runs, the second with these verdicts. Returns the result.
fn verdicts(first: &Connection, second: impl FnOnce(&Connection) -> Bottlenecks) -> Connection {
    let (_folder, file) = folder();
    run(&file, 0, vec![vec![first.clone()]]);
    let mut later = adopted(first);
    later.bottlenecks = Some(second(&later));
    run(&file, 20, vec![vec![later]]);
    read(&file).0.connections.remove(0)
}

fn with_three_subflows(known: fn(&[mpwatch_model::flow::subflow::Subflow]) -> Bottlenecks) -> Connection {
    let mut first = fixture::connection(1, 3);
    first.bottlenecks = Some(known(&first.subflows));
    settled(first)
}

#[test]
fn a_restart_keeps_the_verdicts_on_a_connection_without_samples() {
    for known in [fixture::bottleneck::shared, fixture::bottleneck::capped] {
        let first = with_three_subflows(known);
        let found = verdicts(&first, unknown);
        assert_eq!((found.extra_subflows, &found.bottlenecks), (first.extra_subflows, &first.bottlenecks));
    }
}

#[test]
fn each_pair_has_its_last_decided_verdict_and_groups_follow() {
    let first = with_three_subflows(fixture::bottleneck::shared);
    let found = verdicts(&first, |later| {
        let mut found = unknown(later);
        // Pairs (1, 3) and (2, 3).
        found.pairs[1..].clone_from_slice(&fixture::bottleneck::disjoint(&later.subflows).pairs[1..]);
        found.pairs[2].evidence = None;
        found
    });
    let [one, two, three] = [0, 1, 2].map(|nth| found.subflows[nth].id);
    let bottlenecks = found.bottlenecks.unwrap();
    let verdicts: Vec<_> = bottlenecks.pairs.iter().map(|pair| pair.verdict).collect();
    assert_eq!(verdicts, [Verdict::Shared, Verdict::Disjoint, Verdict::Disjoint]);
    assert_eq!((bottlenecks.groups, found.extra_subflows), (vec![vec![one, two], vec![three]], Some(1)));
    assert_eq!(bottlenecks.pairs[2].evidence, None, "not the evidence of another verdict");
    // The second run began 31.5 s after the opening, and reached its verdict after 1.75 s.
    assert_eq!(bottlenecks.pairs[1].since, Some(Micros(31_500_000 + 1_750_000)));
}

#[test]
fn a_verdict_that_a_later_run_confirms_keeps_its_time_and_has_new_evidence() {
    let first = with_three_subflows(fixture::bottleneck::shared);
    let found = verdicts(&first, |later| {
        let mut found = fixture::bottleneck::shared(&later.subflows);
        found.pairs[0].probability = Some(0.99);
        found
    });
    let pair = found.bottlenecks.unwrap().pairs[0];
    assert_eq!((pair.since, pair.probability), (Some(Micros(1_750_000)), Some(0.99)));
}

#[test]
fn verdicts_of_different_methods_are_not_mixed() {
    let first = with_three_subflows(fixture::bottleneck::shared);
    let by_another = |found: Bottlenecks| Bottlenecks { method: DetectionMethod::Dcw, ..found };
    let found = verdicts(&first, |later| by_another(unknown(later)));
    assert_eq!(found.bottlenecks, first.bottlenecks);
    let found = verdicts(&first, |later| by_another(fixture::bottleneck::disjoint(&later.subflows)));
    assert_eq!(found.bottlenecks.unwrap().method, DetectionMethod::Dcw);
}

/// A connection that closed at 12 s, while one subflow waited for a FIN until 30 s, and what a run from 20 s on observed of it.
fn lingering() -> [Connection; 2] {
    let mut first = fixture::closed(1);
    (first.subflows[1].closed, first.subflows[1].state) = (None, TcpState::Closing);
    first.timeline.retain(|entry| {
        entry.event
            != TimelineEvent::SubflowClosed { subflow: first.subflows[1].id, reason: CloseReason::Fin }
    });
    let mut second = adopted(&first);
    second.subflows.remove(0);
    let duration = Nanos(10_000_000_000);
    second.subflows[0].bytes_sent = Bytes(0);
    second.subflows[0].observed = Observed { duration, ..Observed::default() };
    second.subflows[0].closed = Some(Closed { at: fixture::at(30_000_000), reason: CloseReason::Unknown });
    (second.observed, second.bytes_sent, second.bytes_received) = (None, None, None);
    (second.closed_at, second.age_s) = (Some(fixture::at(30_000_000)), 10.0);
    let (at, source) = (fixture::at(30_000_000), ObservedBy::Tracepoint);
    second.timeline.push(TimelineEntry { at, source, event: TimelineEvent::Closed });
    [first, second].map(settled)
}

#[test]
fn the_end_of_a_connection_is_kept_while_a_subflow_lingers() {
    let [first, second] = lingering();
    assert_eq!((first.flow_class, second.flow_class), (FlowClass::Long, FlowClass::Query));
    let mut open = Connection { closed_at: None, age_s: 1.0, ..second.clone() };
    open.subflows[0].closed = None;
    for runs in [vec![&first, &second], vec![&second, &first], vec![&first, &open, &second]] {
        let (_folder, file) = folder();
        for (state, second) in runs.into_iter().zip([0, 20, 31]) {
            run(&file, second, vec![vec![state.clone()]]);
        }
        let found = read(&file).0.connections.remove(0);
        assert_eq!((found.closed_at, found.partly_observed), (first.closed_at, false));
        assert!((found.age_s - 12.0).abs() < 1e-6, "{}", found.age_s);
        let ends = found.timeline.iter().filter(|entry| entry.event == TimelineEvent::Closed);
        assert_eq!(ends.map(|entry| entry.at).collect::<Vec<_>>(), first.closed_at.as_slice());
        assert_eq!((found.flow_class, found.jain_index), (FlowClass::Long, first.jain_index));
        assert_eq!(found.observed, first.observed);
        let subflow = found.subflows.iter().find(|subflow| subflow.id == second.subflows[0].id).unwrap();
        assert_eq!(subflow.observed, first.subflows[1].observed, "until the connection closed");
        assert_eq!((subflow.closed, found.subflows.len()), (second.subflows[0].closed, 2));
    }
}

#[test]
fn the_reason_of_an_end_is_kept() {
    let (_folder, file) = folder();
    let first = fixture::closed(1);
    run(&file, 0, vec![vec![first.clone()]]);
    let mut second = first.clone();
    let ends = second.subflows.iter_mut().filter_map(|subflow| subflow.closed.as_mut());
    ends.for_each(|closed| closed.reason = CloseReason::Unknown);
    run(&file, 20, vec![vec![second]]);
    let reasons = read(&file).0.connections.remove(0).subflows.into_iter().map(|s| s.closed.unwrap().reason);
    assert_eq!(reasons.collect::<Vec<_>>(), [CloseReason::Fin; 2]);
}

#[test]
fn an_event_that_two_runs_date_differently_is_listed_once() {
    let (_folder, file) = folder();
    let mut first = fixture::closed(1);
    let subflow = first.subflows[0].id;
    let mut add = |micros, source, event| {
        first.timeline.push(TimelineEntry { at: fixture::at(micros), source, event });
    };
    let works = TimelineEvent::SubflowStale { subflow, stale: false, silent: None };
    let stall = |gap| TimelineEvent::Stalled { gap: Micros(gap), timeout: None };
    add(5_000_000, ObservedBy::Tracepoint, stall(300_000));
    // Stalls that begin more than a millisecond apart are different stalls.
    add(6_000_000, ObservedBy::Tracepoint, stall(300_000));
    add(7_000_000, ObservedBy::Sampled, works);
    let first = settled(first);
    let mut second = first.clone();
    second.shift(40_000);
    for entry in &mut second.timeline {
        match (&mut entry.event, entry.source) {
            (TimelineEvent::Stalled { gap, .. }, _) if entry.at < fixture::at(5_500_000) => {
                *gap = Micros(300_006);
            }
            (TimelineEvent::Stalled { .. }, _) => entry.at = clock::shifted(entry.at, 2_000_000),
            // Found by another sample.
            (_, ObservedBy::Sampled) => entry.at = clock::shifted(entry.at, 260_000_000),
            _ => {}
        }
    }
    // It begins within a second of a known stall, but lasts longer.
    let longer =
        TimelineEntry { at: fixture::at(6_500_000), source: ObservedBy::Sampled, event: stall(5_000_000) };
    second.timeline.push(longer.clone());
    run(&file, 0, vec![vec![first.clone()]]);
    run(&file, 0, vec![vec![second]]);
    let found = read(&file).0.connections.remove(0);
    let mut expected = first.timeline;
    expected.push(longer);
    let later =
        TimelineEntry { at: fixture::at(6_002_040), source: ObservedBy::Tracepoint, event: stall(300_000) };
    expected.push(later);
    expected.sort_by_key(|entry| entry.at);
    assert_eq!(found.timeline, expected);
}

#[test]
fn reinjected_bytes_grow_after_a_restart() {
    let (_folder, file) = folder();
    let first = settled(fixture::connection(1, 2));
    run(&file, 0, vec![vec![first.clone()]]);
    let mut later = adopted(&first);
    later.subflows[0].bytes_sent += Bytes(50_000_000);
    later.subflows[1].bytes_sent += Bytes(40_000_000);
    later.bytes_sent = later.bytes_sent.map(|sent| sent + Bytes(60_000_000));
    let sent: Bytes = later.subflows.iter().map(mpwatch_model::flow::subflow::Subflow::unique_sent).sum();
    run(&file, 20, vec![vec![later.clone()]]);
    let found = read(&file).0.connections.remove(0);
    assert!(first.bytes_reinjected < found.bytes_reinjected);
    assert_eq!(found.bytes_reinjected, Some(sent.since(later.bytes_sent.unwrap())));
}

#[test]
fn a_cause_is_kept_while_it_applies_and_is_never_put_together_from_two() {
    let single = fixture::connection(1, 1);
    let other = Cause { id: "no-endpoint".into(), advice: None, ..fixture::cause() };
    let merged = |first: &Connection, second: &Connection| {
        let (_folder, file) = folder();
        run(&file, 0, vec![vec![first.clone()]]);
        run(&file, 20, vec![vec![adopted(second)]]);
        read(&file).0.connections.remove(0).cause.map(Arc::unwrap_or_clone)
    };
    let with = |cause: &Cause| Connection { cause: Some(cause.clone().into()), ..single.clone() };
    assert_eq!(merged(&with(&other), &single), Some(other.clone()), "the later run does not know it");
    assert_eq!(merged(&with(&fixture::cause()), &with(&other)), Some(other.clone()));
    let joined = Connection { cause: None, ..fixture::connection(1, 2) };
    assert_eq!(merged(&with(&other), &joined), None, "a second path has joined");
}
