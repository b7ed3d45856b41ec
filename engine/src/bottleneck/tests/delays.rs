// SPDX-License-Identifier: MIT OR Apache-2.0
//! The differences between the queueing delays of paths.

use crate::bottleneck::pool::delays::{Delays, differences};

/// The lowest RTT in each step, microseconds.
type Row = Vec<Option<f64>>;

/// Delays of a queue that fills and drains once in `period` steps, with noise that depends on the path and the half of its samples.
fn halves(period: usize, noise: usize) -> [Row; 2] {
    let value = |step: usize, noise: usize| {
        (step % period) as f64 * 1_000.0 + ((step * (noise + 3)) % 7) as f64 * 300.0
    };
    [noise, noise + 3].map(|noise| (0..40).map(|step| Some(value(step, noise))).collect())
}

/// Two links that fill and drain in step, as if all connections sent bursts at the same times. The second one is up to 9 ms slower.
fn in_step(link: usize, noise: usize) -> [Row; 2] {
    let queue = |step: usize| (step % 20).min(10) as f64 * 5_000.0 + (link * (step * 7 % 4)) as f64 * 3_000.0;
    let value = |step: usize, noise: usize| queue(step) + ((step * (noise + 3)) % 7) as f64 * 100.0;
    [noise, noise + 3].map(|noise| (0..40).map(|step| Some(value(step, noise))).collect())
}

fn delays(halves: impl Iterator<Item = [Row; 2]>, connections: usize) -> Vec<Delays> {
    halves.map(|halves| Delays::new(halves, connections)).collect()
}

#[test]
fn paths_of_one_queue_differ_little_and_paths_of_two_queues_much() {
    for connections in [1, 5] {
        let paths = [(7, 1), (11, 2), (7, 3), (11, 4)];
        let found =
            differences(&delays(paths.map(|(period, noise)| halves(period, noise)).into_iter(), connections));
        let near = |pair: (usize, usize)| found[&pair];
        for pair in [(0, 2), (1, 3)] {
            let difference = near(pair);
            assert!(difference.ratio < 0.2 && difference.pairs == 1, "{found:?}");
            assert!(difference.log_odds > 1.0, "{found:?}");
        }
        // The four pairs across the two queues have one result: the mean of all four.
        let across = [(0, 1), (0, 3), (1, 2), (2, 3)].map(near);
        assert!(across.iter().all(|difference| *difference == across[0]), "{found:?}");
        assert!(across[0].ratio > 0.7 && across[0].pairs == 4 && across[0].log_odds < -3.0, "{found:?}");
    }
}

/// The variance of the difference is a small part of the variance of the delays, but a multiple of the noise within a path.
#[test]
fn queues_that_fill_in_step_are_separate() {
    let paths = [(0, 1), (1, 2), (0, 3), (1, 4)];
    let found = differences(&delays(paths.map(|(link, noise)| in_step(link, noise)).into_iter(), 5));
    assert!(found.values().all(|difference| difference.ratio < 0.1), "{found:?}");
    assert!(found[&(0, 2)].log_odds > 2.0 && found[&(1, 3)].log_odds > 2.0, "{found:?}");
    assert!(found[&(0, 1)].log_odds < 0.0, "{found:?}");
}

#[test]
fn a_path_without_samples_is_not_compared() {
    let none = || [vec![None; 40], vec![None; 40]];
    let found = differences(&delays([halves(7, 1), none(), halves(7, 1)].into_iter(), 1));
    assert!(found[&(0, 2)].ratio < 0.02 && found[&(0, 2)].pairs == 1, "{found:?}");
    assert_eq!(found.len(), 1, "{found:?}");
}
