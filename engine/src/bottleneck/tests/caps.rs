// SPDX-License-Identifier: MIT OR Apache-2.0
//! Caps that are shared without a queue, on samples made for it: what must be found, and what looks like it and is none.

use std::f64::consts::TAU;

use mpwatch_model::unit::Micros;

use super::simulator::{BUSY, Link, QUIET, Sender, on, run};
use super::*;
use crate::bottleneck::Cap;

/// Segments a second, at a time in seconds.
type Rate<'a> = &'a dyn Fn(f64) -> f64;

/// 1 Gbit/s in small: what the cap is in segments a second.
const CAP: f64 = 4_000.0;

/// A path: what it carries, its queue in microseconds, and how often something is lost on it.
struct Path<'a> {
    rate: Rate<'a>,
    queue: Rate<'a>,
    losses_a_second: u32,
}

fn samples(path: &Path, seconds: u32) -> Vec<DelaySample> {
    const STEP_MS: u32 = 2;
    let (mut delivered, mut points) = (0.0, Vec::new());
    for ms in (0..seconds * 1_000).step_by(STEP_MS as usize) {
        let at = f64::from(ms) / 1e3;
        delivered += (path.rate)(at) * f64::from(STEP_MS) / 1e3;
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small and above 0")]
        points.push(DelaySample {
            at: Nanos(SECOND + u64::from(ms) * 1_000_000),
            rtt: Micros(10_000 + (path.queue)(at) as u64),
            delivered: delivered as u32,
            lost: ms * path.losses_a_second / 1_000,
            cut: false,
        });
    }
    points
}

/// Up and down, as congestion windows go; `seed` gives each its own.
fn swing(seed: u32, at: f64) -> f64 {
    let phase = f64::from(seed) * 1.7;
    let faster = 1.0 + f64::from(seed % 7) * 0.23;
    0.6 * (TAU * 0.7 * faster * at + phase).sin() + 0.4 * (TAU * 2.9 * faster * at + 2.0 * phase).sin()
}

fn queue(seed: u32) -> impl Fn(f64) -> f64 {
    move |at| 6_000.0 + 4_000.0 * swing(seed, at)
}

/// All that were ever found on the way, and those at the end.
fn caps(rows: &[Vec<DelaySample>]) -> (usize, Vec<Cap>) {
    let mut detector = Detector::by(DetectionMethod::default());
    let mut most = 0;
    for samples in batches(rows) {
        detector.take_and(&samples, &mut |look| most = most.max(look.caps.len()));
    }
    detector.finish_and(&mut |look| most = most.max(look.caps.len()));
    (most, detector.caps().to_vec())
}

fn part(swings: f64) -> f64 {
    CAP / 2.0 * (1.0 + 0.2 * swings)
}

#[test]
fn rates_that_divide_a_constant_from_queues_of_their_own_share_a_cap() {
    let (queues, rates) = ([queue(3), queue(4)], [1.0, -1.0].map(|sign| move |at| part(sign * swing(1, at))));
    let path = |n: usize| Path { rate: &rates[n], queue: &queues[n], losses_a_second: 2 };
    let (_, found) = caps(&[samples(&path(0), 6), samples(&path(1), 6)]);
    let [cap] = &found[..] else { panic!("{found:?}") };
    assert_eq!(cap.rates.iter().map(|(id, _)| *id).collect::<Vec<_>>(), [id(1), id(2)]);
    let sum: f64 = cap.rates.iter().map(|(_, rate)| rate).sum();
    assert!((sum / CAP - 1.0).abs() < 0.03 && cap.sum_variation < 0.1, "{cap:?}");
    assert!(cap.since.0 < 6 * SECOND, "{cap:?}");
}

#[test]
fn a_policer_has_no_queue_at_all() {
    let none = |_| 50.0;
    let rates = [1.0, -1.0].map(|sign| move |at| part(sign * swing(2, at)));
    let path = |n: usize| Path { rate: &rates[n], queue: &none, losses_a_second: 4 };
    assert_eq!(caps(&[samples(&path(0), 6), samples(&path(1), 6)]).1.len(), 1);
}

#[test]
fn three_may_divide_one() {
    let queues = [queue(3), queue(4), queue(5)];
    let third = |n: u32, at: f64| (swing(n, at) - swing((n + 1) % 3, at)) * 0.15;
    let rates = [0, 1, 2].map(|n| move |at| CAP / 3.0 * (1.0 + third(n, at)));
    let rows =
        [0, 1, 2].map(|n| samples(&Path { rate: &rates[n], queue: &queues[n], losses_a_second: 2 }, 8));
    let (_, found) = caps(&rows);
    assert_eq!(found.iter().map(|cap| cap.rates.len()).collect::<Vec<_>>(), [3], "{found:?}");
}

/// An application that sends at a constant rate over two paths: the sum is as constant as any cap.
#[test]
fn an_application_is_no_cap() {
    let rates = [1.0, -1.0].map(|sign| move |at| part(sign * swing(1, at)));
    let (none, full) = (|at| 100.0 + 50.0 * swing(6, at), queue(3));
    let idle = |n: usize| Path { rate: &rates[n], queue: &none, losses_a_second: 0 };
    assert_eq!(caps(&[samples(&idle(0), 6), samples(&idle(1), 6)]).0, 0, "neither is congested");
    let one = Path { rate: &rates[0], queue: &full, losses_a_second: 2 };
    assert_eq!(caps(&[samples(&one, 6), samples(&idle(1), 6)]).0, 0, "one of two is congested");
}

#[test]
fn rates_of_their_own_are_no_cap() {
    let (queues, rates) = ([queue(3), queue(4)], [1, 5].map(|seed| move |at| part(swing(seed, at))));
    let path = |n: usize| Path { rate: &rates[n], queue: &queues[n], losses_a_second: 2 };
    assert_eq!(caps(&[samples(&path(0), 8), samples(&path(1), 8)]).0, 0);
}

#[test]
fn one_queue_is_a_shared_bottleneck_and_no_cap() {
    let wide = |link: Link| Link { mbit: 100, ..link };
    for link in [QUIET, BUSY, wide(QUIET), wide(BUSY)] {
        for count in [2, 3] {
            assert_eq!(caps(&run(&[link], &on(0, count), 6, 9)).0, 0, "{count} on {} Mbit/s", link.mbit);
        }
    }
}

#[test]
fn links_of_their_own_are_no_cap() {
    let senders = [0, 1].map(|link| Sender { link, rtt_ms: 10, start_ms: 0 });
    for link in [QUIET, BUSY] {
        for seed in 1..4 {
            assert_eq!(caps(&run(&[link, link], &senders, 8, seed)).0, 0, "seed {seed}");
        }
    }
}

#[test]
fn a_cap_that_is_lifted_is_taken_back() {
    let queues = [queue(3), queue(4)];
    let rates = [(1.0, 2), (-1.0, 5)].map(|(sign, own)| {
        move |at: f64| if at < 6.0 { part(sign * swing(1, at)) } else { part(2.0 * swing(own, at)) }
    });
    let rows = [0, 1].map(|n| samples(&Path { rate: &rates[n], queue: &queues[n], losses_a_second: 2 }, 20));
    let (most, found) = caps(&rows);
    assert_eq!((most, found.len()), (1, 0), "{found:?}");
}
