// SPDX-License-Identifier: MIT OR Apache-2.0
//! Infers from the rates of paths which paths share a link. A saturated link conserves its rate: the rates of the paths on one link vary, and
//! their sum is constant. The sums of two links vary independently of each other.

use mpwatch_model::statistics::mean;

use super::delays::join;

/// Rows with equal numbers of steps, one per path.
type Rows = [Vec<f64>];

/// Two sets of paths are split if the variance of the sum of both is at least this fraction of the sum of their variances. 0: they divide a
/// constant rate; 1: they are independent.
pub(super) const SPLIT: f64 = 0.6;

/// The result of comparing the rates of two paths.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in super::super) struct Comparison {
    /// Indices of the two rows.
    pub(in super::super) rows: (usize, usize),
    /// Variance of the sum of two sets of paths over the sum of their variances. Each of the sets contains one of the two paths.
    pub(in super::super) conservation: f64,
    /// Coefficient of variation of the rate of the link; of two links, the larger one.
    pub(in super::super) variation: f64,
    /// Mean of the link's rate, in the unit of the rows. `None`: the paths are on two links.
    pub(in super::super) rate: Option<f64>,
}

/// Compares every pair of rows.
pub(in super::super) fn compare(rows: &Rows) -> Vec<Comparison> {
    let mut found = Splitter { covariances: covariances(rows), rows, pairs: Vec::new() };
    found.divide((0..rows.len()).collect());
    found.pairs
}

struct Splitter<'a> {
    rows: &'a Rows,
    covariances: Vec<Vec<f64>>,
    pairs: Vec<Comparison>,
}

impl Splitter<'_> {
    /// Divides the paths into links. Returns each path with the variation of its link's rate.
    fn divide(&mut self, ids: Vec<usize>) -> Vec<(usize, f64)> {
        let variation = self.variation(&ids);
        let all = |ids: Vec<usize>| ids.into_iter().map(|id| (id, variation)).collect();
        if ids.len() < 2 {
            return all(ids);
        }
        let (left, right) = self.split(&ids);
        let parts = self.variance(&left) + self.variance(&right);
        let conservation = if parts > 0.0 { self.variance(&ids) / parts } else { 1.0 };
        if conservation < SPLIT {
            let rate = Some(self.rate(&ids));
            for (index, a) in ids.iter().enumerate() {
                let pair = |b: &usize| Comparison { rows: (*a, *b), conservation, variation, rate };
                self.pairs.extend(ids[index + 1..].iter().map(pair));
            }
            return all(ids);
        }
        let (left, right) = (self.divide(left), self.divide(right));
        for (a, of_a) in &left {
            let rows = |b: usize| ((*a).min(b), (*a).max(b));
            let pair = |(b, of_b): &(usize, f64)| Comparison {
                rows: rows(*b),
                conservation,
                variation: of_a.max(*of_b),
                rate: None,
            };
            self.pairs.extend(right.iter().map(pair));
        }
        [left, right].concat()
    }

    /// The two sets whose sums vary least. Moves one path at a time to the other set while the sum of the two variances falls, which is while the
    /// variance of their difference falls. Starts from each path alone, and from the two sets of [`Self::merge`]. Returns the best result.
    fn split(&self, ids: &[usize]) -> (Vec<usize>, Vec<usize>) {
        let alone = |start: usize| (0..ids.len()).map(|i| if i == start { 1.0 } else { -1.0 }).collect();
        let merged = self.merge(ids);
        let merged = ids.iter().map(|id| if merged.contains(id) { 1.0 } else { -1.0 }).collect();
        let attempts = (0..ids.len()).map(alone).chain([merged]).map(|mut sides: Vec<f64>| {
            let variance = self.settle(ids, &mut sides);
            (variance, sides)
        });
        let best = attempts.min_by(|(a, _), (b, _)| a.total_cmp(b));
        let sides = best.map_or_else(Vec::new, |(_, sides)| sides);
        let side = |wanted: f64| {
            ids.iter().zip(&sides).filter(move |(_, side)| **side * wanted > 0.0).map(|(id, _)| *id).collect()
        };
        (side(1.0), side(-1.0))
    }

    /// One of the two sets that are left after repeatedly joining the two sets with the lowest covariance relative to their variances.
    fn merge(&self, ids: &[usize]) -> Vec<usize> {
        let ratio = |a: &[usize], b: &[usize]| {
            let variances = self.covariance(a, a) + self.covariance(b, b);
            Some(self.covariance(a, b) / variances.max(f64::MIN_POSITIVE))
        };
        join(ids.to_vec(), 2, ratio, |_, _, _| {}).swap_remove(0)
    }

    /// Moves paths to the other side while that lowers the variance of the difference between the sums of both sides. Returns this variance.
    fn settle(&self, ids: &[usize], sides: &mut [f64]) -> f64 {
        let covariance = |i: usize, j: usize| self.covariances[ids[i]][ids[j]];
        let count = ids.len();
        let mut products: Vec<f64> =
            (0..count).map(|i| (0..count).map(|j| covariance(i, j) * sides[j]).sum()).collect();
        // Each move lowers the variance, so no state occurs twice; the bound is for rounding errors.
        for _ in 0..4 * count {
            let size = |side: f64| sides.iter().filter(|other| **other * side > 0.0).count();
            let alone = [1.0, -1.0].map(|side| size(side) == 1);
            let gain = |i: usize| sides[i] * products[i] - covariance(i, i);
            let may_move = |i: &usize| !alone[usize::from(sides[*i] < 0.0)];
            let best = (0..count).filter(may_move).max_by(|a, b| gain(*a).total_cmp(&gain(*b)));
            let Some(moved) = best.filter(|best| gain(*best) > 1e-9 * covariance(*best, *best)) else {
                break;
            };
            for (i, product) in products.iter_mut().enumerate() {
                *product -= 2.0 * sides[moved] * covariance(i, moved);
            }
            sides[moved] = -sides[moved];
        }
        sides.iter().zip(&products).map(|(side, product)| side * product).sum()
    }

    fn variance(&self, ids: &[usize]) -> f64 {
        self.covariance(ids, ids)
    }

    /// Covariance of the sums of two sets.
    fn covariance(&self, left: &[usize], right: &[usize]) -> f64 {
        left.iter().flat_map(|a| right.iter().map(|b| self.covariances[*a][*b])).sum()
    }

    /// Mean of a sum of rows.
    fn rate(&self, ids: &[usize]) -> f64 {
        ids.iter().filter_map(|id| mean(&self.rows[*id])).sum()
    }

    /// Coefficient of variation of a sum of rows. Infinite if nothing was delivered.
    fn variation(&self, ids: &[usize]) -> f64 {
        let total = self.rate(ids);
        if total > 0.0 { self.variance(ids).max(0.0).sqrt() / total } else { f64::INFINITY }
    }
}

fn covariances(rows: &Rows) -> Vec<Vec<f64>> {
    let centred = |row: &Vec<f64>| {
        let mean = mean(row).unwrap_or(0.0);
        row.iter().map(|value| value - mean).collect::<Vec<f64>>()
    };
    let rows: Vec<Vec<f64>> = rows.iter().map(centred).collect();
    let covariance =
        |a: &Vec<f64>, b: &Vec<f64>| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>() / a.len().max(1) as f64;
    rows.iter().map(|a| rows.iter().map(|b| covariance(a, b)).collect()).collect()
}
