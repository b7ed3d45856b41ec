// SPDX-License-Identifier: MIT OR Apache-2.0
//! Verdicts on simulated networks with known bottlenecks.

use mpwatch_fixtures::delay_samples::{SECOND, id};
use mpwatch_fixtures::simulator::{BUSY, Link, QUIET, Sender, on, run};
use mpwatch_model::flow::bottleneck::Verdict;
use mpwatch_model::kernel::sample::DelaySample;
use mpwatch_model::unit::{Micros, Nanos};

use super::detection::{detect, verdicts};
use crate::bottleneck::groups;

/// This many senders, each on a link of its own.
fn spread(count: usize) -> Vec<Sender> {
    (0..count).map(|link| Sender { link, rtt_ms: 10, start_ms: 0 }).collect()
}

#[test]
fn subflows_on_one_link_share_it() {
    for (link, seed) in
        [(QUIET, 1), (BUSY, 2), (Link { mbit: 100, ..BUSY }, 3), (Link { mbit: 100, ..QUIET }, 4)]
    {
        let found = detect(&run(&[link], &on(0, 2), 5, seed));
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].verdict, Verdict::Shared, "seed {seed}: {found:?}");
        let after = found[0].since.unwrap().0 - SECOND;
        assert!(after < 4 * SECOND, "seed {seed}: after {after} ns");
    }
}

#[test]
fn equal_links_with_aligned_sawtooths_are_never_reported_as_shared() {
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
fn links_with_cross_traffic_are_disjoint() {
    for seed in 1..6 {
        let found = detect(&run(&[BUSY, BUSY], &spread(2), 6, seed));
        assert_eq!(found[0].verdict, Verdict::Disjoint, "seed {seed}: {found:?}");
    }
}

#[test]
fn two_and_two_of_four_are_grouped() {
    let senders: Vec<Sender> = on(0, 2).into_iter().chain(on(1, 2)).collect();
    let rows = run(&[BUSY, Link { mbit: 40, ..BUSY }], &senders, 6, 7);
    let ids = [id(1), id(2), id(3), id(4)];
    assert_eq!(groups(&ids, &detect(&rows)), [[id(1), id(2)], [id(3), id(4)]]);
}

#[test]
fn subflows_with_different_base_rtts_share_one_queue() {
    let near = Sender { link: 0, rtt_ms: 10, start_ms: 0 };
    let far = Sender { rtt_ms: 40, ..near };
    let found = detect(&run(&[BUSY], &[near, far], 6, 11));
    assert_eq!(found[0].verdict, Verdict::Shared, "{found:?}");
}

#[test]
fn a_change_of_routes_changes_the_verdict() {
    let shared = run(&[BUSY], &on(0, 2), 6, 3);
    let apart = run(&[BUSY, BUSY], &spread(2), 8, 4);
    let later = |row: &[DelaySample], shift: u64, base: DelaySample| -> Vec<DelaySample> {
        let moved = |sample: &DelaySample| DelaySample {
            at: Nanos(sample.at.0 + shift),
            delivered: sample.delivered + base.delivered,
            lost: sample.lost + base.lost,
            ..*sample
        };
        row.iter().map(moved).collect()
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
    let rows = with_rtts(run(&[wide, wide], &spread(2), 4, 5), |sample| 10_000 + sample.at.0 % 97);
    assert_eq!(verdicts(&rows), [Verdict::NoBottleneck]);
}

/// Replaces the RTTs, in microseconds, and removes losses.
fn with_rtts(mut rows: Vec<Vec<DelaySample>>, rtt_us: impl Fn(&DelaySample) -> u64) -> Vec<Vec<DelaySample>> {
    for sample in rows.iter_mut().flatten() {
        sample.rtt = Micros(rtt_us(sample));
        (sample.lost, sample.cut) = (0, false);
    }
    rows
}

#[test]
fn a_delay_that_a_saturated_fast_link_could_cause_stays_undecided() {
    let wide = Link { mbit: 1_000, queue_ms: 30, cross: 0 };
    let rows = |delay_us: u64| {
        let begin = 2 * SECOND;
        let rtt =
            |sample: &DelaySample| 200 + if sample.at.0 > begin { delay_us } else { 0 } + sample.at.0 % 17;
        with_rtts(run(&[wide, wide], &spread(2), 4, 5), rtt)
    };
    assert_eq!(verdicts(&rows(50)), [Verdict::NoBottleneck]);
    assert_eq!(verdicts(&rows(600)), [Verdict::Unknown]);
}

#[test]
fn competing_rates_without_a_queue_stay_undecided() {
    let rows = with_rtts(run(&[QUIET], &on(0, 2), 5, 1), |sample| 10_000 + sample.at.0 % 97);
    assert_eq!(verdicts(&rows), [Verdict::Unknown]);
}
