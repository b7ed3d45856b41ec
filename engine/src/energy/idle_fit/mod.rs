// SPDX-License-Identifier: MIT OR Apache-2.0
//! Idle power of a machine that is never idle: a line through power against load over the windows of the last hour, extrapolated to no load.
//! Windows are binned by load and each bin is represented by its medians, so single windows with turbo or unusual work do not move the line.

use mpwatch_model::statistics::median;
use mpwatch_model::unit::Nanos;

use super::baseline::IdlePower;
use super::line::{Knot, Line};
use super::samples::{Limits, Sample, Samples};

/// Minimum length of a sample. Shorter windows are added up: a step of the energy counter is a large part of their energy.
const MIN_LENGTH: Nanos = Nanos(1_000_000_000);
/// Maximum number and age of the samples that are kept.
const KEPT: Limits = Limits { count: 3_600, age: Nanos(3_600 * 1_000_000_000) };
/// Minimum number of samples for a fit, and of new samples before the next fit.
const MIN_SAMPLES: usize = 30;
const REFIT_AFTER: usize = 10;
/// Number of bins between the lowest and the highest load, and the minimum number of samples in a bin that is used.
const BINS: usize = 12;
const MIN_IN_BIN: usize = 2;
/// Samples beyond this number do not increase the weight of a bin: the usual load of the machine must not outweigh all other loads.
const FULL_BIN: usize = 16;
/// Minimum number of bins with enough samples.
const MIN_BINS: usize = 4;
/// Minimum difference between the highest and the lowest load.
const MIN_RANGE: f64 = 0.03;
/// Maximum distance from the lowest load to no load, as a multiple of the range of loads.
const MAX_EXTRAPOLATION: f64 = 4.0;
/// Maximum uncertainty of the idle power: half the width of its confidence interval, relative to the median power.
const MAX_UNCERTAINTY: f64 = 0.1;

/// The fit of one zone.
#[derive(Clone, Debug, Default)]
pub(crate) struct IdleFit {
    samples: Samples,
    /// Sums over the latest windows, which together are shorter than `MIN_LENGTH`: of length, busy fraction times length, and power times length.
    length: Nanos,
    busy: f64,
    energy: f64,
    /// Number of samples since the latest fit.
    new_samples: usize,
    found: Option<FittedPower>,
}

/// Result of a fit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct FittedPower {
    /// Idle power and its confidence interval.
    pub(crate) idle: IdlePower,
    /// Power that full load adds, microwatts, and the bounds of its confidence interval.
    pub(crate) slope: f64,
    pub(crate) slope_lo: f64,
    pub(crate) slope_hi: f64,
    /// Lowest and highest load to which the line was fitted.
    pub(crate) lowest: f64,
    pub(crate) highest: f64,
    /// Whether the lower half of the loads gives the same line.
    pub(crate) is_straight: bool,
}

impl FittedPower {
    /// Minimum and maximum power in microwatts that a load of `part` adds within `whole`. It adds least if it started last: the rise of the
    /// line, or 0 where the line does not hold. It adds most if it started first: the power above idle at `part` or, if that is below the
    /// lowest load of the line, at the lowest load, because power never falls as load rises.
    pub(crate) fn marginal(&self, part: f64, whole: f64, idle_lo: u64) -> (f64, f64) {
        let holds = self.is_straight && whole - part >= self.lowest && whole <= self.highest;
        let least = if holds { self.slope_lo.max(0.0) * part } else { 0.0 };
        let first = part.max(self.lowest);
        let most = self.idle.hi as f64 + self.slope_hi * first - idle_lo as f64;
        (least, if first <= self.highest { most.max(0.0) } else { f64::INFINITY })
    }
}

impl IdleFit {
    /// The latest fit. It is kept while the load does not vary. `None`: the load has not varied enough yet.
    pub(crate) fn fitted(&self) -> Option<&FittedPower> {
        self.found.as_ref()
    }

