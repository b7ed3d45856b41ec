// SPDX-License-Identifier: MIT OR Apache-2.0
//! The statistics that bottleneck detection needs, over rows in which values may be missing.

use mpwatch_model::statistics::{mean, variance};

/// Coefficient of variation: standard deviation over mean. `None`: the mean is not positive.
pub(super) fn variation(values: &[f64]) -> Option<f64> {
    let mean = mean(values).filter(|mean| *mean > 0.0)?;
    Some(variance(values)?.sqrt() / mean)
}

/// The variances and the covariance of two rows.
struct Joint {
    variance_x: f64,
    variance_y: f64,
    covariance: f64,
}

/// The variances and the covariance of two rows of the same length. `None`: a row is empty.
fn joint(x: &[f64], y: &[f64]) -> Option<Joint> {
    let (mean_x, mean_y) = (mean(x)?, mean(y)?);
    let count = x.len().min(y.len()) as f64;
    let (mut squares_x, mut squares_y, mut products) = (0.0, 0.0, 0.0);
    for (x, y) in x.iter().zip(y) {
        let (x, y) = (x - mean_x, y - mean_y);
        squares_x += x * x;
        squares_y += y * y;
        products += x * y;
    }
    Some(Joint { variance_x: squares_x / count, variance_y: squares_y / count, covariance: products / count })
}

/// Pearson's correlation of rows of the same length. `None`: one of them does not vary.
pub fn correlation(x: &[f64], y: &[f64]) -> Option<f64> {
    let joint = joint(x, y)?;
    let product = joint.variance_x * joint.variance_y;
    (product > 0.0).then(|| (joint.covariance / product.sqrt()).clamp(-1.0, 1.0))
}

/// Lin's concordance without the means, which contain unknown base delays. It is 1 only if both rows vary by the same amount. `None`:
/// neither row varies.
pub(super) fn concordance(x: &[f64], y: &[f64]) -> Option<f64> {
    let joint = joint(x, y)?;
    let sum = joint.variance_x + joint.variance_y;
    (sum > 0.0).then(|| (2.0 * joint.covariance / sum).clamp(-1.0, 1.0))
}

/// Partial correlation of every pair of rows, given all other rows, from the inverse of the correlation matrix. Its diagonal is raised a little,
/// because rows with a constant sum make the matrix singular. Rows have the same length; a row that does not vary has correlation 0.
pub(super) fn partial_correlations(rows: &[Vec<f64>]) -> Vec<Vec<f64>> {
    const RIDGE: f64 = 0.05;
    let mut matrix = vec![vec![1.0 + RIDGE; rows.len()]; rows.len()];
    for (i, x) in rows.iter().enumerate() {
        for (j, y) in rows.iter().enumerate().skip(i + 1) {
            let correlation = correlation(x, y).unwrap_or(0.0);
            (matrix[i][j], matrix[j][i]) = (correlation, correlation);
        }
    }
    let inverse = inverse(matrix);
    let partial = |i: usize, j: usize| -inverse[i][j] / (inverse[i][i] * inverse[j][j]).sqrt();
    let row = |i| (0..rows.len()).map(|j| if i == j { 1.0 } else { partial(i, j) }).collect();
    (0..rows.len()).map(row).collect()
}

/// Inverse of a positive definite matrix by elimination; such a matrix needs no pivoting.
fn inverse(mut matrix: Vec<Vec<f64>>) -> Vec<Vec<f64>> {
    let size = matrix.len();
    for (index, row) in matrix.iter_mut().enumerate() {
        row.extend((0..size).map(|column| f64::from(u8::from(column == index))));
    }
    for index in 0..size {
        let pivot = matrix[index][index];
        let row: Vec<f64> = matrix[index].iter().map(|value| value / pivot).collect();
        for other in (0..size).filter(|other| *other != index) {
            let factor = matrix[other][index];
            for (value, subtracted) in matrix[other].iter_mut().zip(&row) {
                *value -= factor * subtracted;
            }
        }
        matrix[index] = row;
    }
    matrix.into_iter().map(|mut row| row.split_off(size)).collect()
}

/// Smoothness of a row: 1 if neighbouring values hardly differ, 0 if they differ like noise. `None`: too few values, or no variation.
pub(super) fn smoothness(values: &[f64]) -> Option<f64> {
    let variance = variance(values).filter(|variance| values.len() > 10 && *variance > 0.0)?;
    let steps: f64 = values.windows(2).map(|pair| (pair[1] - pair[0]).powi(2)).sum();
    Some((1.0 - steps / (values.len() - 1) as f64 / (2.0 * variance)).clamp(0.0, 1.0))
}

