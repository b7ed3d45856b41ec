// SPDX-License-Identifier: MIT OR Apache-2.0
//! Paths rest where verdicts have been standing, and what changes meanwhile is noticed. SampleBatch are those that the kernel would send.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use super::robustness::point;
use super::simulator::{BUSY, Link, QUIET, Sender, on, run};
use super::*;
use crate::bottleneck::concordance::Concordance;
use crate::bottleneck::{Detector, Method, Rested};

/// The usual method, and how much it was told and asked.
struct Counted {
    method: Concordance,
    counts: Arc<Counts>,
}

#[derive(Default)]
struct Counts {
    points: AtomicUsize,
    looks: AtomicUsize,
}

impl Method for Counted {
    fn take(&mut self, subflow: SubflowId, points: &[DelaySample]) {
        self.counts.points.fetch_add(points.len(), Ordering::Relaxed);
        self.method.take(subflow, points);
    }

    fn judge(&mut self, at: Nanos) -> Vec<PairEvaluation> {
        self.counts.looks.fetch_add(1, Ordering::Relaxed);
        self.method.judge(at)
    }

    fn forget(&mut self, subflow: SubflowId) {
        self.method.forget(subflow);
    }

    fn may_rest(&self) -> bool {
        true
    }

    fn rested(&mut self, rested: Rested) {
        self.method.rested(rested);
    }
}

/// What becomes of these samples.
struct Course {
    /// Verdicts on the first pair: from when on, in seconds since the beginning.
    turns: Vec<(f64, Verdict)>,
    points: usize,
    looks: usize,
}

fn course(rows: &[Vec<DelaySample>]) -> Course {
    course_of(&batches(rows))
}

fn course_of(all: &[SampleBatch]) -> Course {
    let counts = Arc::new(Counts::default());
    let method = Counted { method: Concordance::default(), counts: Arc::clone(&counts) };
    let mut detector = Detector::with(Box::new(method)).rehearsing();
    let mut turns: Vec<(f64, Verdict)> = Vec::new();
    for samples in all {
        detector.take_and(samples, &mut |look| {
            let Some(evaluation) = look.evaluations.first() else { return };
            if turns.last().is_none_or(|(_, verdict)| *verdict != evaluation.verdict) {
                turns.push(((look.at.0 as f64 - SECOND as f64) / 1e9, evaluation.verdict));
            }
        });
    }
    let of = |count: &AtomicUsize| count.load(Ordering::Relaxed);
    Course { turns, points: of(&counts.points), looks: of(&counts.looks) }
}

/// One course of things after the other, on the same sockets.
fn then(before: &[Vec<DelaySample>], after: &[Vec<DelaySample>]) -> Vec<Vec<DelaySample>> {
    let end = before.iter().flatten().map(|point| point.at.0).max().unwrap_or(0) - SECOND;
    let joined = |(before, after): (&Vec<DelaySample>, &Vec<DelaySample>)| {
        let base = *before.last().unwrap();
        let moved = after.iter().map(|point| DelaySample {
            at: point.at + Nanos(end),
            delivered: point.delivered + base.delivered,
            lost: point.lost + base.lost,
            ..*point
        });
        before.iter().copied().chain(moved).collect()
    };
    before.iter().zip(after).map(joined).collect()
}

/// Of a trickle each point comes alone.
fn alone(rows: &[Vec<DelaySample>]) -> Vec<SampleBatch> {
    let of = |(number, row): (u64, &Vec<DelaySample>)| {
        let samples = |point: &DelaySample| SampleBatch { id: id(number), points: vec![*point] };
        row.iter().map(samples).collect::<Vec<_>>()
    };
    let mut samples: Vec<SampleBatch> = (1..).zip(rows).flat_map(of).collect();
    samples.sort_by_key(|samples| samples.points[0].at);
    samples
}

fn apart() -> [Sender; 2] {
    [Sender { link: 0, rtt_ms: 10, start_ms: 0 }, Sender { link: 1, rtt_ms: 10, start_ms: 0 }]
}

#[test]
fn what_stands_is_hardly_sampled_and_hardly_looked_at() {
    const SECONDS: u64 = 90;
    let senders = apart();
    for (links, senders, verdict) in [
        (&[BUSY][..], &on(0, 2)[..], Verdict::Shared),
        (&[BUSY, BUSY], &senders, Verdict::Disjoint),
        (&[QUIET], &on(0, 2), Verdict::Shared),
    ] {
        let rows = run(links, senders, SECONDS, 2);
        let Course { turns, points, looks } = course(&rows);
        let all: usize = rows.iter().map(Vec::len).sum();
        let [.., (since, last)] = turns[..] else { panic!("no verdict") };
        assert!(last == verdict && since < 20.0, "{turns:?}");
        assert!(points * 3 < all, "{points} points of {all}");
        assert!(looks < usize::try_from(SECONDS).unwrap(), "{looks} looks in {SECONDS} s");
    }
}

