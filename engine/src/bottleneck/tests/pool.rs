// SPDX-License-Identifier: MIT OR Apache-2.0
//! The rates of all connections, on simulated links.

use std::net::Ipv4Addr;

use mpwatch_model::flow::bottleneck::Verdict;
use mpwatch_model::id::{NetnsCookie, SocketCookie, SubflowId};
use mpwatch_model::kernel::sample::{DelaySample, SampleBatch};
use mpwatch_model::unit::{Micros, Nanos};

use crate::bottleneck::evaluation::PairEvaluation;
use crate::bottleneck::pool::{AddressPair, Pool};

const MSS: u32 = 1_448;
/// Time of a step of the simulation, and segments that a link delivers in it: 58 Mbit/s.
const STEP: u64 = 10_000_000;
const SEGMENTS: f64 = 50.0;

fn path(number: u8) -> AddressPair {
    let address = |third| Ipv4Addr::new(10, 0, third, number).into();
    AddressPair { netns: NetnsCookie(1), local: address(1), remote: address(2) }
}

fn id(connection: u64, path: u8) -> SubflowId {
    SubflowId { cookie: SocketCookie(connection * 100 + u64::from(path)), generation: 0 }
}

fn random(state: &mut u64) -> f64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    f64::from(u32::try_from(*state >> 33).unwrap()) / f64::from(1_u32 << 31)
}

/// Some connections, each with a subflow over every path. `links`: the link of each path. `queue_us`: highest queueing delay.
fn simulate(links: &[usize], connections: u64, seconds: u64, queue_us: u64) -> Pool {
    simulate_mixed(links, connections, seconds, queue_us, 0.0)
}

/// As [`simulate`]. `untraced`: highest share of a link that other traffic takes; it changes every 200 ms.
fn simulate_mixed(links: &[usize], connections: u64, seconds: u64, queue_us: u64, untraced: f64) -> Pool {
    simulate_late(links, connections, [0, seconds * 10], queue_us, untraced)
}

/// As [`simulate_mixed`], with times in tenths of a second. The last path is used only from `joins` on.
fn simulate_late(links: &[usize], connections: u64, times: [u64; 2], queue_us: u64, untraced: f64) -> Pool {
    simulate_queues((links, links), connections, times, queue_us, untraced)
}

/// As [`simulate_late`]. `queues`: the queue of each path, which differs from its link if the link has several queues.
fn simulate_queues(
    (links, queues): (&[usize], &[usize]),
    connections: u64,
    [joins, end]: [u64; 2],
    queue_us: u64,
    untraced: f64,
) -> Pool {
    let (mut pool, mut state, mut left) = (Pool::default(), 7, [SEGMENTS; 2]);
    let subflows: Vec<(u64, u8)> = (0..connections)
        .flat_map(|connection| (0..links.len()).map(move |path| (connection, u8::try_from(path).unwrap())))
        .collect();
    let (mut weights, mut delivered) = (vec![1.0; subflows.len()], vec![0.0; subflows.len()]);
    for batch_number in 0..end {
        let mut samples = vec![Vec::new(); subflows.len()];
        for step in 0..10 {
            let at = 1_000_000_000 + (batch_number * 10 + step) * STEP;
            if (batch_number * 10 + step) % 20 == 0 {
                left = left.map(|_| SEGMENTS * (1.0 - untraced * random(&mut state)));
            }
            for weight in &mut weights {
                *weight = (*weight + 0.4 * (random(&mut state) - 0.5)).clamp(0.2, 3.0);
            }
            for (index, (_, path)) in subflows.iter().enumerate() {
                let link = links[usize::from(*path)];
                let sum: f64 = subflows
                    .iter()
                    .zip(&weights)
                    .filter(|((_, other), _)| links[usize::from(*other)] == link)
                    .map(|(_, weight)| weight)
                    .sum();
                delivered[index] += left[link] * weights[index] / sum;
                let period = [50, 37][queues[usize::from(*path)]];
                let queue = queue_us / 2 + queue_us / 2 * ((batch_number * 10 + step) % period) / period;
                let rtt = if batch_number == 0 { 10_000 } else { 10_000 + queue };
                #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a small count")]
                let count = delivered[index] as u32;
                samples[index].push(DelaySample {
                    at: Nanos(at),
                    rtt: Micros(rtt),
                    delivered: count,
                    lost: 0,
                    cut: false,
                });
            }
        }
        for ((connection, number), samples) in subflows.iter().zip(samples) {
            let batch = SampleBatch { id: id(*connection, *number), samples };
            if batch_number < joins && usize::from(*number) + 1 == links.len() {
                continue;
            }
            pool.add(path(*number), *connection, MSS, &batch);
        }
    }
    pool
}

fn result(pool: &Pool, a: u8, b: u8) -> Option<PairEvaluation> {
    let unknown = PairEvaluation {
        a: id(0, a),
        b: id(0, b),
        verdict: Verdict::Unknown,
        probability: None,
        since: None,
        evidence: None,
    };
    pool.pair((path(a), path(b))).map(|pair| pair.evaluation(&unknown))
}