/// High-pass filter: every value minus the mean of the values up to `half` positions away.
pub(super) fn high_pass(row: &[Option<f64>], half: usize) -> Vec<Option<f64>> {
    let mut sums = vec![(0.0, 0_u32)];
    let mut running = (0.0, 0);
    for value in row {
        running = value.map_or(running, |value| (running.0 + value, running.1 + 1));
        sums.push(running);
    }
    let mean_around = |index: usize| {
        let (from, to) = (index.saturating_sub(half), (index + half + 1).min(row.len()));
        (sums[to].0 - sums[from].0) / f64::from(sums[to].1 - sums[from].1)
    };
    row.iter().enumerate().map(|(index, value)| value.map(|value| value - mean_around(index))).collect()
}

fn without_first(row: &[Option<f64>], count: isize) -> &[Option<f64>] {
    row.get(count.max(0).unsigned_abs()..).unwrap_or_default()
}

/// The values at positions where both rows have a value, with the second row shifted by `lag` positions.
pub(super) fn aligned(x: &[Option<f64>], y: &[Option<f64>], lag: isize) -> (Vec<f64>, Vec<f64>) {
    let (x, y) = (without_first(x, -lag), without_first(y, lag));
    x.iter().zip(y).filter_map(|(x, y)| x.zip(*y)).unzip()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn concordance_requires_equal_amounts_and_correlation_equal_shapes() {
        let (x, y) = ([1.0, 2.0, 3.0], [2.0, 4.0, 6.0]);
        assert_eq!(correlation(&x, &y), Some(1.0));
        assert_eq!(concordance(&x, &y), Some(0.8));
        assert_eq!(concordance(&x, &[11.0, 12.0, 13.0]), Some(1.0));
        assert_eq!((correlation(&x, &[5.0; 3]), concordance(&[5.0; 3], &[7.0; 3])), (None, None));
    }

    #[test]
    fn the_high_pass_removes_a_slope_and_keeps_gaps() {
        let row: Vec<_> = (0..100).map(|n| (n != 50).then_some(f64::from(n))).collect();
        let flat = high_pass(&row, 5);
        assert_eq!(flat[50], None);
        assert!(flat[20..40].iter().all(|value| value.unwrap().abs() < 1e-9));
    }

    #[test]
    fn rows_are_aligned_at_positions_where_both_have_a_value() {
        let row = |values: [i32; 4]| values.map(|v| (v >= 0).then(|| f64::from(v)));
        assert_eq!(aligned(&row([1, 2, -1, 4]), &row([-1, 5, 6, 7]), 0), (vec![2.0, 4.0], vec![5.0, 7.0]));
        assert_eq!(aligned(&row([1, 2, 3, 4]), &row([5, 6, 7, 8]), 2), (vec![1.0, 2.0], vec![7.0, 8.0]));
    }

    #[test]
    fn rows_that_divide_a_constant_have_negative_partial_correlations() {
        // Four rows that add up to a constant, and an independent one.
        let noise = |seed: u64| {
            (0..200_u64).map(move |n| ((n * 7919 + seed * 104_729) % 1009 * (n + seed) % 101) as f64)
        };
        let free: Vec<Vec<f64>> = (1..4).map(|seed| noise(seed).collect()).collect();
        let remainder = (0..200).map(|n| 400.0 - free.iter().map(|row| row[n]).sum::<f64>()).collect();
        let rows = [free, vec![remainder, noise(9).collect()]].concat();
        assert!(correlation(&rows[0], &rows[1]).unwrap().abs() < 0.3);
        let partial = partial_correlations(&rows);
        assert!(partial[0][1] < -0.6 && partial[3][2] < -0.6, "{partial:?}");
        assert!((0..4).all(|n| partial[4][n].abs() < 0.3), "{partial:?}");
        let two = partial_correlations(&rows[..2]);
        assert!((two[0][1] - correlation(&rows[0], &rows[1]).unwrap()).abs() < 0.1);
    }

    #[test]
    fn noise_is_not_smooth() {
        let slope: Vec<f64> = (0..100).map(f64::from).collect();
        assert!(smoothness(&slope).unwrap() > 0.99);
        let noise: Vec<f64> = (0..200_u64).map(|n| (n * 7919 % 1009 * n % 101) as f64).collect();
        assert!(smoothness(&noise).unwrap() < 0.3);
        assert_eq!((smoothness(&[1.0; 50]), smoothness(&[1.0, 2.0])), (None, None));
    }

    proptest! {
        #[test]
        fn concordance_and_correlation_are_symmetric(rows in proptest::collection::vec((-1e6..1e6_f64, -1e6..1e6_f64), 2..50)) {
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
