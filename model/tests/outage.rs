// SPDX-License-Identifier: MIT OR Apache-2.0
//! Path failures and outages of the sample connections.
#![allow(clippy::unwrap_used, reason = "a test")]

mod orders;

use mpwatch_fixtures as fixture;
use mpwatch_model::finding::{Format, of_connection};
use mpwatch_model::flow::connection::Connection;
use mpwatch_model::flow::elimination::EliminationStep;
use mpwatch_model::flow::outage::{has_failed, is_failure, longest, outages, path_failure, path_failures};
use mpwatch_model::flow::subflow::Closed;
use mpwatch_model::flow::timeline::{ObservedBy, TimelineEntry, TimelineEvent};
use mpwatch_model::kernel::lifecycle::CloseReason;
use mpwatch_model::unit::Micros;

use Sign::{Stale, Stall, Works};
use orders::{CASES, FAILED, Sign, connection_with};

fn stall(micros: i64, gap: u64) -> TimelineEntry {
    let source = ObservedBy::Tracepoint;
    TimelineEntry {
        at: fixture::at(micros),
        source,
        event: TimelineEvent::Stalled { gap: Micros(gap), timeout: None },
    }
}

#[test]
fn a_path_fails_at_the_start_of_the_stall_before_the_failure_is_noticed() {
    let connection = fixture::failover(1);
    let failure = path_failure(&connection, &connection.subflows[0]).unwrap();
    assert_eq!((failure.at, failure.noticed), (fixture::at(5_600_200), fixture::at(6_000_000)));
    assert_eq!(path_failure(&connection, &connection.subflows[1]), None, "no event reports it");
    assert_eq!(path_failure(&connection, &connection.subflows[2]), None, "it works");
}

#[test]
fn short_stalls_without_a_failure_are_not_an_outage() {
    let mut connection = fixture::connection(1, 2);
    // The retransmission timeout of the slower subflow: 41.6 ms smoothed RTT, and the minimum of 200 ms for its variation.
    connection.timeline.push(stall(3_000_000, 241_000));
    assert_eq!(outages(&connection), []);
    assert!(!is_failure(&[], connection.timeline.last().unwrap()), "not marked on the timeline");
    connection.timeline.push(stall(3_300_000, 242_000));
    assert!(is_failure(&outages(&connection), connection.timeline.last().unwrap()));
    assert_eq!(outages(&connection)[0].duration, Micros(542_000));
}

#[test]
fn stalls_of_a_path_with_a_long_queue_are_not_an_outage() {
    let mut connection = fixture::connection(1, 2);
    (connection.subflows[1].srtt, connection.subflows[1].rttvar) =
        (Some(Micros(500_000)), Some(Micros(270_000)));
    connection.timeline.push(stall(3_000_000, 1_300_000));
    assert_eq!(outages(&connection), [], "a retransmission timeout is 1.58 s");
    connection.timeline.push(stall(6_000_000, 1_600_000));
    assert_eq!(outages(&connection).len(), 1);
    // Acknowledgements arrive at intervals of up to a round trip: these stalls do not prolong the outage.
    connection.timeline.push(stall(7_700_000, 450_000));
    assert_eq!(outages(&connection)[0].duration, Micros(1_600_000));
    // If a path fails, a short stall is an outage even if another path is slow.
    let mut failover = fixture::failover(1);
    let before = outages(&failover);
    failover.subflows[2].srtt = Some(Micros(600_000));
    assert_eq!((outages(&failover).len(), outages(&failover)[0].from), (before.len(), before[0].from));
    connection.subflows[1].srtt = Some(Micros(5_000_000));
    connection.timeline.push(stall(9_000_000, 2_000_000));
    assert_eq!(outages(&connection).len(), 1, "2 s is an outage on every path if the timeout is unknown");
}

#[test]
fn a_stall_is_judged_by_the_retransmission_timeout_before_it() {
    let with_timeout = |micros, gap, timeout| {
        let event = TimelineEvent::Stalled { gap: Micros(gap), timeout: Some(Micros(timeout)) };
        TimelineEntry { event, ..stall(micros, gap) }
    };
    // The queue is empty at the end of the connection.
    let mut connection = fixture::connection(1, 2);
    connection.timeline.extend([3_000_000, 4_300_000].map(|at| with_timeout(at, 1_100_000, 1_400_000)));
    assert_eq!(outages(&connection), []);
    // The queue is long at the end of the connection.
    connection.timeline.push(with_timeout(9_000_000, 1_500_000, 240_000));
    connection.subflows[1].srtt = Some(Micros(1_800_000));
    assert_eq!(outages(&connection).len(), 1);
}

#[test]
fn a_stall_long_before_the_failure_does_not_belong_to_it() {
    let mut connection = fixture::failover(1);
    connection.timeline.retain(|entry| !matches!(entry.event, TimelineEvent::Stalled { .. }));
    connection.timeline.insert(1, stall(2_900_000, 100_000));
    let failure = path_failure(&connection, &connection.subflows[0]).unwrap();
    assert_eq!(failure.at, failure.noticed);
}

#[test]
fn stalls_in_quick_succession_are_one_outage() {
    let mut connection = fixture::failover(1);
    connection.timeline.extend([
        stall(6_050_200, 162_000),
        stall(6_260_200, 163_000),
        stall(10_000_000, 300_000),
    ]);
    let found = outages(&connection);
    let [first, second] = found[..] else { panic!("{found:?}") };
    assert_eq!((first.duration, first.stalled, first.stalls), (Micros(823_000), Micros(737_300), 3));
    assert_eq!((second.from, second.stalls), (fixture::at(10_000_000), 1));
}

