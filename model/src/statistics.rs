// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares two samples without assuming a distribution: computes the Hodges-Lehmann estimate of the shift between them, with the
//! confidence interval of the Mann-Whitney test, exactly and in O(n log n). For a few repetitions of one experiment, [`mean_interval`],
//! [`change`] and [`relative_change`] assume that values (or their logarithms) are normally distributed.

use serde::Serialize;

/// Minimum number of values in each sample. With fewer values, a 95 % interval does not exist, or covers nearly all values.
const MIN_VALUES: usize = 4;
/// Quantile of the normal distribution for an interval of 95 %.
const Z_95: f64 = 1.96;

/// The amount by which one sample exceeds another, with an interval that contains the true amount with a probability of 95 %.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Shift {
    /// The median of all differences between a value of the second sample and a value of the first.
    pub estimate: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
}

impl Shift {
    /// Whether the interval excludes 0, so that the samples differ.
    pub fn is_shown(&self) -> bool {
        self.low > 0.0 || self.high < 0.0
    }

    /// Applies an increasing function to the estimate and to both ends.
    #[must_use]
    pub fn map(self, grow: impl Fn(f64) -> f64) -> Self {
        Self { estimate: grow(self.estimate), low: grow(self.low), high: grow(self.high) }
    }
}

/// The mean. `None`: there are no values.
pub fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// Population variance. `None`: there are no values.
pub fn variance(values: &[f64]) -> Option<f64> {
    let mean = mean(values)?;
    Some(values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / values.len() as f64)
}

/// The median. `None`: there are no values.
pub fn median(values: &[f64]) -> Option<f64> {
    let sorted = sorted(values);
    let upper = *sorted.get(sorted.len() / 2)?;
    let lower = *sorted.get((sorted.len() - 1) / 2)?;
    Some(f64::midpoint(lower, upper))
}

/// The smallest of the sorted values that is at least as large as a fraction `q` of the values. `None`: there are no values.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "between zero and the number of values"
)]
pub fn quantile(sorted: &[f64], q: f64) -> Option<f64> {
    let rank = (sorted.len() as f64 * q).ceil() as usize;
    sorted.get(rank.max(1) - 1).copied()
}

/// The amount by which the values of `b` exceed the values of `a`. `None`: one of the samples has fewer than 4 values.
///
/// The number of differences outside of the interval is computed by the normal approximation of the Mann-Whitney statistic, which is
/// conservative for small and for tied samples. Values must be finite.
pub fn shift(a: &[f64], b: &[f64]) -> Option<Shift> {
    if a.len().min(b.len()) < MIN_VALUES {
        return None;
    }
    let (a, b) = (sorted(a), sorted(b));
    let all = a.len() as u64 * b.len() as u64;
    let deviation = (all as f64 * (a.len() + b.len() + 1) as f64 / 12.0).sqrt();
    let outside = (all as f64 / 2.0 - Z_95 * deviation).max(1.0);
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 1 and half of `all`")]
    let outside = outside as u64;
    let nth = |rank: u64| nth_difference(&a, &b, rank);
    Some(Shift {
        estimate: f64::midpoint(nth(all.div_ceil(2)), nth(all / 2 + 1)),
        low: nth(outside),
        high: nth(all + 1 - outside),
    })
}

/// The factor by which the values of `b` exceed the values of `a`, minus 1. `None`: fewer than 4 values, or a value that is not positive.
pub fn relative_shift(a: &[f64], b: &[f64]) -> Option<Shift> {
    compare_logarithms(shift, a, b)
}

/// Compares the logarithms of two samples. Returns relative differences. `None`: as for `compare`, or a value is not positive.
fn compare_logarithms(compare: fn(&[f64], &[f64]) -> Option<Shift>, a: &[f64], b: &[f64]) -> Option<Shift> {
    let logarithms = |values: &[f64]| -> Option<Vec<f64>> {
        values.iter().map(|value| (*value > 0.0).then(|| value.ln())).collect()
    };
    Some(compare(&logarithms(a)?, &logarithms(b)?)?.map(f64::exp_m1))
}

/// Two-sided 95 % quantiles of Student's t for 1 to 30 degrees of freedom. For more, the normal distribution is close enough.
const T_95: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
    2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
];

/// The two-sided 95 % quantile of Student's t. Degrees of freedom are rounded down, which is conservative.
pub fn student_t(freedom: f64) -> f64 {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 1 and 31")]
    let whole = freedom.clamp(1.0, 31.0) as usize;
    T_95.get(whole - 1).copied().unwrap_or(Z_95)
}

