// SPDX-License-Identifier: MIT OR Apache-2.0
//! Idle power without a calibration: the 5th percentile of the power of windows below 3 % busy, extrapolated to no load.

use mpwatch_model::statistics::variance;
use mpwatch_model::unit::Nanos;

use super::samples::{Limits, Sample, Samples};

/// Busy fraction below which a window is quiet.
const QUIET: f64 = 0.03;
/// Minimum number of quiet windows for an estimate.
const MIN_WINDOWS: usize = 10;
/// Maximum number and age of the windows that are kept.
const KEPT: Limits = Limits { count: 600, age: Nanos(600 * 1_000_000_000) };

/// Idle power of one zone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Baseline {
    samples: Samples,
    found: Option<IdlePower>,
    /// Number of quiet windows since the last estimate.
    new_windows: usize,
    /// A buffer that every estimate reuses.
    scratch: Vec<f64>,
}

/// Idle power and its bounds, microwatts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct IdlePower {
    pub(crate) power: u64,
    pub(crate) lo: u64,
    pub(crate) hi: u64,
}

impl IdlePower {
    /// Rounds the power and its bounds to microwatts; negative values become 0.
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "watts of a machine, never negative"
    )]
    pub(crate) fn new(power: f64, lo: f64, hi: f64) -> Self {
        let [power, lo, hi] = [power, lo, hi].map(|value| value.max(0.0).round() as u64);
        Self { power, lo: lo.min(power), hi: hi.max(power) }
    }

    /// Idle power with bounds of one standard deviation, in microwatts.
    pub(crate) fn spread(power: u64, sigma: u64) -> Self {
        Self { power, lo: power.saturating_sub(sigma), hi: power.saturating_add(sigma) }
    }
}

impl Baseline {
    /// The latest estimate. It is kept if no more quiet windows follow. `None`: there were too few quiet windows.
    pub(crate) fn idle_power(&self) -> Option<IdlePower> {
        self.found
    }

    /// Adds a window that ended at `at`. `busy`: the busy fraction of its CPU time; `power`: its mean power in microwatts.
    pub(crate) fn observe(&mut self, at: Nanos, busy: f64, power: f64) {
        if busy.is_nan() || busy >= QUIET {
            return;
        }
        self.samples.add(Sample { at, busy, power }, KEPT);
        self.new_windows += 1;
        if self.samples.len() >= MIN_WINDOWS && (self.found.is_none() || self.new_windows >= MIN_WINDOWS) {
            self.new_windows = 0;
            self.found = Some(self.estimate());
        }
    }

    fn estimate(&mut self) -> IdlePower {
        let slope = self.slope();
        let idle = |sample: &Sample| (sample.power - slope * sample.busy).max(0.0);
        self.scratch.clear();
        self.scratch.extend(self.samples.iter().map(idle));
        self.scratch.sort_unstable_by(f64::total_cmp);
        let low = self.scratch[self.scratch.len() / 20];
        let sigma = variance(&self.scratch).unwrap_or(0.0).sqrt();
        IdlePower::new(low, low - sigma, low + sigma)
    }

    /// Slope of power against load, in microwatts for all CPUs. Zero if the loads are too similar.
    fn slope(&self) -> f64 {
        let count = self.samples.len() as f64;
        let mean = |value: fn(&Sample) -> f64| self.samples.iter().map(value).sum::<f64>() / count;
        let (busy, power) = (mean(|sample| sample.busy), mean(|sample| sample.power));
        let (mut covariance, mut variance) = (0.0, 0.0);
        for sample in self.samples.iter() {
            covariance += (sample.busy - busy) * (sample.power - power);
            variance += (sample.busy - busy).powi(2);
        }
        // Loads with a standard deviation below 0.25 % give no slope.
        if variance / count < 0.0025_f64.powi(2) { 0.0 } else { (covariance / variance).max(0.0) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn second(nth: u64) -> Nanos {
        Nanos(nth * 1_000_000_000)
    }

    #[test]
    fn quiet_windows_are_extrapolated_to_no_load() {
        let mut baseline = Baseline::default();
        for nth in 0..60 {
            let busy = 0.001 + 0.0004 * nth as f64;
            baseline.observe(second(nth), busy, 20e6 + 30e6 * busy);
        }
        let idle = baseline.idle_power().unwrap();
        assert!(idle.power.abs_diff(20_000_000) < 1_000, "{idle:?}");
    }

    #[test]
    fn a_busy_window_never_raises_the_idle_power() {
        let mut baseline = Baseline::default();
        (0..20).for_each(|nth| baseline.observe(second(nth), 0.01, 20e6));
        let before = baseline.idle_power();
        (20..5_000).for_each(|nth| baseline.observe(second(nth), 0.9, 60e6));
        assert_eq!(baseline.idle_power(), before);
        assert!(before.is_some());
    }

    #[test]
    fn a_few_windows_are_not_enough() {
        let mut baseline = Baseline::default();
        (0..9).for_each(|nth| baseline.observe(second(nth), 0.01, 20e6));
        assert_eq!(baseline.idle_power(), None);
    }

    #[test]
    fn newer_windows_replace_old_ones() {
        let mut baseline = Baseline::default();
        (0..20).for_each(|nth| baseline.observe(second(nth), 0.0, 10e6));
        (2_000..2_020).for_each(|nth| baseline.observe(second(nth), 0.0, 20e6));
        assert_eq!(baseline.idle_power().unwrap().power, 20_000_000);
    }
}
