// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rate caps without a common queue, on synthetic samples: caps that must be found, and similar cases that are not caps.

use std::f64::consts::TAU;

use mpwatch_fixtures::delay_samples::{SECOND, batches, id};
use mpwatch_fixtures::simulator::{BUSY, Link, QUIET, Sender, on, run};
use mpwatch_model::kernel::sample::DelaySample;
use mpwatch_model::unit::{Micros, Nanos};

use crate::bottleneck::{Cap, Detector};

/// Segments per second, as a function of the time in seconds.
type Rate<'a> = &'a dyn Fn(f64) -> f64;

/// The rate cap, in segments per second.
const CAP: f64 = 4_000.0;

/// A path; `queue` is its queueing delay in microseconds.
struct Path<'a> {
    rate: Rate<'a>,
    queue: Rate<'a>,
    losses_per_second: u32,
}

fn samples_of(path: &Path, seconds: u32) -> Vec<DelaySample> {
    const STEP_MS: u32 = 2;
    let (mut delivered, mut samples) = (0.0, Vec::new());
    for ms in (0..seconds * 1_000).step_by(STEP_MS as usize) {
        let at = f64::from(ms) / 1e3;
        delivered += (path.rate)(at) * f64::from(STEP_MS) / 1e3;
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small and above 0")]
        samples.push(DelaySample {
            at: Nanos(SECOND + u64::from(ms) * 1_000_000),
            rtt: Micros(10_000 + (path.queue)(at) as u64),
            delivered: delivered as u32,
            lost: ms * path.losses_per_second / 1_000,
            cut: false,
        });
    }
    samples
}

/// Rises and falls like a congestion window, differently for each seed.
fn wave(seed: u32, at: f64) -> f64 {
    let phase = f64::from(seed) * 1.7;
    let faster = 1.0 + f64::from(seed % 7) * 0.23;
    0.6 * (TAU * 0.7 * faster * at + phase).sin() + 0.4 * (TAU * 2.9 * faster * at + 2.0 * phase).sin()
}

fn queue(seed: u32) -> impl Fn(f64) -> f64 {
    move |at| 6_000.0 + 4_000.0 * wave(seed, at)
}

/// The largest number of caps found in one evaluation, and the caps found in the last evaluation.
fn caps(rows: &[Vec<DelaySample>]) -> (usize, Vec<Cap>) {
    let mut detector = Detector::default();
    let mut max = 0;
    for batch in batches(rows) {
        detector.add_and_evaluate(&batch, &mut |evaluation| max = max.max(evaluation.caps.len()));
    }
    detector.finish(&mut |evaluation| max = max.max(evaluation.caps.len()));
    (max, detector.caps().to_vec())
}

fn half(waves: f64) -> f64 {
    CAP / 2.0 * (1.0 + 0.2 * waves)
}

#[test]
fn rates_that_divide_a_constant_behind_separate_queues_share_a_cap() {
    let (queues, rates) = ([queue(3), queue(4)], [1.0, -1.0].map(|sign| move |at| half(sign * wave(1, at))));
    let path = |n: usize| Path { rate: &rates[n], queue: &queues[n], losses_per_second: 2 };
    let (_, found) = caps(&[samples_of(&path(0), 6), samples_of(&path(1), 6)]);
    let [cap] = &found[..] else { panic!("{found:?}") };
    assert_eq!(cap.rates.iter().map(|(id, _)| *id).collect::<Vec<_>>(), [id(1), id(2)]);
    let sum: f64 = cap.rates.iter().map(|(_, rate)| rate).sum();
    assert!((sum / CAP - 1.0).abs() < 0.03 && cap.sum_variation < 0.1, "{cap:?}");
    assert!(cap.since.0 < 6 * SECOND, "{cap:?}");
}

#[test]
fn a_cap_of_a_policer_without_any_queue_is_found() {
    let none = |_| 50.0;
    let rates = [1.0, -1.0].map(|sign| move |at| half(sign * wave(2, at)));
    let path = |n: usize| Path { rate: &rates[n], queue: &none, losses_per_second: 4 };
    assert_eq!(caps(&[samples_of(&path(0), 6), samples_of(&path(1), 6)]).1.len(), 1);
}

#[test]
fn three_subflows_can_share_one_cap() {
    let queues = [queue(3), queue(4), queue(5)];
    let third = |n: u32, at: f64| (wave(n, at) - wave((n + 1) % 3, at)) * 0.15;
    let rates = [0, 1, 2].map(|n| move |at| CAP / 3.0 * (1.0 + third(n, at)));
    let rows =
        [0, 1, 2].map(|n| samples_of(&Path { rate: &rates[n], queue: &queues[n], losses_per_second: 2 }, 8));
    let (_, found) = caps(&rows);
    assert_eq!(found.iter().map(|cap| cap.rates.len()).collect::<Vec<_>>(), [3], "{found:?}");
}

/// The sum of the rates is as constant as under a cap, but at most one path is congested.
#[test]
fn an_application_that_sends_at_a_constant_rate_is_not_a_cap() {
    let rates = [1.0, -1.0].map(|sign| move |at| half(sign * wave(1, at)));
    let (none, full) = (|at| 100.0 + 50.0 * wave(6, at), queue(3));
    let idle = |n: usize| Path { rate: &rates[n], queue: &none, losses_per_second: 0 };
    assert_eq!(caps(&[samples_of(&idle(0), 6), samples_of(&idle(1), 6)]).0, 0, "neither is congested");
    let one = Path { rate: &rates[0], queue: &full, losses_per_second: 2 };
    assert_eq!(caps(&[samples_of(&one, 6), samples_of(&idle(1), 6)]).0, 0, "one of two is congested");
}

#[test]
fn independent_rates_are_not_a_cap() {
    let (queues, rates) = ([queue(3), queue(4)], [1, 5].map(|seed| move |at| half(wave(seed, at))));
    let path = |n: usize| Path { rate: &rates[n], queue: &queues[n], losses_per_second: 2 };
    assert_eq!(caps(&[samples_of(&path(0), 8), samples_of(&path(1), 8)]).0, 0);
}

#[test]
fn one_queue_is_a_shared_bottleneck_and_not_a_cap() {
    let wide = |link: Link| Link { mbit: 100, ..link };
    for link in [QUIET, BUSY, wide(QUIET), wide(BUSY)] {
        for count in [2, 3] {
            assert_eq!(caps(&run(&[link], &on(0, count), 6, 9)).0, 0, "{count} on {} Mbit/s", link.mbit);
        }
    }
}

#[test]
fn separate_links_are_not_a_cap() {
    let senders = [0, 1].map(|link| Sender { link, rtt_ms: 10, start_ms: 0 });
    for link in [QUIET, BUSY] {
        for seed in 1..4 {
            assert_eq!(caps(&run(&[link, link], &senders, 8, seed)).0, 0, "seed {seed}");
        }
    }
}

#[test]
fn a_cap_that_is_lifted_is_withdrawn() {
    let queues = [queue(3), queue(4)];
    let rates = [(1.0, 2), (-1.0, 5)].map(|(sign, own)| {
        move |at: f64| if at < 6.0 { half(sign * wave(1, at)) } else { half(2.0 * wave(own, at)) }
    });
    let rows =
        [0, 1].map(|n| samples_of(&Path { rate: &rates[n], queue: &queues[n], losses_per_second: 2 }, 20));
    let (max, found) = caps(&rows);
    assert_eq!((max, found.len()), (1, 0), "{found:?}");
}