/// Mean, and variance of the mean. `None`: fewer than two values.
fn mean_and_variance(values: &[f64]) -> Option<(f64, f64)> {
    let (count, mean) = (values.len() as f64, mean(values)?);
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (values.len() >= 2).then(|| (mean, squares / (count - 1.0) / count))
}

/// The 95 % confidence interval of the mean of normally distributed values. `None`: fewer than two values.
pub fn mean_interval(values: &[f64]) -> Option<(f64, f64)> {
    let (mean, variance) = mean_and_variance(values)?;
    let half = student_t(values.len() as f64 - 1.0) * variance.sqrt();
    Some((mean - half, mean + half))
}

/// The factor by which the values of `b` exceed the values of `a`, minus 1, from [`change`] of the logarithms. For samples that are too
/// small for [`relative_shift`]. `None`: fewer than two values in a sample, or a value that is not positive.
pub fn relative_change(a: &[f64], b: &[f64]) -> Option<Shift> {
    compare_logarithms(change, a, b)
}

/// The mean of `b` minus the mean of `a`, with Welch's interval for normally distributed values. `None`: fewer than two values in a sample.
pub fn change(a: &[f64], b: &[f64]) -> Option<Shift> {
    let ((mean_a, variance_a), (mean_b, variance_b)) = (mean_and_variance(a)?, mean_and_variance(b)?);
    let variance = variance_a + variance_b;
    let part = |variance: f64, values: &[f64]| variance.powi(2) / (values.len() as f64 - 1.0);
    let freedom = variance.powi(2) / (part(variance_a, a) + part(variance_b, b)).max(f64::MIN_POSITIVE);
    let (estimate, half) = (mean_b - mean_a, student_t(freedom) * variance.sqrt());
    Some(Shift { estimate, low: estimate - half, high: estimate + half })
}

