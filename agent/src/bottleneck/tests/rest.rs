// SPDX-License-Identifier: MIT OR Apache-2.0
//! Paths rest where verdicts have been standing, and what changes meanwhile is noticed. Samples are those that the kernel would send.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

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
    fn take(&mut self, subflow: SubflowId, points: &[Point]) {
        self.counts.points.fetch_add(points.len(), Ordering::Relaxed);
        self.method.take(subflow, points);
    }

    fn judge(&mut self, at: Nanos) -> Vec<Opinion> {
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

fn course(rows: &[Vec<Point>]) -> Course {
    let counts = Arc::new(Counts::default());
    let method = Counted { method: Concordance::default(), counts: Arc::clone(&counts) };
    let mut detector = Detector::with(Box::new(method)).rehearsing();
    let mut turns: Vec<(f64, Verdict)> = Vec::new();
    for samples in batches(rows) {
        detector.take_and(&samples, &mut |look| {
            let Some(opinion) = look.opinions.first() else { return };
            if turns.last().is_none_or(|(_, verdict)| *verdict != opinion.verdict) {
                turns.push(((look.at.0 - SECOND) as f64 / 1e9, opinion.verdict));
            }
        });
    }
    let of = |count: &AtomicUsize| count.load(Ordering::Relaxed);
    Course { turns, points: of(&counts.points), looks: of(&counts.looks) }
}

/// One course of things after the other, on the same sockets.
fn then(before: &[Vec<Point>], after: &[Vec<Point>]) -> Vec<Vec<Point>> {
    let end = before.iter().flatten().map(|point| point.at.0).max().unwrap_or(0) - SECOND;
    let joined = |(before, after): (&Vec<Point>, &Vec<Point>)| {
        let base = *before.last().unwrap();
        let moved = after.iter().map(|point| Point {
            at: point.at + Nanos(end),
            delivered: point.delivered + base.delivered,
            lost: point.lost + base.lost,
            ..*point
        });
        before.iter().copied().chain(moved).collect()
    };
    before.iter().zip(after).map(joined).collect()
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
fn a_subflow_that_joins_in_a_rest_is_judged() {
    let mut rows = run(&[BUSY], &on(0, 3), 30, 2);
    rows[2].retain(|point| point.at.0 > 20 * SECOND);
    let mut detector = Detector::by(MethodName::default()).rehearsing();
    for samples in batches(&rows) {
        detector.take(&samples);
    }
    let found: Vec<Verdict> = detector.opinions().iter().map(|opinion| opinion.verdict).collect();
    assert_eq!(found, [Verdict::Shared; 3]);
}

#[test]
fn orders_name_every_subflow_until_when_it_rests() {
    let mut detector = Detector::by(MethodName::default());
    let mut orders = Vec::new();
    for samples in batches(&run(&[BUSY], &on(0, 2), 12, 2)) {
        detector.take(&samples);
        orders.extend(detector.take_orders());
    }
    let [one, other, ..] = orders[..] else { panic!("{orders:?}") };
    assert_eq!((one.id, other.id, one.until), (id(1), id(2), other.until));
    assert!((8 * SECOND..14 * SECOND).contains(&one.until.0), "{one:?}");
    assert!(detector.take_orders().is_empty(), "told once");
}

#[test]
fn nobody_rests_who_was_told_not_to_and_no_other_method_does() {
    let rows = run(&[BUSY], &on(0, 2), 25, 2);
    let all = MethodName::ALL.iter().filter(|method| **method != MethodName::Concordance);
    let detectors =
        all.map(|&method| Detector::by(method)).chain([Detector::by(MethodName::Concordance).restless()]);
    for mut detector in detectors {
        for samples in batches(&rows) {
            detector.take(&samples);
            assert!(detector.take_orders().is_empty());
        }
    }
}
