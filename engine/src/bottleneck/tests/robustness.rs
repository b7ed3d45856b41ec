// SPDX-License-Identifier: MIT OR Apache-2.0
//! What must not confuse it: no panic, and no certainty that nothing supports.

use mpwatch_model::unit::Micros;

use super::simulator::{BUSY, QUIET, Sender, on, run};
use super::*;

pub(super) fn point(at_ms: u64, rtt_us: u64, delivered: u32) -> DelaySample {
    DelaySample {
        at: Nanos(SECOND + at_ms * 1_000_000),
        rtt: Micros(rtt_us),
        delivered,
        ..DelaySample::default()
    }
}

/// A subflow under load, and beside it one with these points.
fn beside_a_busy_one(other: Vec<DelaySample>) -> Vec<Verdict> {
    let mut rows = run(&[QUIET], &on(0, 1), 6, 1);
    rows.push(other);
    verdicts(&rows)
}

#[test]
fn nothing_gives_no_opinion() {
    assert_eq!(judged(&[]), []);
    assert_eq!(judged(&[Vec::new(), Vec::new()]), []);
    assert_eq!(judged(&run(&[QUIET], &on(0, 1), 3, 1)), []);
}

#[test]
fn a_trickle_of_acknowledgements_decides_nothing() {
    for every_ms in [80, 100, 400, 1_000] {
        let trickle = (0..6_000 / every_ms).map(|n| point(n * every_ms, 10_000 + n % 7 * 900, 0)).collect();
        assert_eq!(beside_a_busy_one(trickle), [Verdict::Unknown], "every {every_ms} ms");
    }
}

#[test]
fn an_idle_connection_decides_nothing() {
    let idle = |from: u64| vec![point(from, 10_000, 1), point(from + 30, 11_000, 2)];
    assert_eq!(verdicts(&[idle(0), idle(5)]), [Verdict::Unknown]);
    assert_eq!(beside_a_busy_one(idle(0)), [Verdict::Unknown]);
}

#[test]
fn a_subflow_that_stalls_decides_nothing() {
    let mut rows = run(&[QUIET], &on(0, 2), 6, 1);
    rows[1].retain(|point| point.at.0 < SECOND + SECOND / 2);
    assert_eq!(verdicts(&rows), [Verdict::Unknown]);
}

#[test]
fn a_subflow_that_lives_50_ms_decides_nothing() {
    let short = (0..50).map(|ms| point(2_000 + ms, 10_000 + ms * 300, u32::try_from(ms).unwrap())).collect();
    assert_eq!(beside_a_busy_one(short), [Verdict::Unknown]);
}

#[test]
fn a_clock_that_leaps_starts_anew() {
    let rows = run(&[BUSY], &on(0, 2), 5, 2);
    for leap in [86_400 * SECOND, 5 * SECOND] {
        let forward: Vec<Vec<DelaySample>> = rows
            .iter()
            .map(|points| {
                let moved = points.iter().map(|point| DelaySample { at: point.at + Nanos(leap), ..*point });
                points.iter().copied().chain(moved).collect()
            })
            .collect();
        assert_eq!(verdicts(&forward), [Verdict::Shared], "by {leap} ns");
    }
    // Back: what came from the future is forgotten, and what comes then is judged.
    let mut detector = Detector::by(DetectionMethod::default());
    let future = |samples: &SampleBatch| SampleBatch {
        points: samples
            .points
            .iter()
            .map(|p| DelaySample { at: p.at + Nanos(86_400 * SECOND), ..*p })
            .collect(),
        ..samples.clone()
    };
    let now = batches(&rows);
    for samples in now.iter().map(future).chain(now.iter().cloned()) {
        detector.take(&samples);
    }
    assert_eq!(detector.pairs()[0].verdict, Verdict::Shared);
}

/// Also when nothing is known of them, or too much.
#[test]
fn thirty_two_subflows_are_looked_at() {
    let senders: Vec<Sender> =
        (0..32).map(|n| Sender { link: n % 2, rtt_ms: 10, start_ms: 5 * n as u64 }).collect();
    let found = judged(&run(&[BUSY, BUSY], &senders, 4, 9));
    assert_eq!(found.len(), 32 * 31 / 2);
    assert!(found.iter().all(|evaluation| evaluation.probability.is_none_or(|p| (0.0..=1.0).contains(&p))));
}

#[test]
fn thirty_two_subflows_are_judged() {
    let links = [BUSY, BUSY];
    let senders: Vec<Sender> =
        (0..32).map(|n| Sender { link: n % 2, rtt_ms: 10, start_ms: 5 * n as u64 }).collect();
    let found = judged(&run(&links, &senders, 4, 9));
    assert_eq!(found.len(), 32 * 31 / 2);
    let truth =
        |evaluation: &PairEvaluation| (evaluation.a.cookie.0 + evaluation.b.cookie.0).is_multiple_of(2);
    let wrong = |evaluation: &&PairEvaluation| match evaluation.verdict {
        Verdict::Shared => !truth(evaluation),
        Verdict::Disjoint => truth(evaluation),
        _ => false,
    };
    let judged = found.iter().filter(|evaluation| evaluation.verdict != Verdict::Unknown).count();
    let wrong = found.iter().filter(wrong).count();
    println!("of {} pairs {judged} are judged, {wrong} of them wrongly", found.len());
    // Sixteen on 20 Mbit/s get five segments in 50 ms each, and their queue never empties: most pairs have to stay unknown.
    assert!(judged * 4 < found.len() && wrong * 10 < found.len(), "{wrong} of {judged}");
}

#[test]
fn a_subflow_that_has_ended_is_left_out() {
    let mut detector = Detector::by(DetectionMethod::default());
    for samples in batches(&run(&[BUSY], &on(0, 3), 4, 2)) {
        detector.take(&samples);
    }
    assert_eq!(detector.pairs().len(), 3);
    detector.forget(id(2));
    assert_eq!(detector.pairs().len(), 1);
}
