// SPDX-License-Identifier: MIT OR Apache-2.0
//! Windows of a zone as samples of power against load, bounded by number and age.

use std::collections::VecDeque;

use mpwatch_model::unit::Nanos;

/// A window: its end, the busy fraction of its CPU time, and its mean power in microwatts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample {
    pub(super) at: Nanos,
    pub(super) busy: f64,
    pub(super) power: f64,
}

/// Which samples are kept.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Maximum number of samples.
    pub(super) count: usize,
    /// Maximum age relative to the latest sample.
    pub(super) age: Nanos,
}

/// Samples in order of time.
#[derive(Clone, Debug, Default)]
pub(super) struct Samples(VecDeque<Sample>);

impl Samples {
    /// Adds the latest sample and drops samples beyond the limits.
    pub(super) fn add(&mut self, sample: Sample, limits: Limits) {
        self.0.push_back(sample);
        let is_old = |old: &Sample| sample.at.since(old.at) > limits.age;
        while self.0.len() > limits.count || self.0.front().is_some_and(is_old) {
            self.0.pop_front();
        }
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Sample> {
        self.0.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn number_and_age_are_bounded() {
        let limits = Limits { count: 3, age: Nanos(10) };
        let mut samples = Samples::default();
        let kept = |samples: &Samples| samples.iter().map(|sample| sample.at.0).collect::<Vec<_>>();
        (1..=5).for_each(|at| samples.add(Sample { at: Nanos(at), busy: 0.0, power: 1.0 }, limits));
        assert_eq!(kept(&samples), [3, 4, 5]);
        samples.add(Sample { at: Nanos(14), busy: 0.0, power: 1.0 }, limits);
        assert_eq!(kept(&samples), [4, 5, 14]);
        samples.add(Sample { at: Nanos(15), busy: 0.0, power: 1.0 }, limits);
        assert_eq!((kept(&samples), samples.len()), (vec![5, 14, 15], 3));
        samples.add(Sample { at: Nanos(25), busy: 0.0, power: 1.0 }, limits);
        assert_eq!(kept(&samples), [15, 25]);
    }
}
