// SPDX-License-Identifier: MIT OR Apache-2.0
//! Fits a straight line to weighted knots, robustly (Huber), with confidence intervals.

use mpwatch_model::statistics::student_t;

/// A point and its weight.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Knot {
    pub(crate) x: f64,
    pub(crate) y: f64,
    pub(crate) weight: f64,
}

/// Residuals above this many standard deviations count less (Huber's constant, 95 % efficient under normal errors).
const HUBER: f64 = 1.345;
const ITERATIONS: usize = 20;

/// `y = intercept + slope * x`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Line {
    pub(crate) intercept: f64,
    pub(crate) slope: f64,
    /// Half the widths of the 95 % confidence intervals.
    intercept_error: f64,
    slope_error: f64,
}

/// Weighted sums of a least squares fit.
struct Sums {
    weight: f64,
    x: f64,
    y: f64,
    xx: f64,
    xy: f64,
}

impl Line {
    /// `None`: fewer than three knots, or all knots at one `x`.
    pub(crate) fn fit(knots: &[Knot]) -> Option<Self> {
        let freedom = knots.len().checked_sub(2).filter(|freedom| *freedom > 0)?;
        let mut weights: Vec<f64> = knots.iter().map(|knot| knot.weight).collect();
        let (mut line, mut sums) = least_squares(knots, &weights)?;
        for _ in 0..ITERATIONS {
            let mut residuals: Vec<f64> = knots.iter().map(|knot| line.residual(knot).abs()).collect();
            residuals.sort_unstable_by(f64::total_cmp);
            // The median absolute deviation as a standard deviation, at least 1e-6 of a value, so that rounding errors are not outliers.
            let spread = (residuals[residuals.len() / 2] * 1.4826).max(1e-6 * knots[0].y.abs());
            for (weight, knot) in weights.iter_mut().zip(knots) {
                let excess = line.residual(knot).abs() / (HUBER * spread).max(f64::MIN_POSITIVE);
                *weight = knot.weight / excess.max(1.0);
            }
            (line, sums) = least_squares(knots, &weights)?;
        }
        let squares: f64 =
            knots.iter().zip(&weights).map(|(knot, weight)| weight * line.residual(knot).powi(2)).sum();
        let variance = squares / freedom as f64;
        let t = student_t(freedom as f64);
        line.slope_error = t * (variance / sums.xx).sqrt();
        let center = sums.x / sums.weight;
        line.intercept_error = t * (variance * (1.0 / sums.weight + center.powi(2) / sums.xx)).sqrt();
        Some(line)
    }

    fn residual(&self, knot: &Knot) -> f64 {
        knot.y - (self.intercept + self.slope * knot.x)
    }

    /// Confidence interval of the intercept.
    pub(crate) fn at_zero(&self) -> (f64, f64) {
        (self.intercept - self.intercept_error, self.intercept + self.intercept_error)
    }

    /// Confidence interval of the slope.
    pub(crate) fn slopes(&self) -> (f64, f64) {
        (self.slope - self.slope_error, self.slope + self.slope_error)
    }

    /// Whether the intercepts differ by at most their combined error.
    pub(crate) fn agrees_with(&self, other: &Self) -> bool {
        (self.intercept - other.intercept).abs() <= self.intercept_error.hypot(other.intercept_error)
    }
}

/// The line of least squares, and its sums; `xx` and `xy` are sums of products of deviations from the means. `None`: all knots are at one `x`.
fn least_squares(knots: &[Knot], weights: &[f64]) -> Option<(Line, Sums)> {
    let mut sums = Sums { weight: 0.0, x: 0.0, y: 0.0, xx: 0.0, xy: 0.0 };
    for (knot, weight) in knots.iter().zip(weights) {
        sums.weight += weight;
        sums.x += weight * knot.x;
        sums.y += weight * knot.y;
    }
    let (x, y) = (sums.x / sums.weight, sums.y / sums.weight);
    for (knot, weight) in knots.iter().zip(weights) {
        sums.xx += weight * (knot.x - x).powi(2);
        sums.xy += weight * (knot.x - x) * (knot.y - y);
    }
    let slope = sums.xy / sums.xx;
    let line = Line { intercept: y - slope * x, slope, intercept_error: 0.0, slope_error: 0.0 };
    slope.is_finite().then_some((line, sums))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn knots(pairs: &[(f64, f64)]) -> Vec<Knot> {
        pairs.iter().map(|(x, y)| Knot { x: *x, y: *y, weight: 1.0 }).collect()
    }

    #[test]
    fn a_straight_line_is_found_exactly() {
        let line = Line::fit(&knots(&[(0.1, 23.0), (0.3, 29.0), (0.5, 35.0), (0.9, 47.0)])).unwrap();
        assert!((line.intercept - 20.0).abs() < 1e-9 && (line.slope - 30.0).abs() < 1e-9, "{line:?}");
        let (lo, hi) = line.at_zero();
        assert!(lo <= 20.0 + 1e-9 && hi >= 20.0 - 1e-9 && hi - lo < 1e-6);
    }

    #[test]
    fn one_outlier_moves_the_line_little() {
        let mut pairs: Vec<(f64, f64)> =
            (1..=10).map(|n| f64::from(n) / 10.0).map(|x| (x, 20.0 + 30.0 * x)).collect();
        pairs[6].1 += 10.0;
        let line = Line::fit(&knots(&pairs)).unwrap();
        assert!((line.intercept - 20.0).abs() < 0.2, "{line:?}");
        let (lo, hi) = line.at_zero();
        assert!(lo < 20.0 && 20.0 < hi);
    }

    #[test]
    fn without_range_there_is_no_line() {
        assert_eq!(Line::fit(&knots(&[(0.5, 1.0), (0.5, 2.0), (0.5, 3.0)])), None);
        assert_eq!(Line::fit(&knots(&[(0.1, 1.0), (0.5, 2.0)])), None);
    }
}
