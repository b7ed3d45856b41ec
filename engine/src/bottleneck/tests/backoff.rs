// SPDX-License-Identifier: MIT OR Apache-2.0
//! Evaluation is suspended while verdicts do not change, and resumes when traffic changes.

use std::sync::{Arc, Mutex};

use mpwatch_fixtures::delay_samples::{SECOND, batches, batches_of, id, sample};
use mpwatch_fixtures::simulator::{BUSY, Link, QUIET, Sender, on, run};
use mpwatch_model::flow::bottleneck::Verdict;
use mpwatch_model::id::SubflowId;
use mpwatch_model::kernel::sample::{DelaySample, SampleBatch};
use mpwatch_model::unit::Nanos;

use crate::bottleneck::concordance::Concordance;
use crate::bottleneck::method::Method;
use crate::bottleneck::{Detector, PairEvaluation};

/// mpwatch's own method, with a count of its evaluations.
struct Counted {
    method: Concordance,
    count: Arc<Mutex<usize>>,
}

impl Method for Counted {
    fn add(&mut self, subflow: SubflowId, samples: &[DelaySample]) {
        self.method.add(subflow, samples);
    }

    fn evaluate(&mut self, at: Nanos) -> Vec<PairEvaluation> {
        *self.count.lock().unwrap() += 1;
        self.method.evaluate(at)
    }

    fn forget(&mut self, subflow: SubflowId) {
        self.method.forget(subflow);
    }

    fn resume(&mut self, suspended_for: Nanos) {
        self.method.resume(suspended_for);
    }
}

/// The result of a run.
struct Outcome {
    /// Each verdict on the first pair, with the time at which it was reached, in seconds since the start.
    verdicts: Vec<(f64, Verdict)>,
    evaluations: usize,
}

impl Outcome {
    #[track_caller]
    fn last(&self) -> (f64, Verdict) {
        *self.verdicts.last().expect("a verdict")
    }
}

fn run_detector(batches: &[SampleBatch]) -> Outcome {
    let count = Arc::new(Mutex::new(0));
    let method = Counted { method: Concordance::default(), count: Arc::clone(&count) };
    let mut detector = Detector::with_method(Box::new(method)).with_backoff();
    let mut verdicts: Vec<(f64, Verdict)> = Vec::new();
    for batch in batches {
        detector.add_and_evaluate(batch, &mut |evaluation| {
            let Some(pair) = evaluation.pairs.first() else { return };
            if verdicts.last().is_none_or(|(_, verdict)| *verdict != pair.verdict) {
                verdicts.push(((evaluation.at.0 as f64 - SECOND as f64) / 1e9, pair.verdict));
            }
        });
    }
    let evaluations = *count.lock().unwrap();
    Outcome { verdicts, evaluations }
}

/// Appends a run to another run on the same sockets.
fn then(before: &[Vec<DelaySample>], after: &[Vec<DelaySample>]) -> Vec<Vec<DelaySample>> {
    let end = before.iter().flatten().map(|sample| sample.at.0).max().unwrap_or(0) - SECOND;
    let joined = |(before, after): (&Vec<DelaySample>, &Vec<DelaySample>)| {
        let last = *before.last().unwrap();
        let moved = after.iter().map(|sample| DelaySample {
            at: sample.at + Nanos(end),
            delivered: sample.delivered + last.delivered,
            lost: sample.lost + last.lost,
            ..*sample
        });
        before.iter().copied().chain(moved).collect()
    };
    before.iter().zip(after).map(joined).collect()
}

fn separate() -> [Sender; 2] {
    [Sender { link: 0, rtt_ms: 10, start_ms: 0 }, Sender { link: 1, rtt_ms: 10, start_ms: 0 }]
}

#[test]
fn stable_verdicts_are_rarely_evaluated() {
    const SECONDS: u64 = 150;
    let separate = separate();
    for (links, senders, verdict) in [
        (&[BUSY][..], &on(0, 2)[..], Verdict::Shared),
        (&[BUSY, BUSY], &separate, Verdict::Disjoint),
        (&[QUIET], &on(0, 2), Verdict::Shared),
    ] {
        let outcome = run_detector(&batches(&run(links, senders, SECONDS, 2)));
        let (since, last) = outcome.last();
        assert!(last == verdict && since < 20.0, "{:?}", outcome.verdicts);
        // Without backoff there are four evaluations per second.
        assert!(outcome.evaluations < 150, "{} evaluations in {SECONDS} s", outcome.evaluations);
    }
}

