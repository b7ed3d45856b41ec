// SPDX-License-Identifier: MIT OR Apache-2.0
//! Path failures and outages of the sample connections.
#![allow(clippy::unwrap_used, reason = "a test")]

use mpwatch_fixtures as fixture;
use mpwatch_model::connection::Connection;
use mpwatch_model::elimination::EliminationStep;
use mpwatch_model::finding::{Format, of_connection};
use mpwatch_model::lifecycle::CloseReason;
use mpwatch_model::outage::{
    has_failed, is_failure, longest, main_outage, outages, path_failure, path_failures,
};
use mpwatch_model::subflow::Closed;
use mpwatch_model::timeline::{ObservedBy, TimelineEntry, TimelineEvent};
use mpwatch_model::unit::Micros;

fn stall(micros: i64, gap: u64) -> TimelineEntry {
    let source = ObservedBy::Tracepoint;
    TimelineEntry { at: fixture::at(micros), source, event: TimelineEvent::Stalled { gap: Micros(gap) } }
}

#[test]
fn a_path_fails_at_the_start_of_the_stall_before_its_end() {
    let connection = fixture::failover(1);
    let failure = path_failure(&connection, &connection.subflows[0]).unwrap();
    assert_eq!((failure.at, failure.noticed), (fixture::at(5_600_200), fixture::at(6_000_000)));
    assert_eq!(path_failure(&connection, &connection.subflows[1]), None, "no event says when");
    assert_eq!(path_failure(&connection, &connection.subflows[2]), None, "it works");
}

