// SPDX-License-Identifier: MIT OR Apache-2.0
//! Unusual samples cause neither a panic nor a verdict without evidence.

use mpwatch_fixtures::delay_samples::{SECOND, batches, id, sample};
use mpwatch_fixtures::simulator::{BUSY, QUIET, Sender, on, run};
use mpwatch_model::flow::bottleneck::Verdict;
use mpwatch_model::kernel::sample::{DelaySample, SampleBatch};
use mpwatch_model::unit::Nanos;

use super::detection::{detect, verdicts};
use crate::bottleneck::{Detector, PairEvaluation};

/// The verdicts on a subflow under load and a subflow with these samples.
fn verdicts_with_a_busy_subflow(other: Vec<DelaySample>) -> Vec<Verdict> {
    let mut rows = run(&[QUIET], &on(0, 1), 6, 1);
    rows.push(other);
    verdicts(&rows)
}

#[test]
fn without_two_subflows_there_are_no_pairs() {
    assert_eq!(detect(&[]), []);
    assert_eq!(detect(&[Vec::new(), Vec::new()]), []);
    assert_eq!(detect(&run(&[QUIET], &on(0, 1), 3, 1)), []);
}

#[test]
fn pairs_are_bounded_also_between_two_ticks() {
    let mut detector = Detector::default();
    for index in 0..640 {
        let from = index * 10;
        let samples = (0..200).map(|n| sample(from + n, 10_000 + n % 7 * 900, 1)).collect();
        detector.add(&SampleBatch { id: id(index), samples });
    }
    detector.advance(Nanos(10 * SECOND));
    assert!(detector.pairs().len() <= 64 * 63 / 2, "{}", detector.pairs().len());
    for index in 0..64 {
        detector.forget(id(index));
    }
    assert!(detector.pairs().is_empty());
}

#[test]
fn a_few_acknowledgements_per_second_decide_nothing() {
    for every_ms in [80, 100, 400, 1_000] {
        let few = (0..6_000 / every_ms).map(|n| sample(n * every_ms, 10_000 + n % 7 * 900, 0)).collect();
        assert_eq!(verdicts_with_a_busy_subflow(few), [Verdict::Unknown], "every {every_ms} ms");
    }
}

#[test]
fn an_idle_connection_decides_nothing() {
    let idle = |from: u64| vec![sample(from, 10_000, 1), sample(from + 30, 11_000, 2)];
    assert_eq!(verdicts(&[idle(0), idle(5)]), [Verdict::Unknown]);
    assert_eq!(verdicts_with_a_busy_subflow(idle(0)), [Verdict::Unknown]);
}

#[test]
fn a_subflow_that_stalls_decides_nothing() {
    let mut rows = run(&[QUIET], &on(0, 2), 6, 1);
    rows[1].retain(|sample| sample.at.0 < SECOND + SECOND / 2);
    assert_eq!(verdicts(&rows), [Verdict::Unknown]);
}

#[test]
fn a_subflow_that_lives_50_ms_decides_nothing() {
    let short = (0..50).map(|ms| sample(2_000 + ms, 10_000 + ms * 300, u32::try_from(ms).unwrap())).collect();
    assert_eq!(verdicts_with_a_busy_subflow(short), [Verdict::Unknown]);
}

#[test]
fn detection_starts_over_after_a_jump_of_the_clock() {
    let rows = run(&[BUSY], &on(0, 2), 5, 2);
    for jump in [86_400 * SECOND, 5 * SECOND] {
        let forward: Vec<Vec<DelaySample>> = rows
            .iter()
            .map(|row| {
                let moved = row.iter().map(|sample| DelaySample { at: sample.at + Nanos(jump), ..*sample });
                row.iter().copied().chain(moved).collect()
            })
            .collect();
        assert_eq!(verdicts(&forward), [Verdict::Shared], "by {jump} ns");
    }
    // A jump backwards: samples from before the jump are discarded.
    let mut detector = Detector::default();
    let later = |sample: &DelaySample| DelaySample { at: sample.at + Nanos(86_400 * SECOND), ..*sample };
    let future = |batch: &SampleBatch| SampleBatch {
        samples: batch.samples.iter().map(later).collect(),
        ..batch.clone()
    };
    let now = batches(&rows);
    for batch in now.iter().map(future).chain(now.iter().cloned()) {
        detector.add(&batch);
    }
    assert_eq!(detector.pairs()[0].verdict, Verdict::Shared);
}

#[test]
fn few_of_the_pairs_of_thirty_two_subflows_are_decided_and_most_of_them_correctly() {
    let senders: Vec<Sender> =
        (0..32).map(|n| Sender { link: n % 2, rtt_ms: 10, start_ms: 5 * n as u64 }).collect();
    let found = detect(&run(&[BUSY, BUSY], &senders, 4, 9));
    assert_eq!(found.len(), 32 * 31 / 2);
    assert!(found.iter().all(|pair| pair.probability.is_none_or(|p| (0.0..=1.0).contains(&p))));
    let shares = |pair: &PairEvaluation| (pair.a.cookie.0 + pair.b.cookie.0).is_multiple_of(2);
    let is_wrong = |pair: &&PairEvaluation| match pair.verdict {
        Verdict::Shared => !shares(pair),
        Verdict::Disjoint => shares(pair),
        _ => false,
    };
    let decided = found.iter().filter(|pair| pair.verdict != Verdict::Unknown).count();
    let wrong = found.iter().filter(is_wrong).count();
    // With sixteen subflows on 20 Mbit/s, each sends five segments in 50 ms and the queue is never empty, so most pairs must stay
    // undecided.
    assert!(decided * 4 < found.len() && wrong * 10 < found.len(), "{wrong} of {decided}");
}

#[test]
fn a_subflow_that_has_ended_is_removed() {
    let mut detector = Detector::default();
    for batch in batches(&run(&[BUSY], &on(0, 3), 4, 2)) {
        detector.add(&batch);
    }
    assert_eq!(detector.pairs().len(), 3);
    detector.forget(id(2));
    assert_eq!(detector.pairs().len(), 1);
}