#[test]
fn a_change_of_routes_during_a_backoff_is_noticed() {
    let shared = |seconds| run(&[BUSY], &on(0, 2), seconds, 3);
    let disjoint = |seconds| run(&[BUSY, BUSY], &separate(), seconds, 4);
    for (rows, verdict) in [
        (then(&shared(24), &disjoint(12)), Verdict::Disjoint),
        (then(&disjoint(24), &shared(12)), Verdict::Shared),
    ] {
        let outcome = run_detector(&batches(&rows));
        let (at, last) = outcome.last();
        assert!(last == verdict && (24.0..34.0).contains(&at), "{:?}", outcome.verdicts);
    }
}

#[test]
fn a_change_of_routes_that_changes_no_rate_is_noticed_after_the_backoff() {
    // The two links together are as fast as the single link before, and have the same delay.
    let half = Link { mbit: 10, ..BUSY };
    let rows = then(&run(&[BUSY], &on(0, 2), 24, 3), &run(&[half, half], &separate(), 60, 4));
    let outcome = run_detector(&batches(&rows));
    assert_eq!(outcome.last().1, Verdict::Disjoint, "{:?}", outcome.verdicts);
}

#[test]
fn traffic_that_begins_during_a_backoff_is_evaluated_soon() {
    const IDLE: u64 = 100;
    // Each subflow sends a segment every two seconds, until `silent_from`.
    let idle = |silent_from: u64| -> Vec<Vec<DelaySample>> {
        let at_times = (0..IDLE / 2).take_while(|turn| turn * 2 < silent_from);
        let row = at_times.map(|turn| sample(1_000 + turn * 2_000, 10_000, u32::try_from(turn).unwrap()));
        let end = sample(1_000 + IDLE * 1_000, 10_000, u32::try_from(IDLE).unwrap());
        let row: Vec<DelaySample> = row.chain([end]).collect();
        vec![row.clone(), row]
    };
    for silent_from in [10, IDLE] {
        let rows = then(&idle(silent_from), &run(&[BUSY], &on(0, 2), 10, 3));
        let outcome = run_detector(&batches_of(1, &rows));
        let (at, last) = outcome.last();
        let after = at - IDLE as f64;
        assert!(last == Verdict::Shared && (0.0..4.0).contains(&after), "{:?}", outcome.verdicts);
    }
}

#[test]
fn a_subflow_that_joins_during_a_backoff_is_evaluated() {
    let mut rows = run(&[BUSY], &on(0, 3), 30, 2);
    rows[2].retain(|sample| sample.at.0 > 20 * SECOND);
    let mut detector = Detector::default().with_backoff();
    for batch in batches(&rows) {
        detector.add(&batch);
    }
    let found: Vec<Verdict> = detector.pairs().iter().map(|pair| pair.verdict).collect();
    assert_eq!(found, [Verdict::Shared; 3]);
}

#[test]
fn a_pair_that_becomes_decidable_is_decided_after_a_backoff() {
    // Until 61 s only five samples per second are kept, too few to decide; after that, all samples of the same traffic.
    let mut rows = run(&[BUSY], &on(0, 2), 110, 2);
    for row in &mut rows {
        let mut last = Nanos(0);
        row.retain(|sample| {
            let is_kept = sample.at.0 > 61 * SECOND || sample.at.since(last).0 > SECOND / 5;
            last = if is_kept { sample.at } else { last };
            is_kept
        });
    }
    let outcome = run_detector(&batches_of(1, &rows));
    let [(_, Verdict::Unknown), (at, Verdict::Shared), ..] = outcome.verdicts[..] else {
        panic!("{:?}", outcome.verdicts)
    };
    assert!((60.0..95.0).contains(&at), "{:?}", outcome.verdicts);
}

