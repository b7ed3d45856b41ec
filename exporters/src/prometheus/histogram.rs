// SPDX-License-Identifier: MIT OR Apache-2.0
//! A histogram with fixed buckets.

use super::values::{Increase, Sums};

/// Counts of observations by value, and their sum.
#[derive(Clone, Debug)]
pub(super) struct Histogram {
    /// Upper bounds of the buckets, ascending.
    bounds: &'static [f64],
    /// Observations in each bucket; the last count is of observations above all bounds.
    counts: Vec<u64>,
    pub(super) sum: f64,
}

impl Histogram {
    pub(super) fn new(bounds: &'static [f64]) -> Self {
        Self { bounds, counts: vec![0; bounds.len() + 1], sum: 0.0 }
    }

    /// The sums that one observation adds: a count for each bucket, then the value.
    pub(super) fn observation(bounds: &'static [f64], value: f64) -> Increase {
        let bucket = bounds.partition_point(|bound| *bound < value);
        let counts = (0..=bounds.len()).map(|nth| Some(f64::from(u8::from(nth == bucket))));
        Increase { values: counts.chain([Some(value)]).collect(), unchanged: false, observed: Vec::new() }
    }

    /// The histogram of such sums.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "counts are whole")]
    pub(super) fn of_sums(bounds: &'static [f64], sums: &Sums) -> Self {
        let number = |nth: usize| sums.get(nth).copied().flatten().unwrap_or(0.0);
        let counts = (0..=bounds.len()).map(|nth| number(nth) as u64).collect();
        Self { bounds, counts, sum: number(bounds.len() + 1) }
    }

    pub(super) fn observe(&mut self, value: f64) {
        self.counts[self.bounds.partition_point(|bound| *bound < value)] += 1;
        self.sum += value;
    }

    /// Each upper bound with the number of observations up to it.
    pub(super) fn cumulative(&self) -> impl Iterator<Item = (f64, u64)> {
        self.bounds.iter().zip(&self.counts).scan(0, |below, (bound, count)| {
            *below += count;
            Some((*bound, *below))
        })
    }

    pub(super) fn count(&self) -> u64 {
        self.counts.iter().sum()
    }
}