fn sorted(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

/// The difference with this rank (from 1) among all `b - a` of two sorted samples, found by bisection without storing the differences.
fn nth_difference(a: &[f64], b: &[f64], rank: u64) -> f64 {
    let (mut low, mut high) = (order(f64::NEG_INFINITY), order(f64::INFINITY));
    while low < high {
        let middle = low + (high - low) / 2;
        if differences_up_to(a, b, from_order(middle)) >= rank { high = middle } else { low = middle + 1 }
    }
    from_order(low)
}

/// Number of differences `b - a` of two sorted samples that do not exceed a limit.
fn differences_up_to(a: &[f64], b: &[f64], limit: f64) -> u64 {
    let mut within = 0;
    a.iter()
        .map(|a| {
            within += b[within..].iter().take_while(|b| **b - a <= limit).count();
            within as u64
        })
        .sum()
}

/// The position of a floating-point number in the order of all floating-point numbers.
fn order(value: f64) -> u64 {
    let bits = value.to_bits();
    if bits >> 63 == 0 { bits | 1 << 63 } else { !bits }
}

/// The floating-point number at this position.
fn from_order(place: u64) -> f64 {
    f64::from_bits(if place >> 63 == 1 { place & !(1 << 63) } else { !place })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::float_cmp, reason = "the tests require equality to the last bit")]

    use super::*;
    use proptest::prelude::*;

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() <= 1e-9 * (1.0 + a.abs())
    }

    #[test]
    fn medians_of_even_and_odd_samples() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median(&[]), None);
    }

    #[test]
    fn quantiles_are_values_that_occurred() {
        let values: Vec<f64> = (1..=200).map(f64::from).collect();
        assert_eq!([0.5, 0.99, 1.0].map(|q| quantile(&values, q)), [Some(100.0), Some(198.0), Some(200.0)]);
        assert_eq!((quantile(&[7.0], 0.5), quantile(&[], 0.5)), (Some(7.0), None));
    }

    #[test]
    fn an_example_by_hand() {
        // The differences are 7 8 9 10, 6 7 8 9, 5 6 7 8, 4 5 6 7. With 4 and 4 values, the interval is their whole range.
        let found = shift(&[1.0, 2.0, 3.0, 4.0], &[8.0, 9.0, 10.0, 11.0]).unwrap();
        assert_eq!((found.estimate, found.low, found.high), (7.0, 4.0, 10.0));
        assert!(found.is_shown());
    }

    #[test]
    fn too_few_values_have_no_interval() {
        let five = [1.0, 2.0, 3.0, 4.0, 5.0];
        assert_eq!(shift(&five[..3], &five[..3]), None);
        assert_eq!((shift(&[], &five), shift(&five, &[])), (None, None));
        assert!(shift(&five[..4], &five[..4]).is_some());
    }

    #[test]
    fn a_ratio_needs_values_above_zero() {
        let a = [1.0, 2.0, 3.0, 4.0, 5.0];
        let doubled = relative_shift(&a, &a.map(|value| value * 2.0)).unwrap();
        assert!(close(doubled.estimate, 1.0), "{doubled:?}");
        assert_eq!(relative_shift(&a, &[0.0, 1.0, 2.0, 3.0, 4.0]), None);
    }

    #[test]
    fn the_interval_misses_the_true_shift_in_one_case_of_twenty() {
        // Pairs of samples of a fixed pseudo-random sequence, the second shifted by 0.3.
        let mut state = 1_u64;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as f64 / (1_u64 << 31) as f64
        };
        let mut missed = 0;
        for _ in 0..1_000 {
            let a: Vec<f64> = (0..15).map(|_| next()).collect();
            let b: Vec<f64> = (0..15).map(|_| next() + 0.3).collect();
            let found = shift(&a, &b).unwrap();
            missed += u32::from(!(found.low..=found.high).contains(&0.3));
        }
        assert!((20..=70).contains(&missed), "{missed} of 1000");
    }

    #[test]
    fn the_interval_of_a_mean_is_students() {
        // Mean 12, standard error 1, t = 4.303.
        let (low, high) = mean_interval(&[12.0 - 3.0_f64.sqrt(), 12.0, 12.0 + 3.0_f64.sqrt()]).unwrap();
        assert!((low - 7.697).abs() < 1e-6 && (high - 16.303).abs() < 1e-6, "{low} {high}");
        assert_eq!((mean_interval(&[1.0]), mean_interval(&[])), (None, None));
        assert_eq!((student_t(0.5), student_t(2.9), student_t(1e9)), (12.706, 4.303, Z_95));
    }

    #[test]
    fn a_change_is_relative_and_its_interval_covers_the_truth() {
        let found = relative_change(&[10.0, 10.2, 9.8], &[20.0, 20.4, 19.6]).unwrap();
        assert!((found.estimate - 1.0).abs() < 1e-6 && found.low > 0.8 && found.high < 1.2, "{found:?}");
        assert_eq!(relative_change(&[1.0], &[2.0, 3.0]), None);
        assert_eq!(relative_change(&[1.0, 0.0], &[2.0, 3.0]), None);
        let equal = relative_change(&[5.0, 5.0], &[5.0, 5.0]).unwrap();
        assert_eq!((equal.estimate, equal.is_shown()), (0.0, false));
    }

    fn sample() -> impl Strategy<Value = Vec<f64>> {
        // Samples of a few whole numbers have ties.
        prop_oneof![
            proptest::collection::vec(-1e6..1e6, 4..40),
            proptest::collection::vec((0..5_i32).prop_map(f64::from), 4..40)
        ]
    }

    proptest! {
        #[test]
        fn equal_samples_do_not_differ(a in sample()) {
            let found = shift(&a, &a).unwrap();
            prop_assert!(!found.is_shown() && found.low <= 0.0 && found.high >= 0.0);
            prop_assert_eq!(found.estimate, 0.0);
        }

        #[test]
        fn swapped_samples_have_the_negated_shift(a in sample(), b in sample()) {
            let (there, back) = (shift(&a, &b).unwrap(), shift(&b, &a).unwrap());
            prop_assert_eq!((there.estimate, there.low, there.high), (-back.estimate, -back.high, -back.low));
        }

        #[test]
        fn differences_are_found_without_listing_them(a in sample(), b in sample(), first: usize) {
            let mut all: Vec<f64> = a.iter().flat_map(|a| b.iter().map(move |b| b - a)).collect();
            all.sort_by(f64::total_cmp);
            let (a, b) = (sorted(&a), sorted(&b));
            let step = 1 + all.len() / 50;
            for (difference, rank) in all.iter().zip(1..).skip(first % step).step_by(step) {
                prop_assert_eq!(nth_difference(&a, &b, rank), *difference);
            }
        }

        #[test]
        fn the_estimate_is_in_the_interval_and_moves_with_the_sample(a in sample(), b in sample(), by in -1e3..1e3_f64) {
            let found = shift(&a, &b).unwrap();
            prop_assert!(found.low <= found.estimate && found.estimate <= found.high);
            let moved: Vec<f64> = b.iter().map(|value| value + by).collect();
            let error: f64 = shift(&a, &moved).unwrap().estimate - found.estimate - by;
            prop_assert!(error.abs() < 1e-6);
        }
    }
}
