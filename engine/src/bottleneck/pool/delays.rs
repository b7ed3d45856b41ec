// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares the queueing delays of paths: packets in one queue wait equally long.

use std::collections::BTreeMap;

use mpwatch_model::statistics::variance;

/// The lowest RTT of a path in each step, microseconds. `None`: no sample.
type Row = Vec<Option<f64>>;

/// How much the queueing delays of two paths differ.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in super::super) struct Difference {
    /// The variance of the difference between the two delays over the sum of their variances: 0 in one queue, about 1 in two independent queues.
    pub(in super::super) ratio: f64,
    /// Number of pairs of paths whose ratios `ratio` is the geometric mean of.
    pub(in super::super) pairs: usize,
}

/// The difference of every pair of paths. Paths with similar delays are joined into sets. The ratio of two paths is the mean over all pairs of the
/// two sets that joined them, because the ratio of a single pair is noisy. Pairs without enough samples are missing.
pub(in super::super) fn differences(rows: &[Row]) -> BTreeMap<(usize, usize), Difference> {
    /// Smaller ratios are noise.
    const LEAST: f64 = 0.01;
    let log = |a: usize, b: usize| relative_difference(&rows[a], &rows[b]).map(|found| found.max(LEAST).ln());
    let logs: Vec<Vec<Option<f64>>> = (0..rows.len())
        .map(|a| (0..rows.len()).map(|b| if a == b { None } else { log(a, b) }).collect())
        .collect();
    let distance = |a: &[usize], b: &[usize]| {
        let known = a.iter().flat_map(|a| b.iter().filter_map(|b| logs[*a][*b]));
        let (count, sum) = known.fold((0, 0.0), |(count, sum), log| (count + 1, sum + log));
        (count > 0).then(|| sum / f64::from(count))
    };
    let mut found = BTreeMap::new();
    join((0..rows.len()).collect(), 1, distance, |a, b, mean| {
        let pairs = a.iter().flat_map(|a| b.iter().map(move |b| ((*a).min(*b), (*a).max(*b))));
        let difference = Difference { ratio: mean.exp(), pairs: a.len() * b.len() };
        found.extend(pairs.map(|pair| (pair, difference)));
    });
    found
}

/// Repeatedly joins the two sets with the smallest distance, until `wanted` sets are left or no distance is known. At first, each id is a set.
/// `joined` is called with two sets and their distance before they are joined.
pub(super) fn join(
    ids: Vec<usize>,
    wanted: usize,
    distance: impl Fn(&[usize], &[usize]) -> Option<f64>,
    mut joined: impl FnMut(&[usize], &[usize], f64),
) -> Vec<Vec<usize>> {
    let mut sets: Vec<Vec<usize>> = ids.into_iter().map(|id| vec![id]).collect();
    while sets.len() > wanted {
        let pairs = (0..sets.len()).flat_map(|a| (a + 1..sets.len()).map(move |b| (a, b)));
        let rated = pairs.filter_map(|(a, b)| Some((distance(&sets[a], &sets[b])?, a, b)));
        let Some((nearest, a, b)) = rated.min_by(|(x, ..), (y, ..)| x.total_cmp(y)) else { break };
        joined(&sets[a], &sets[b], nearest);
        let moved = sets.swap_remove(b);
        sets[a].extend(moved);
    }
    sets
}

/// See [`Difference::ratio`]. `None`: too few common steps, or the delays are constant.
fn relative_difference(a: &Row, b: &Row) -> Option<f64> {
    /// Delays are also compared by their changes over this many steps: two queues that fill or drain in step have similar delays, but changes that
    /// differ. These are noisier, so they count less, and they only withhold evidence of sharing.
    const CHANGE: usize = 2;
    const WEIGHT: f64 = 0.75;
    const UNDECIDED: f64 = 0.35;
    let slow = ratio(a.iter().copied().zip(b.iter().copied()))?;
    if slow >= UNDECIDED {
        return Some(slow);
    }
    let change = |row: &Row, from: usize| Some(row[from + CHANGE]? - row[from]?);
    let fast = ratio((0..a.len().saturating_sub(CHANGE)).map(|from| (change(a, from), change(b, from))));
    Some(fast.map_or(slow, |fast| slow.max(WEIGHT * fast).min(UNDECIDED)))
}

/// The variance of the difference over the sum of the variances.
fn ratio(pairs: impl Iterator<Item = (Option<f64>, Option<f64>)>) -> Option<f64> {
    /// Minimum number of steps with both values.
    const MIN_COMMON: usize = 15;
    let common: Vec<(f64, f64)> = pairs.filter_map(|(a, b)| a.zip(b)).collect();
    let variance = |value: fn(&(f64, f64)) -> f64| variance(&common.iter().map(value).collect::<Vec<f64>>());
    let sum = variance(|(a, _)| *a)? + variance(|(_, b)| *b)?;
    (common.len() >= MIN_COMMON && sum > 0.0).then_some(variance(|(a, b)| a - b)? / sum)
}
