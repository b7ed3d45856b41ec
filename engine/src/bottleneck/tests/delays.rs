// SPDX-License-Identifier: MIT OR Apache-2.0
//! The differences between the queueing delays of paths.

use crate::bottleneck::pool::delays::{Difference, differences};

/// Delays of a queue that fills and drains once in `period` steps, with noise that depends on the path.
fn delays(period: usize, noise: usize) -> Vec<Option<f64>> {
    let value = |step: usize| (step % period) as f64 * 1_000.0 + ((step * (noise + 3)) % 7) as f64 * 300.0;
    (0..40).map(|step| Some(value(step))).collect()
}

#[test]
fn paths_of_one_queue_differ_little_and_paths_of_two_queues_much() {
    let found = differences(&[delays(7, 1), delays(11, 2), delays(7, 3), delays(11, 4)]);
    let near = |pair: (usize, usize)| found[&pair];
    for pair in [(0, 2), (1, 3)] {
        assert!(near(pair).ratio < 0.2 && near(pair).pairs == 1, "{found:?}");
    }
    // The four pairs across the two queues have one ratio: the mean of all four.
    let across = [(0, 1), (0, 3), (1, 2), (2, 3)].map(near);
    assert!(across.iter().all(|difference| *difference == across[0]), "{found:?}");
    assert!(across[0].ratio > 0.7 && across[0].pairs == 4, "{found:?}");
}

#[test]
fn a_path_without_samples_is_not_compared() {
    let found = differences(&[delays(7, 1), vec![None; 40], delays(7, 1)]);
    assert!(matches!(found[&(0, 2)], Difference { ratio: 0.0..0.02, pairs: 1 }), "{found:?}");
    assert_eq!(found.len(), 1, "{found:?}");
}