#[test]
fn a_change_of_routes_in_a_rest_is_noticed() {
    let shared = |seconds| run(&[BUSY], &on(0, 2), seconds, 3);
    let disjoint = |seconds| run(&[BUSY, BUSY], &apart(), seconds, 4);
    for (rows, verdict) in [
        (then(&shared(24), &disjoint(12)), Verdict::Disjoint),
        (then(&disjoint(24), &shared(12)), Verdict::Shared),
    ] {
        let turns = course(&rows).turns;
        let [.., (at, last)] = turns[..] else { panic!("no verdict") };
        assert!(last == verdict && (24.0..34.0).contains(&at), "{turns:?}");
    }
}

#[test]
fn a_change_of_routes_that_changes_no_rate_is_noticed_after_the_rest() {
    // The links together are as fast as the one before, and no slower to cross.
    let half = Link { mbit: 10, ..BUSY };
    let rows = then(&run(&[BUSY], &on(0, 2), 24, 3), &run(&[half, half], &apart(), 60, 4));
    let turns = course(&rows).turns;
    assert_eq!(turns.last().unwrap().1, Verdict::Disjoint, "{turns:?}");
}

#[test]
fn traffic_that_begins_in_a_rest_is_judged_soon() {
    const IDLE: u64 = 100;
    // A segment of each every two seconds, and nothing after a while.
    let idle = |silent_from: u64| -> Vec<Vec<DelaySample>> {
        let at_times = (0..IDLE / 2).take_while(|turn| turn * 2 < silent_from);
        let row = at_times.map(|turn| point(1_000 + turn * 2_000, 10_000, u32::try_from(turn).unwrap()));
        let end = point(1_000 + IDLE * 1_000, 10_000, u32::try_from(IDLE).unwrap());
        let row: Vec<DelaySample> = row.chain([end]).collect();
        vec![row.clone(), row]
    };
    for (silent_from, soon) in [(10, 3.0), (IDLE, 5.0)] {
        let rows = then(&idle(silent_from), &run(&[BUSY], &on(0, 2), 10, 3));
        let turns = course_of(&alone(&rows)).turns;
        let [.., (at, last)] = turns[..] else { panic!("no verdict") };
        let after = at - IDLE as f64;
        assert!(last == Verdict::Shared && (0.0..soon).contains(&after), "{turns:?}");
    }
}

#[test]
fn a_subflow_that_joins_in_a_rest_is_judged() {
    let mut rows = run(&[BUSY], &on(0, 3), 30, 2);
    rows[2].retain(|point| point.at.0 > 20 * SECOND);
    let mut detector = Detector::by(DetectionMethod::default()).rehearsing();
    for samples in batches(&rows) {
        detector.take(&samples);
    }
    let found: Vec<Verdict> = detector.evaluations().iter().map(|evaluation| evaluation.verdict).collect();
    assert_eq!(found, [Verdict::Shared; 3]);
}

/// A verdict and its probability.
type Thought = (Verdict, Option<f64>);

/// A method that thinks of two subflows what depends on when, and how often, it was asked, whatever they do.
struct Stubborn<Think> {
    think: Think,
    asked: Arc<Mutex<Vec<Nanos>>>,
}

impl<Think: Fn(Nanos, usize) -> Thought> Method for Stubborn<Think> {
    fn take(&mut self, _: SubflowId, _: &[DelaySample]) {}

    fn judge(&mut self, at: Nanos) -> Vec<PairEvaluation> {
        let mut asked = self.asked.lock().unwrap();
        asked.push(at);
        let (verdict, probability) = (self.think)(at, asked.len());
        vec![PairEvaluation { a: id(1), b: id(2), verdict, probability, since: None, evidence: None }]
    }

    fn forget(&mut self, _: SubflowId) {}

    fn may_rest(&self) -> bool {
        true
    }
}

