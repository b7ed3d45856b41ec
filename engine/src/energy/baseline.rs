// SPDX-License-Identifier: MIT OR Apache-2.0
//! Idle power as it shows in quiet moments, where nobody has calibrated: the lowest twentieth of the windows below 3 % busy,
//! led back to no load at all. A busy window can never raise it. Pure.

use std::collections::VecDeque;

use mpwatch_model::unit::Nanos;

/// A window is quiet below this busy part.
const QUIET: f64 = 0.03;
/// Windows that it takes.
const ENOUGH: usize = 10;
/// Most windows that are kept, and how long.
const KEPT: usize = 600;
const AGE: Nanos = Nanos(600 * 1_000_000_000);

#[derive(Clone, Copy, Debug)]
struct Sample {
    at: Nanos,
    busy: f64,
    power: f64,
}

/// Idle power of one zone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Baseline {
    samples: VecDeque<Sample>,
    found: Option<Rest>,
    /// Windows taken in since then.
    fresh: usize,
    scratch: Vec<f64>,
}

/// Power at rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rest {
    /// Microwatts.
    pub(crate) power: u64,
    /// Standard deviation, microwatts.
    pub(crate) sigma: u64,
}

impl Baseline {
    /// What is known so far. It stays when there are no quiet moments any more.
    pub(crate) fn rest(&self) -> Option<Rest> {
        self.found
    }

    /// Takes in a window that ended at `at`: its busy part and its mean power in microwatts.
    pub(crate) fn observe(&mut self, at: Nanos, busy: f64, power: f64) {
        if busy.is_nan() || busy >= QUIET {
            return;
        }
        self.samples.push_back(Sample { at, busy, power });
        while self.samples.len() > KEPT || self.samples.front().is_some_and(|old| at.since(old.at) > AGE) {
            self.samples.pop_front();
        }
        self.fresh += 1;
        if self.samples.len() >= ENOUGH && (self.found.is_none() || self.fresh >= ENOUGH) {
            self.fresh = 0;
            self.found = Some(self.estimate());
        }
    }

    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "watts of a machine, never negative"
    )]
    fn estimate(&mut self) -> Rest {
        let slope = self.slope();
        let at_rest = |sample: &Sample| (sample.power - slope * sample.busy).max(0.0);
        self.scratch.clear();
        self.scratch.extend(self.samples.iter().map(at_rest));
        self.scratch.sort_unstable_by(f64::total_cmp);
        let count = self.scratch.len() as f64;
        let mean = self.scratch.iter().sum::<f64>() / count;
        let variance = self.scratch.iter().map(|power| (power - mean).powi(2)).sum::<f64>() / count;
        let low = self.scratch[self.scratch.len() / 20];
        Rest { power: low.round() as u64, sigma: variance.sqrt().round() as u64 }
    }

    /// How power rises with load, microwatts for all CPUs; zero where the loads are too much alike to tell.
    fn slope(&self) -> f64 {
        let count = self.samples.len() as f64;
        let mean = |value: fn(&Sample) -> f64| self.samples.iter().map(value).sum::<f64>() / count;
        let (busy, power) = (mean(|sample| sample.busy), mean(|sample| sample.power));
        let (mut along, mut across) = (0.0, 0.0);
        for sample in &self.samples {
            along += (sample.busy - busy) * (sample.power - power);
            across += (sample.busy - busy).powi(2);
        }
        // Loads that spread by less than a quarter percent say nothing about a slope.
        if across / count < 0.0025_f64.powi(2) { 0.0 } else { (along / across).max(0.0) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn second(nth: u64) -> Nanos {
        Nanos(nth * 1_000_000_000)
    }

    #[test]
    fn quiet_windows_are_led_back_to_no_load() {
        let mut baseline = Baseline::default();
        for nth in 0..60 {
            let busy = 0.001 + 0.0004 * nth as f64;
            baseline.observe(second(nth), busy, 20e6 + 30e6 * busy);
        }
        let rest = baseline.rest().unwrap();
        assert!(rest.power.abs_diff(20_000_000) < 1_000, "{rest:?}");
    }

    #[test]
    fn a_busy_window_never_raises_it() {
        let mut baseline = Baseline::default();
        (0..20).for_each(|nth| baseline.observe(second(nth), 0.01, 20e6));
        let before = baseline.rest();
        (20..5_000).for_each(|nth| baseline.observe(second(nth), 0.9, 60e6));
        assert_eq!(baseline.rest(), before);
        assert!(before.is_some());
    }

    #[test]
    fn a_few_windows_are_not_enough() {
        let mut baseline = Baseline::default();
        (0..9).for_each(|nth| baseline.observe(second(nth), 0.01, 20e6));
        assert_eq!(baseline.rest(), None);
    }

    #[test]
    fn what_is_long_ago_is_forgotten_when_there_is_newer() {
        let mut baseline = Baseline::default();
        (0..20).for_each(|nth| baseline.observe(second(nth), 0.0, 10e6));
        (2_000..2_020).for_each(|nth| baseline.observe(second(nth), 0.0, 20e6));
        assert_eq!(baseline.rest().unwrap().power, 20_000_000);
    }
}
