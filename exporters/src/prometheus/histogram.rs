// SPDX-License-Identifier: MIT OR Apache-2.0
//! A histogram with fixed buckets.

/// Counts of observations by value, and their sum.
#[derive(Clone, Debug)]
pub(super) struct Histogram {
    /// Upper bounds of the buckets, ascending.
    bounds: &'static [f64],
    /// Observations in each bucket; the last count is of those above all bounds.
    counts: Vec<u64>,
    pub(super) sum: f64,
}

impl Histogram {
    pub(super) fn new(bounds: &'static [f64]) -> Self {
        Self { bounds, counts: vec![0; bounds.len() + 1], sum: 0.0 }
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