#[test]
fn a_segment_now_and_then_does_not_end_a_backoff() {
    const SECONDS: u64 = 200;
    let row: Vec<DelaySample> =
        (0..SECONDS / 10).map(|turn| sample(turn * 10_000, 10_000, u32::try_from(turn).unwrap())).collect();
    let evaluations = run_detector(&batches_of(1, &[row.clone(), row])).evaluations;
    assert!(evaluations < usize::try_from(SECONDS).unwrap(), "{evaluations} evaluations in {SECONDS} s");
}

/// A method whose verdict on two subflows depends only on the time and the number of evaluations.
struct Scripted<F> {
    verdict: F,
    evaluated: Arc<Mutex<Vec<Nanos>>>,
}

impl<F: Fn(Nanos, usize) -> Verdict> Method for Scripted<F> {
    fn add(&mut self, _: SubflowId, _: &[DelaySample]) {}

    fn evaluate(&mut self, at: Nanos) -> Vec<PairEvaluation> {
        let mut evaluated = self.evaluated.lock().unwrap();
        evaluated.push(at);
        let verdict = (self.verdict)(at, evaluated.len());
        vec![PairEvaluation { a: id(1), b: id(2), verdict, probability: None, since: None, evidence: None }]
    }

    fn forget(&mut self, _: SubflowId) {}
}

/// The backoffs within 200 s: when each began and how long it was, in seconds.
fn backoffs(verdict: impl Fn(Nanos, usize) -> Verdict + Send + 'static) -> Vec<(f64, f64)> {
    let evaluated = Arc::new(Mutex::new(Vec::new()));
    let method = Scripted { verdict, evaluated: Arc::clone(&evaluated) };
    let mut detector = Detector::with_method(Box::new(method)).with_backoff();
    for quarter in 0..4 * 200 {
        detector.advance(Nanos(quarter * SECOND / 4));
    }
    let evaluated = evaluated.lock().unwrap();
    let seconds = |time: Nanos| time.0 as f64 / 1e9;
    let gaps = evaluated.windows(2).map(|two| (seconds(two[0]), seconds(two[1].since(two[0]))));
    gaps.filter(|(_, gap)| *gap > 1.0).collect()
}

#[test]
fn backoffs_double_up_to_a_maximum() {
    for (verdicts, first) in [
        ([Verdict::Disjoint; 2], 3.0),
        ([Verdict::NoBottleneck; 2], 3.0),
        ([Verdict::Unknown; 2], 12.0),
        // The verdict keeps changing.
        ([Verdict::Disjoint, Verdict::Unknown], 12.0),
    ] {
        let found = backoffs(move |_, count| verdicts[count % 2]);
        let lengths: Vec<f64> = found.iter().map(|(_, length)| *length).collect();
        assert_eq!((found[0].0, &lengths[..5]), (first, &[4.0, 8.0, 16.0, 30.0, 30.0][..]), "{verdicts:?}");
    }
}

#[test]
fn a_verdict_that_changes_after_a_backoff_must_be_stable_again() {
    const CHANGED: f64 = 8.0;
    let verdict = |Nanos(at): Nanos, _| {
        if at as f64 / 1e9 < CHANGED { Verdict::Shared } else { Verdict::Disjoint }
    };
    // The first backoff is from 3 s to 7 s.
    let [_, (second, _), ..] = backoffs(verdict)[..] else { panic!("no backoffs") };
    assert!((CHANGED + 3.0..CHANGED + 3.5).contains(&second), "at {second} s");
}

#[test]
fn without_backoff_every_evaluation_takes_place() {
    let rows = run(&[BUSY], &on(0, 2), 25, 2);
    let mut detector = Detector::default();
    let mut times = Vec::new();
    for batch in batches(&rows) {
        detector.add_and_evaluate(&batch, &mut |evaluation| {
            times.push((evaluation.at, evaluation.pairs.to_vec()));
        });
    }
    let probabilities = times.windows(2).filter(|two| two[0].1 != two[1].1).count();
    assert!(probabilities > 80, "{probabilities} of {} evaluations differ from the one before", times.len());
}
