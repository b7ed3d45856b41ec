// SPDX-License-Identifier: MIT OR Apache-2.0
//! The few figures of statistics that bottlenecks are found by, over rows in which values may be missing.

/// Mean; `None` of nothing.
pub(super) fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// Population variance; `None` of nothing.
pub(super) fn variance(values: &[f64]) -> Option<f64> {
    let mean = mean(values)?;
    Some(values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / values.len() as f64)
}

/// Standard deviation over mean. `None` where the mean is not positive.
pub(super) fn variation(values: &[f64]) -> Option<f64> {
    let mean = mean(values).filter(|mean| *mean > 0.0)?;
    Some(variance(values)?.sqrt() / mean)
}

/// Both moments of two rows together.
struct Joint {
    variance_x: f64,
    variance_y: f64,
    covariance: f64,
}

fn joint(x: &[f64], y: &[f64]) -> Option<Joint> {
    let (mean_x, mean_y) = (mean(x)?, mean(y)?);
    let products = x.iter().zip(y).map(|(x, y)| (x - mean_x) * (y - mean_y));
    Some(Joint {
        variance_x: variance(x)?,
        variance_y: variance(y)?,
        covariance: products.sum::<f64>() / x.len().min(y.len()) as f64,
    })
}

/// Pearson's correlation of rows of one length. `None` where one of them does not vary.
pub(super) fn correlation(x: &[f64], y: &[f64]) -> Option<f64> {
    let joint = joint(x, y)?;
    let product = joint.variance_x * joint.variance_y;
    (product > 0.0).then(|| (joint.covariance / product.sqrt()).clamp(-1.0, 1.0))
}

/// Lin's concordance without its term for the means: 1 only where both move by the same amount, not merely in proportion.
/// The means are left out because the delay without a queue is known for neither. `None` where both stand still.
pub(super) fn concordance(x: &[f64], y: &[f64]) -> Option<f64> {
    let joint = joint(x, y)?;
    let sum = joint.variance_x + joint.variance_y;
    (sum > 0.0).then(|| (2.0 * joint.covariance / sum).clamp(-1.0, 1.0))
}

/// Takes out what moves slower than `half` places to each side: each value less the mean around it.
pub(super) fn high_pass(row: &[Option<f64>], half: usize) -> Vec<Option<f64>> {
    let mut sums = vec![(0.0, 0_u32)];
    let mut running = (0.0, 0);
    for value in row {
        running = value.map_or(running, |value| (running.0 + value, running.1 + 1));
        sums.push(running);
    }
    let around = |place: usize| {
        let (from, to) = (place.saturating_sub(half), (place + half + 1).min(row.len()));
        (sums[to].0 - sums[from].0) / f64::from(sums[to].1 - sums[from].1)
    };
    row.iter().enumerate().map(|(place, value)| value.map(|value| value - around(place))).collect()
}

/// The places at which both rows have a value, the second one moved by `lag` places.
pub(super) fn aligned(x: &[Option<f64>], y: &[Option<f64>], lag: isize) -> (Vec<f64>, Vec<f64>) {
    let moved = |place: usize| place.checked_add_signed(lag).and_then(|place| *y.get(place)?);
    x.iter().enumerate().filter_map(|(place, x)| Some(((*x)?, moved(place)?))).unzip()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn concordance_asks_for_the_same_amount_and_correlation_for_the_same_shape() {
        let (x, y) = ([1.0, 2.0, 3.0], [2.0, 4.0, 6.0]);
        assert_eq!(correlation(&x, &y), Some(1.0));
        assert_eq!(concordance(&x, &y), Some(0.8));
        assert_eq!(concordance(&x, &[11.0, 12.0, 13.0]), Some(1.0));
        assert_eq!((correlation(&x, &[5.0; 3]), concordance(&[5.0; 3], &[7.0; 3])), (None, None));
    }

    #[test]
    fn a_slope_is_taken_out_and_gaps_stay_gaps() {
        let row: Vec<_> = (0..100).map(|n| (n != 50).then_some(f64::from(n))).collect();
        let flat = high_pass(&row, 5);
        assert_eq!(flat[50], None);
        assert!(flat[20..40].iter().all(|value| value.unwrap().abs() < 1e-9));
    }

    #[test]
    fn rows_are_aligned_where_both_have_a_value() {
        let row = |values: [i32; 4]| values.map(|v| (v >= 0).then(|| f64::from(v)));
        assert_eq!(aligned(&row([1, 2, -1, 4]), &row([-1, 5, 6, 7]), 0), (vec![2.0, 4.0], vec![5.0, 7.0]));
        assert_eq!(aligned(&row([1, 2, 3, 4]), &row([5, 6, 7, 8]), 2), (vec![1.0, 2.0], vec![7.0, 8.0]));
    }

    proptest! {
        #[test]
        fn figures_do_not_depend_on_which_row_comes_first(rows in proptest::collection::vec((-1e6..1e6_f64, -1e6..1e6_f64), 2..50)) {
            let (x, y): (Vec<_>, Vec<_>) = rows.into_iter().unzip();
            let close = |a: Option<f64>, b: Option<f64>| match (a, b) {
                (Some(a), Some(b)) => (a - b).abs() < 1e-9,
                (a, b) => a == b,
            };
            prop_assert!(close(concordance(&x, &y), concordance(&y, &x)));
            prop_assert!(close(correlation(&x, &y), correlation(&y, &x)));
            prop_assert!(concordance(&x, &y).is_none_or(|c| (-1.0..=1.0).contains(&c)));
        }
    }
}