/// The windows of all pairs begin at the newest path, so they become short.
#[test]
fn a_path_that_joins_later_does_not_make_known_pairs_uncertain() {
    let links = [0, 1, 0, 1, 0];
    let before = result(&simulate_late(&links, 5, [200, 199], 20_000, 0.0), 0, 2).unwrap();
    let after = result(&simulate_late(&links, 5, [200, 214], 20_000, 0.0), 0, 2).unwrap();
    assert_eq!(
        (before.verdict, after.verdict, after.since),
        (Verdict::Shared, Verdict::Shared, before.since)
    );
    assert!(after.probability > Some(0.98), "{after:?}");
}

#[test]
fn paths_that_divide_a_rate_but_have_two_queues_share_a_cap() {
    let cap = |links: &[usize], queues: &[usize]| {
        let pool = simulate_queues((links, queues), 5, [0, 40], 20_000, 0.0);
        let found = result(&pool, 0, 1).unwrap();
        (found.verdict, pool.pair((path(0), path(1))).unwrap().cap().is_some())
    };
    assert_eq!(cap(&[0, 0], &[0, 1]), (Verdict::Disjoint, true));
    assert_eq!(cap(&[0, 0], &[0, 0]), (Verdict::Shared, false));
    assert_eq!(cap(&[0, 1], &[0, 1]), (Verdict::Disjoint, false));
}

#[test]
fn paths_on_one_link_divide_its_rate() {
    let links = [0, 1, 0, 1];
    let pool = simulate(&links, 5, 4, 20_000);
    for a in 0..4 {
        for b in a + 1..4 {
            let found = result(&pool, a, b).unwrap();
            let is_shared = links[usize::from(a)] == links[usize::from(b)];
            let expected = if is_shared { Verdict::Shared } else { Verdict::Disjoint };
            assert_eq!(found.verdict, expected, "{a} {b} {found:?}");
            assert_eq!(found.probability.unwrap() > 0.5, is_shared);
            let evidence = found.evidence.unwrap();
            assert_eq!((evidence.connections, evidence.pooled_paths), (Some(5), Some(4)));
            let rate = evidence.link_rate.map(|rate| rate.0 as f64 / 57.9e6);
            assert_eq!(rate.is_some_and(|ratio| (0.95..1.05).contains(&ratio)), is_shared, "{rate:?}");
        }
    }
    assert!(pool.is_shared((path(0), path(1))));
}

#[test]
fn delays_decide_if_untraced_traffic_uses_the_links() {
    let links = [0, 1, 0, 1];
    let pool = simulate_mixed(&links, 5, 4, 20_000, 0.6);
    for (a, b) in [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)] {
        let expected = if a % 2 == b % 2 { Verdict::Shared } else { Verdict::Disjoint };
        assert_eq!(result(&pool, a, b).unwrap().verdict, expected, "{a} {b}");
    }
}

#[test]
fn paths_without_a_queue_are_not_compared() {
    let pool = simulate(&[0, 1], 3, 4, 500);
    assert_eq!(result(&pool, 0, 1), None);
}

#[test]
fn the_paths_of_one_connection_are_not_shared() {
    let pool = simulate(&[0, 0], 1, 2, 20_000);
    assert!(!pool.is_shared((path(0), path(1))));
}

#[test]
fn verdicts_and_paths_are_forgotten_without_samples() {
    let mut pool = simulate(&[0, 0], 3, 4, 20_000);
    assert_eq!(result(&pool, 0, 1).unwrap().verdict, Verdict::Shared);
    pool.advance(Nanos(20_000_000_000));
    assert_eq!(result(&pool, 0, 1), None);
    assert!(!pool.is_shared((path(0), path(1))));
}

#[test]
fn paths_are_bounded_and_times_may_jump() {
    let mut pool = Pool::default();
    let sample =
        |at, delivered| DelaySample { at: Nanos(at), rtt: Micros(u64::MAX), delivered, lost: 0, cut: false };
    for number in 0..20_000_u64 {
        let [.., third, fourth] = u32::try_from(number).unwrap().to_be_bytes();
        let address = |first| Ipv4Addr::new(first, 0, third, fourth).into();
        let path = AddressPair { netns: NetnsCookie(1), local: address(10), remote: address(11) };
        let late = [u64::from(fourth) * 1_000_000_000, u64::MAX - 1][usize::from(number > 19_000)];
        let samples = vec![sample(1, 0), sample(late, u32::MAX), sample(0, 1), sample(u64::MAX, 9)];
        let samples = if number > 19_000 { samples } else { samples[..3].to_vec() };
        pool.add(path, number, MSS, &SampleBatch { id: id(number, 0), samples });
    }
    assert!(pool.paths() <= 1_024, "{}", pool.paths());
}