#[test]
fn short_stalls_without_a_failure_are_no_outage() {
    let mut connection = fixture::connection(1, 2);
    // The slower subflow: 41.6 ms smoothed RTT, and at least 200 ms of variation.
    connection.timeline.push(stall(3_000_000, 241_000));
    assert_eq!(outages(&connection), []);
    assert!(!is_failure(&[], connection.timeline.last().unwrap()), "no mark on the timeline");
    connection.timeline.push(stall(3_300_000, 242_000));
    assert!(is_failure(&outages(&connection), connection.timeline.last().unwrap()));
    assert_eq!(outages(&connection)[0].duration, Micros(542_000));
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

#[test]
fn an_outage_with_a_path_failure_outranks_a_longer_one() {
    let mut connection = fixture::failover(1);
    connection.timeline.push(stall(14_000_000, 900_000));
    let found = outages(&connection);
    assert_eq!(main_outage(&connection, &found).unwrap().duration, Micros(412_300));
    assert_eq!(longest(&found).unwrap().duration, Micros(900_000));
    let mut healthy = connection.clone();
    healthy.subflows[0].closed = None;
    healthy.timeline.retain(|entry| !matches!(entry.event, TimelineEvent::SubflowStale { .. }));
    assert_eq!(main_outage(&healthy, &found).unwrap().duration, Micros(900_000), "no path failed");
    assert_eq!(main_outage(&healthy, &[]), None);
}

/// What happens to the first of two subflows, or to the connection, in milliseconds after its opening.
#[derive(Clone, Copy)]
enum Sign {
    Stall(u64),
    Stale,
    Works,
    Ended(CloseReason),
    OtherEnded(CloseReason),
    Closed,
}

use CloseReason::{Fin, RemovedByAdmin, RemovedByPeer, ResetReceived, ResetSent, Timeout, Unreachable};
use Sign::{Closed as End, Ended, OtherEnded, Stale, Stall, Works};

fn connection_with(signs: &[(i64, Sign)]) -> Connection {
    let mut connection = fixture::connection(1, 2);
    let id = connection.subflows[0].id;
    for &(millis, sign) in signs {
        let at = fixture::at(millis * 1_000);
        let event = match sign {
            Stall(millis) => TimelineEvent::Stalled { gap: Micros(millis * 1_000) },
            Stale | Works => {
                let stale = matches!(sign, Stale);
                connection.subflows[0].stale = stale;
                TimelineEvent::SubflowStale { subflow: id, stale }
            }
            Ended(reason) | OtherEnded(reason) => {
                let subflow = &mut connection.subflows[usize::from(matches!(sign, OtherEnded(_)))];
                subflow.closed = Some(Closed { at, reason });
                TimelineEvent::SubflowClosed { subflow: subflow.id, reason }
            }
            End => {
                connection.closed_at = Some(at);
                TimelineEvent::Closed
            }
        };
        connection.timeline.push(TimelineEntry { at, source: ObservedBy::Tracepoint, event });
    }
    connection
}

/// Case, what happens, failures of the first path (from, until; milliseconds), and the begin of each problem that is found.
type Case = (&'static str, &'static [(i64, Sign)], &'static [(i64, Option<i64>)], &'static [&'static str]);

const FAILED: &str = "path 1 (10.0.1.1 -> 10.0.1.2 over eth1) failed";

/// Those marked `kernel` were recorded on Linux 6.18: the first three from `mpwatch demo failover`, the others by `host_event_orders`, which
/// repeats them. The rest is derived.
const CASES: &[Case] = &[
    (
        "kernel, sender: the stale subflow is reset after the end",
        &[
            (6_094, Stall(806)),
            (7_513, Stale),
            (15_140, End),
            (15_160, OtherEnded(Fin)),
            (15_632, Ended(ResetSent)),
        ],
        &[(6_094, None)],
        &[FAILED, "806 ms outage"],
    ),
    (
        "kernel, sender: the stale subflow has not ended yet",
        &[(6_094, Stall(806)), (6_997, Stale), (15_140, End), (15_160, OtherEnded(Fin))],
        &[(6_094, None)],
        &[FAILED, "806 ms outage"],
    ),
    (
        "short stalls of a busy host before the outage",
        &[(4_500, Stall(110)), (6_094, Stall(806)), (7_013, Stale), (15_140, End), (15_160, OtherEnded(Fin))],
        &[(6_094, None)],
        &[FAILED, "806 ms outage"],
    ),
    (
        "kernel, receiver: reset after the end, no time of the failure",
        &[(15_134, End), (15_155, OtherEnded(Fin)), (15_619, Ended(ResetSent))],
        &[],
        &["subflow 1 did not close with the others: reset by this host (RST sent) at +15.619000 s"],
    ),
    (
        "kernel, the FIN gets no acknowledgement",
        &[(10_002, End), (10_022, OtherEnded(Fin)), (12_155, Ended(Timeout))],
        &[(12_155, None)],
        &[FAILED],
    ),
    (
        "stale until it closes with the others",
        &[(7_000, Stale), (9_000, End), (9_001, OtherEnded(Fin)), (9_001, Ended(Fin))],
        &[(7_000, None)],
        &[FAILED],
    ),
    (
        "kernel, sender: stale, then removed by the path manager",
        &[
            (996, Stall(588)),
            (2_580, Stale),
            (9_489, End),
            (9_509, OtherEnded(Fin)),
            (9_564, Ended(RemovedByAdmin)),
        ],
        &[(996, None)],
        &[FAILED, "588 ms outage"],
    ),
    (
        "kernel, receiver: stale, then removed by the path manager",
        &[(9_489, End), (9_509, OtherEnded(Fin)), (10_130, Ended(RemovedByPeer))],
        &[],
        &[],
    ),
    (
        "its mark vanishes with its socket",
        &[(7_000, Stale), (8_000, Ended(ResetSent)), (8_500, Works), (9_000, OtherEnded(Fin)), (9_001, End)],
        &[(7_000, None)],
        &[FAILED],
    ),
    (
        "kernel, closed normally, with a short stall",
        &[(392, Stall(100)), (9_516, End), (9_536, OtherEnded(Fin)), (9_536, Ended(Fin))],
        &[],
        &[],
    ),
    (
        "kernel, sender: aborted",
        &[(9_529, End), (9_529, OtherEnded(ResetSent)), (9_529, Ended(ResetSent))],
        &[],
        &["aborted by this host"],
    ),
    (
        "kernel, receiver: aborted",
        &[(9_529, OtherEnded(ResetReceived)), (9_529, Ended(ResetReceived)), (9_529, End)],
        &[],
        &["aborted by the peer"],
    ),
    (
        "kernel, receiver on a busy host: aborted, noticed by the application later",
        &[(9_531, OtherEnded(ResetReceived)), (9_531, Ended(ResetReceived)), (10_056, End)],
        &[],
        &["aborted by the peer"],
    ),
    (
        "kernel, sender: both subflows destroyed, ended by the kernel later",
        &[(4_576, OtherEnded(RemovedByAdmin)), (4_578, Ended(RemovedByAdmin)), (64_000, End)],
        &[],
        &["aborted by this host"],
    ),
    (
        "kernel, sender: aborted after a path had failed",
        &[
            (1_002, Stall(757)),
            (1_760, Stall(223)),
            (3_234, Stale),
            (12_076, End),
            (12_076, OtherEnded(ResetSent)),
            (12_076, Ended(ResetSent)),
        ],
        &[(1_002, None)],
        &[FAILED, "aborted by this host", "981 ms outage"],
    ),
    (
        "a reset at the end of a connection that closes normally",
        &[(9_000, OtherEnded(Fin)), (9_001, End), (9_020, Ended(ResetReceived))],
        &[],
        &[],
    ),
    (
        "kernel, receiver: reset long before the end",
        &[(1_037, Ended(ResetReceived)), (9_505, End), (9_525, OtherEnded(Fin))],
        &[(1_037, None)],
        &[FAILED],
    ),
    (
        "kernel, sender: reset by the peer",
        &[(997, Stall(220)), (997, Ended(ResetReceived)), (9_604, End), (9_624, OtherEnded(Fin))],
        &[(997, None)],
        &[FAILED, "220 ms outage"],
    ),
    (
        "kernel, sender: destroyed by an administrator",
        &[(985, Ended(RemovedByAdmin)), (1_043, Stall(317)), (9_442, End), (9_463, OtherEnded(Fin))],
        &[],
        &["317 ms outage"],
    ),
    (
        "reset by this host long before the end",
        &[(992, Ended(ResetSent)), (1_028, Stall(732)), (9_505, End), (9_525, OtherEnded(Fin))],
        &[(992, None)],
        &[FAILED, "732 ms outage"],
    ),
    (
        "kernel, sender: link down, given up after the end",
        &[
            (1_060, Stall(699)),
            (3_234, Stale),
            (12_445, End),
            (12_465, OtherEnded(Fin)),
            (18_395, Ended(Unreachable)),
        ],
        &[(1_060, None)],
        &[FAILED, "699 ms outage"],
    ),
    (
        "kernel, receiver: link down, given up after the end",
        &[(12_439, End), (12_459, OtherEnded(Fin)), (16_047, Ended(Timeout))],
        &[(16_047, None)],
        &[FAILED],
    ),
    (
        "kernel, sender: removed by the path manager",
        &[(1_049, Stall(336)), (1_054, Ended(RemovedByAdmin)), (9_515, End), (9_535, OtherEnded(Fin))],
        &[],
        &["336 ms outage"],
    ),
    (
        "kernel, receiver: removed by the peer",
        &[(1_034, Ended(RemovedByPeer)), (9_515, End), (9_536, OtherEnded(Fin))],
        &[],
        &[],
    ),
    (
        "one failure with short recoveries",
        &[(620, Stale), (1_000, Works), (1_810, Stale), (2_400, Works), (8_050, Stale)],
        &[(620, None)],
        &[FAILED],
    ),
    (
        "it works again",
        &[(620, Stale), (1_000, Works), (1_810, Stale), (2_400, Works)],
        &[(620, Some(2_400))],
        &[FAILED],
    ),
    (
        "kernel, sender: it works again, closed normally",
        &[
            (1_019, Stall(739)),
            (3_233, Stale),
            (5_233, Works),
            (9_624, End),
            (9_644, OtherEnded(Fin)),
            (9_644, Ended(Fin)),
        ],
        &[(1_019, Some(5_233))],
        &["739 ms outage", FAILED],
    ),
    (
        "kernel, sender: works for a short time, given up after the end",
        &[
            (2_310, Stall(743)),
            (4_440, Stale),
            (5_438, Works),
            (8_044, Stale),
            (12_376, End),
            (12_396, OtherEnded(Fin)),
            (12_767, Ended(Timeout)),
        ],
        &[(2_310, None)],
        &[FAILED, "743 ms outage"],
    ),
    (
        "two failures",
        &[(620, Stale), (1_000, Works), (60_000, Stale)],
        &[(620, Some(1_000)), (60_000, None)],
        &[FAILED],
    ),
];

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
fn a_subflow_that_mpwatch_eliminated_is_no_failed_path() {
    let mut connection = fixture::connection(1, 2);
    let removal = fixture::elimination::removal(&connection).unwrap();
    let at = fixture::at(5_000_000);
    connection.subflows.last_mut().unwrap().closed = Some(Closed { at, reason: ResetSent });
    assert_eq!(path_failures(&connection, &connection.subflows[1]).len(), 1, "it may be anybody's reset");
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
            "{FAILED}: no acknowledgements (noticed at +0.620000 s); works again since +8.050000 s, after 7.43 s, worked for a short time once"
        )
    );
    let open = sentence(&repeated[..3]);
    assert!(open.contains("; worked for a short time once; down for "), "{open}");
}