    /// Adds a window of this length that ended at `at`. `busy`: the busy fraction of its CPU time; `power`: its mean power in microwatts.
    pub(crate) fn observe(&mut self, at: Nanos, length: Nanos, busy: f64, power: f64) {
        if !(0.0..=1.1).contains(&busy) || !power.is_finite() {
            return;
        }
        self.length += length;
        self.busy += busy * length.0 as f64;
        self.energy += power * length.0 as f64;
        if self.length < MIN_LENGTH {
            return;
        }
        let length = self.length.0 as f64;
        let sample = Sample { at, busy: self.busy / length, power: self.energy / length };
        self.samples.add(sample, KEPT);
        (self.length, self.busy, self.energy) = (Nanos(0), 0.0, 0.0);
        self.new_samples += 1;
        if self.new_samples >= REFIT_AFTER && self.samples.len() >= MIN_SAMPLES {
            self.new_samples = 0;
            self.found = self.fit().or(self.found);
        }
    }

    fn fit(&self) -> Option<FittedPower> {
        let mut samples: Vec<Sample> = self.samples.iter().copied().collect();
        samples.sort_unstable_by(|a, b| a.busy.total_cmp(&b.busy));
        let knots = knots(&samples)?;
        let line = Line::fit(&knots)?;
        // Power is often concave. The line through the lower half of the loads shows how much the curvature moves the intercept.
        let middle = f64::midpoint(knots[0].x, knots[knots.len() - 1].x);
        let half = knots.partition_point(|knot| knot.x <= middle).max(MIN_BINS);
        let lower = Line::fit(&knots[..half]).unwrap_or(line);
        let is_straight = line.agrees_with(&lower);
        let best = if is_straight { line } else { lower };
        let (mut lo, mut hi) = best.at_zero();
        if !is_straight {
            // If power follows a parabola, the true intercept differs from the intercept of `line` in the same direction as the intercept
            // of `lower`, by at most twice as much.
            let beyond = 2.0 * lower.intercept - line.intercept;
            lo = lo.min(beyond).min(line.intercept);
            hi = hi.max(beyond).max(line.intercept);
        }
        let typical = knots[knots.len() / 2].y;
        let is_useful = (hi - lo) / 2.0 <= MAX_UNCERTAINTY * typical;
        let is_physical = best.slope > 0.0 && best.intercept >= 0.0;
        let idle = IdlePower::new(best.intercept, lo, hi);
        let (slope_lo, slope_hi) = best.slopes();
        let (lowest, highest) = (knots[0].x, knots[knots.len() - 1].x);
        let found = FittedPower { idle, slope: best.slope, slope_lo, slope_hi, lowest, highest, is_straight };
        (is_useful && is_physical).then_some(found)
    }
}

/// Medians of load and power in bins of equal width, ascending by load. `None`: the loads are too similar, or all loads are too high.
fn knots(samples: &[Sample]) -> Option<Vec<Knot>> {
    // At each end, one sample in fifty is left out as a possible outlier.
    let rare = samples.len() / 50;
    let samples = &samples[rare..samples.len() - rare];
    let (lowest, highest) = (samples.first()?.busy, samples.last()?.busy);
    let range = highest - lowest;
    if range < MIN_RANGE || lowest > MAX_EXTRAPOLATION * range {
        return None;
    }
    let width = range / BINS as f64;
    let bin = |sample: &Sample| ((sample.busy - lowest) / width).floor().min((BINS - 1) as f64);
    let mut knots = Vec::with_capacity(BINS);
    for same in samples.chunk_by(|a, b| bin(a) >= bin(b)).filter(|same| same.len() >= MIN_IN_BIN) {
        let median_of = |value: fn(&Sample) -> f64| median(&same.iter().map(value).collect::<Vec<f64>>());
        let (x, y) = (median_of(|sample| sample.busy)?, median_of(|sample| sample.power)?);
        knots.push(Knot { x, y, weight: same.len().min(FULL_BIN) as f64 });
    }
    (knots.len() >= MIN_BINS).then_some(knots)
}

#[cfg(test)]
mod tests;