/// When it is asked within 200 s, in seconds after it was first asked.
fn looks(think: impl Fn(Nanos, usize) -> Thought + Send + 'static) -> Vec<f64> {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let mut detector = Detector::with(Box::new(Stubborn { think, asked: Arc::clone(&asked) }));
    for quarter in 0..4 * 200 {
        detector.advance(Nanos(quarter * SECOND / 4));
    }
    let asked = asked.lock().unwrap();
    asked.iter().map(|at| at.since(asked[0]).0 as f64 / 1e9).collect()
}

/// The pauses between looks that are rests: when one began, and for how long nobody looked.
fn pauses(looks: &[f64]) -> Vec<(f64, f64)> {
    let gaps = looks.windows(2).map(|two| (two[0], two[1] - two[0]));
    gaps.filter(|(_, gap)| *gap > 2.0).collect()
}

#[test]
fn what_stays_open_rests_later_and_for_longer_only_where_nothing_is_known() {
    // Each a rest and half of the time that is sampled densely after it.
    let standing = [5.5, 9.5, 17.5, 33.5, 33.5];
    let open = [6.5, 10.5, 18.5, 34.5, 34.5];
    let nothing = [6.5, 10.5, 18.5, 34.5, 66.5];
    let (disjoint, unknown) = ((Verdict::Disjoint, Some(0.02)), (Verdict::Unknown, None));
    for (thoughts, watched, expected) in [
        ([disjoint; 2], 3.0, &standing),
        ([(Verdict::NoBottleneck, None); 2], 3.0, &standing),
        ([unknown; 2], 12.0, &nothing),
        ([(Verdict::Unknown, Some(0.6)); 2], 12.0, &nothing),
        ([(Verdict::Disjoint, Some(0.3)); 2], 12.0, &open),
        ([(Verdict::Shared, None); 2], 12.0, &open),
        // It comes and goes.
        ([disjoint, unknown], 12.0, &open),
    ] {
        let pauses = pauses(&looks(move |_, count| thoughts[count % 2]));
        let rests: Vec<f64> = pauses.iter().map(|(_, pause)| *pause).collect();
        assert_eq!((pauses[0].0, &rests[..5]), (watched, &expected[..]), "{thoughts:?}");
    }
}

#[test]
fn a_search_has_looks_enough_to_give_a_verdict_up() {
    let looks = looks(|_, _| (Verdict::Disjoint, Some(0.3)));
    let [(first, pause), (second, _), ..] = pauses(&looks)[..] else { panic!("no rests") };
    let search = looks.iter().filter(|at| (first + pause..=second).contains(at)).count();
    assert!(search >= 4, "{search} looks in a search");
}

#[test]
fn what_a_search_has_found_is_watched_for_a_while() {
    // The first search is from 16 to 21 s.
    const FOUND: f64 = 20.0;
    let found = |at: Nanos, _| match at {
        Nanos(at) if at as f64 / 1e9 < FOUND => (Verdict::Unknown, None),
        _ => (Verdict::Disjoint, Some(0.02)),
    };
    let [(first, _), (second, _), ..] = pauses(&looks(found))[..] else { panic!("no rests") };
    assert!(first < FOUND && (FOUND + 3.0..FOUND + 4.0).contains(&second), "rests at {first} and {second} s");
}

#[test]
fn a_segment_now_and_then_is_no_end_of_a_silence() {
    const SECONDS: u64 = 200;
    let row: Vec<DelaySample> =
        (0..SECONDS / 10).map(|turn| point(turn * 10_000, 10_000, u32::try_from(turn).unwrap())).collect();
    let looks = course_of(&alone(&[row.clone(), row])).looks;
    assert!(looks < usize::try_from(SECONDS).unwrap(), "{looks} looks in {SECONDS} s");
}

#[test]
fn a_decision_that_becomes_possible_is_made_after_a_rest() {
    // A trickle of samples, which tells nothing; then all that there are, at the same rate.
    let mut rows = run(&[BUSY], &on(0, 2), 110, 2);
    for row in &mut rows {
        let mut last = Nanos(0);
        row.retain(|point| {
            let is_kept = point.at.0 > 61 * SECOND || point.at.since(last).0 > SECOND / 5;
            last = if is_kept { point.at } else { last };
            is_kept
        });
    }
    let samples = alone(&rows);
    let Course { turns, looks, .. } = course_of(&samples);
    let [(_, Verdict::Unknown), (at, Verdict::Shared), ..] = turns[..] else { panic!("{turns:?}") };
    assert!((60.0..95.0).contains(&at), "a rest of 32 s and the search after it: {turns:?}");
    assert!(looks < 4 * 110 / 2, "{looks} looks in 110 s");
}
