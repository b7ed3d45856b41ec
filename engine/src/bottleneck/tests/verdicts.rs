// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is found in networks of which the truth is known.

use super::simulator::{BUSY, Link, QUIET, Sender, on, run};
use super::*;
use crate::bottleneck::groups;

fn spread(count: usize) -> Vec<Sender> {
    (0..count).map(|link| Sender { link, rtt_ms: 10, start_ms: 0 }).collect()
}

#[test]
fn subflows_on_one_link_share_it() {
    for (link, seed) in
        [(QUIET, 1), (BUSY, 2), (Link { mbit: 100, ..BUSY }, 3), (Link { mbit: 100, ..QUIET }, 4)]
    {
        let found = judged(&run(&[link], &on(0, 2), 5, seed));
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].verdict, Verdict::Shared, "seed {seed}: {found:?}");
        let after = found[0].since.unwrap().0 - SECOND;
        assert!(after < 4 * SECOND, "seed {seed}: after {after} ns");
    }
}

#[test]
fn equal_links_whose_sawtooths_line_up_are_not_taken_for_one() {
    let links = [QUIET, Link { mbit: 100, ..QUIET }, Link { mbit: 50, queue_ms: 80, cross: 0 }];
    for link in links {
        for seed in 1..4 {
            for seconds in 2..7 {
                let found = verdicts(&run(&[link, link], &spread(2), seconds, seed));
                assert!(!found.contains(&Verdict::Shared), "{} Mbit/s, seed {seed}, {seconds} s", link.mbit);
            }
        }
    }
    assert_eq!(verdicts(&run(&[QUIET, QUIET], &spread(2), 6, 1)), [Verdict::Disjoint]);
}

#[test]
fn links_with_traffic_of_others_are_told_apart() {
    for seed in 1..6 {
        let found = judged(&run(&[BUSY, BUSY], &spread(2), 6, seed));
        assert_eq!(found[0].verdict, Verdict::Disjoint, "seed {seed}: {found:?}");
    }
}

#[test]
fn two_and_two_of_four_are_grouped() {
    let senders: Vec<Sender> = on(0, 2).into_iter().chain(on(1, 2)).collect();
    let rows = run(&[BUSY, Link { mbit: 40, ..BUSY }], &senders, 6, 7);
    let ids = [id(1), id(2), id(3), id(4)];
    assert_eq!(groups(&ids, &judged(&rows)), [[id(1), id(2)], [id(3), id(4)]]);
}

#[test]
fn a_queue_seen_from_different_distances_is_one() {
    let near = Sender { link: 0, rtt_ms: 10, start_ms: 0 };
    let far = Sender { rtt_ms: 40, ..near };
    let found = judged(&run(&[BUSY], &[near, far], 6, 11));
    assert_eq!(found[0].verdict, Verdict::Shared, "{found:?}");
}

#[test]
fn a_path_that_changes_is_judged_again() {
    let shared = run(&[BUSY], &on(0, 2), 6, 3);
    let apart = run(&[BUSY, BUSY], &spread(2), 8, 4);
    let later = |points: &[DelaySample], shift: u64, base: DelaySample| -> Vec<DelaySample> {
        let moved = |point: &DelaySample| DelaySample {
            at: Nanos(point.at.0 + shift),
            delivered: point.delivered + base.delivered,
            lost: point.lost + base.lost,
            ..*point
        };
        points.iter().map(moved).collect()
    };
    let end = 6 * SECOND;
    let rows: Vec<Vec<DelaySample>> = shared
        .iter()
        .zip(&apart)
        .map(|(before, after)| [before.clone(), later(after, end, *before.last().unwrap())].concat())
        .collect();
    assert_eq!(verdicts(&shared), [Verdict::Shared]);
    assert_eq!(verdicts(&rows), [Verdict::Disjoint]);
}

#[test]
fn without_a_queue_there_is_no_bottleneck() {
    let wide = Link { mbit: 1_000, queue_ms: 30, cross: 0 };
    let rows = with_rtts(run(&[wide, wide], &spread(2), 4, 5), |point| 10_000 + point.at.0 % 97);
    assert_eq!(verdicts(&rows), [Verdict::NoBottleneck]);
}

/// With these round-trip times instead of their own, in microseconds, and without losses.
fn with_rtts(mut rows: Vec<Vec<DelaySample>>, rtt_us: impl Fn(&DelaySample) -> u64) -> Vec<Vec<DelaySample>> {
    for point in rows.iter_mut().flatten() {
        point.rtt = mpwatch_model::unit::Micros(rtt_us(point));
        (point.lost, point.cut) = (0, false);
    }
    rows
}

#[test]
fn a_wait_that_a_fast_link_may_explain_is_no_proof_of_free_ways() {
    let wide = Link { mbit: 1_000, queue_ms: 30, cross: 0 };
    let rows = |waiting_us: u64| {
        let begun = 2 * SECOND;
        let rtt =
            |point: &DelaySample| 200 + if point.at.0 > begun { waiting_us } else { 0 } + point.at.0 % 17;
        with_rtts(run(&[wide, wide], &spread(2), 4, 5), rtt)
    };
    assert_eq!(verdicts(&rows(50)), [Verdict::NoBottleneck]);
    assert_eq!(verdicts(&rows(600)), [Verdict::Unknown]);
}

#[test]
fn who_divides_a_rate_may_have_a_bottleneck_although_nobody_waits() {
    let rows = with_rtts(run(&[QUIET], &on(0, 2), 5, 1), |point| 10_000 + point.at.0 % 97);
    assert_eq!(verdicts(&rows), [Verdict::Unknown]);
}