/// After each sampled stall, data was acknowledged at an unknown time in the interval.
#[test]
fn sampled_stalls_in_quick_succession_are_several_outages() {
    let sampled = |micros, gap| TimelineEntry { source: ObservedBy::Sampled, ..stall(micros, gap) };
    let mut connection = fixture::connection(1, 2);
    connection.timeline.extend([
        sampled(6_000_000, 1_700_000),
        sampled(7_800_000, 1_800_000),
        stall(9_700_000, 400_000),
    ]);
    let found: Vec<_> = outages(&connection).iter().map(|outage| (outage.duration, outage.stalls)).collect();
    assert_eq!(found, [1_700_000, 1_800_000, 400_000].map(|micros| (Micros(micros), 1)));
}

/// Each path fails for 3 s and, 7 s after it works again, for 13 s: one failure in two intervals, and two outages.
fn failed_twice() -> Connection {
    let mut connection = connection_with(&[
        (4_000, Stall(3_400)),
        (5_000, Stale),
        (7_400, Works),
        (14_000, Stall(13_500)),
        (15_000, Stale),
        (27_500, Works),
    ]);
    connection.timeline.sort_by_key(|entry| entry.at);
    connection
}

#[test]
fn time_in_which_a_path_works_does_not_count_as_failed() {
    let mut connection = failed_twice();
    let [failure] = path_failures(&connection, &connection.subflows[0])[..] else { panic!("one failure") };
    let down = failure.down(failure.recovered.unwrap());
    assert_eq!((failure.intervals, down), (2, Micros(3_400_000 + 13_500_000)));
    let text = of_connection(&connection)[1].sentence(&Format::default());
    let end = "; works again since +27.500000 s, after 16.9 s in 2 intervals";
    assert!(text.starts_with(FAILED) && text.ends_with(end), "{text}");
    connection.timeline.pop();
    connection.closed_at = Some(fixture::at(20_000_000));
    let text = of_connection(&connection)[0].sentence(&Format::default());
    assert!(text.ends_with("; down for 9.40 s in 2 intervals until the connection closed"), "{text}");
}

#[test]
fn the_longest_outage_is_named_with_the_number_of_outages() {
    let mut connection = failed_twice();
    let found = outages(&connection);
    assert_eq!((found.len(), longest(&found).unwrap().duration), (2, Micros(13_500_000)));
    let text = |connection: &Connection| of_connection(connection)[0].sentence(&Format::default());
    let outage = "13.5 s outage from 2026-03-01 12:00:14Z (+14.000000 s): no path made progress; the longest of 2 outages";
    assert_eq!(text(&connection), outage);
    (connection.outage_since, connection.age_s) = (Some(fixture::at(30_000_000)), 31.0);
    let lasts = "3 outages; the latest, since +30.000000 s, has not ended";
    assert_eq!(text(&connection), outage.replace("2 outages", lasts));
    assert_eq!(longest(&[]), None);
}

#[test]
fn failures_follow_from_any_order_of_events() {
    for (case, signs, expected, problems) in CASES {
        let connection = connection_with(signs);
        let [first, second] = &connection.subflows[..] else { panic!("two subflows") };
        let failures = path_failures(&connection, first);
        let found: Vec<_> = failures.iter().map(|failure| (failure.at, failure.recovered)).collect();
        let at = |millis: &i64| fixture::at(millis * 1_000);
        let times: Vec<_> = expected.iter().map(|(from, to)| (at(from), to.as_ref().map(at))).collect();
        assert_eq!(found, times, "{case}");
        let is_failed = expected.last().is_some_and(|(_, until)| until.is_none());
        assert_eq!(has_failed(&connection, first), is_failed, "{case}");
        assert_eq!(path_failures(&connection, second), [], "{case}");
        let findings = of_connection(&connection);
        let sentences: Vec<String> = findings
            .iter()
            .filter(|finding| finding.is_problem())
            .map(|finding| finding.sentence(&Format::default()))
            .collect();
        assert_eq!(sentences.len(), problems.len(), "{case}: {sentences:?}");
        for (sentence, begin) in sentences.iter().zip(*problems) {
            assert!(sentence.starts_with(begin), "{case}: {sentence}");
        }
    }
}

#[test]
fn a_subflow_that_mpwatch_eliminated_is_not_a_failed_path() {
    let mut connection = fixture::connection(1, 2);
    let removal = fixture::elimination::removal(&connection).unwrap();
    let at = fixture::at(5_000_000);
    connection.subflows.last_mut().unwrap().closed = Some(Closed { at, reason: CloseReason::ResetSent });
    assert_eq!(path_failures(&connection, &connection.subflows[1]).len(), 1, "no removal is recorded");
    let event = TimelineEvent::Elimination(EliminationStep::Removed(Box::new(removal)));
    connection.timeline.push(TimelineEntry { at, source: ObservedBy::Sampled, event });
    assert_eq!(path_failures(&connection, &connection.subflows[1]), []);
}

#[test]
fn a_sentence_says_how_long_a_path_failed() {
    let sentence =
        |signs: &[(i64, Sign)]| of_connection(&connection_with(signs))[0].sentence(&Format::default());
    let repeated = [(620, Stale), (1_000, Works), (1_810, Stale), (8_050, Works)];
    assert_eq!(
        sentence(&repeated),
        format!(
            "{FAILED}: no acknowledgements, noticed at 2026-03-01 12:00:00Z (+0.620000 s); works again since +8.050000 s, after 6.62 s in 2 intervals"
        )
    );
    let open = sentence(&repeated[..3]);
    assert!(open.ends_with("; down for 11.1 s in 2 intervals so far, at +12.5 s"), "{open}");
}
