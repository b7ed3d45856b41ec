// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares the queueing delays of paths: packets in one queue wait equally long.

use std::collections::BTreeMap;

use mpwatch_model::statistics::variance;

/// Minimum number of steps with samples of both paths.
const MIN_COMMON: usize = 15;

/// The lowest RTT in each step, microseconds. `None`: no sample.
type Row = Vec<Option<f64>>;

/// The queueing delays of a path.
pub(in super::super) struct Delays {
    lowest: Row,
    halves: [Row; 2],
    /// How much the two halves of the samples differ, microseconds. `None`: one connection uses the path, whose segments arrive in bursts, so that
    /// its halves are more alike than two paths of one queue.
    noise_us: Option<f64>,
}

impl Delays {
    /// `halves`: the lowest RTT of every second sample of each subflow, and of its other samples.
    pub(in super::super) fn new(halves: [Row; 2], connections: usize) -> Self {
        let lowest = |(a, b): (&Option<f64>, &Option<f64>)| match (a, b) {
            (Some(a), Some(b)) => Some(a.min(*b)),
            _ => a.or(*b),
        };
        Self {
            lowest: halves[0].iter().zip(&halves[1]).map(lowest).collect(),
            noise_us: (connections > 1).then(|| spread(&halves[0], &halves[1])).flatten(),
            halves,
        }
    }
}

/// How much the queueing delays of two paths differ.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in super::super) struct Difference {
    /// The variance of the difference between the two delays over the sum of their variances: 0 in one queue, about 1 in two independent queues.
    pub(in super::super) ratio: f64,
    /// Log-odds that the two paths share a queue.
    pub(in super::super) log_odds: f64,
    /// Number of compared pairs of paths whose mean these are.
    pub(in super::super) pairs: usize,
}

/// The difference of every pair of paths. Paths with similar delays are joined into sets. The result for two paths is the mean over all pairs of the
/// two sets that joined them, because a single pair is noisy. Paths without enough samples for any comparison are missing.
pub(in super::super) fn differences(rows: &[Delays]) -> BTreeMap<(usize, usize), Difference> {
    let compared: Vec<Vec<Option<(f64, f64)>>> =
        (0..rows.len()).map(|b| (0..b).map(|a| compare(&rows[a], &rows[b])).collect()).collect();
    // The number of compared pairs between two sets, and the sums of ln(ratio) and of the log-odds.
    let sums = |a: &[usize], b: &[usize]| {
        let known = a.iter().flat_map(|a| b.iter().filter_map(|b| compared[*a.max(b)][*a.min(b)]));
        known.fold((0_usize, 0.0, 0.0), |(count, ratios, sum), (ratio, log_odds)| {
            (count + 1, ratios + ratio.ln(), sum + log_odds)
        })
    };
    let distance = |a: &[usize], b: &[usize]| {
        let (count, _, sum) = sums(a, b);
        (count > 0).then(|| -sum / count as f64)
    };
    let mut found = BTreeMap::new();
    join((0..rows.len()).collect(), 1, distance, |a, b, distance| {
        let pairs = a.iter().flat_map(|a| b.iter().map(move |b| ((*a).min(*b), (*a).max(*b))));
        let (count, ratios, _) = sums(a, b);
        let ratio = (ratios / count as f64).exp();
        let difference = Difference { ratio, log_odds: -distance, pairs: count };
        found.extend(pairs.map(|pair| (pair, difference)));
    });
    found
}

/// See [`Difference::ratio`], and the log-odds that two paths share a queue. `None`: too few common steps, or the delays are constant.
fn compare(a: &Delays, b: &Delays) -> Option<(f64, f64)> {
    /// Smaller ratios are noise.
    const LEAST: f64 = 0.01;
    /// Fitted to the training conditions of the corpus by logistic regression, and scaled down.
    const EXCESS_WEIGHT: f64 = 6.0;
    const RATIO_WEIGHT: f64 = 2.4;
    const UNDECIDED_RATIO: f64 = 0.75;
    /// Above this ratio, the delays are not evidence of sharing, even if they differ no more than the halves of one path.
    const RATIO_LIMIT: f64 = 0.5;
    const RATIO_LIMIT_WEIGHT: f64 = 4.0;
    const MAX: f64 = 8.0;
    let both = ratio(a.lowest.iter().copied().zip(b.lowest.iter().copied()))?.max(LEAST);
    if let Some(excess) = excess(a, b) {
        let log_odds = -EXCESS_WEIGHT * excess.ln() - RATIO_WEIGHT * (both / UNDECIDED_RATIO).ln();
        // Behind a queue per flow, the halves of one path differ as much as two paths.
        let most = -RATIO_LIMIT_WEIGHT * (both / RATIO_LIMIT).ln();
        return Some((both, log_odds.min(most).clamp(-MAX, MAX)));
    }
    let ratio = relative_difference(&a.lowest, &b.lowest, both).max(LEAST);
    Some((ratio, (-4.0 * (ratio / 0.25).ln()).clamp(-MAX, MAX)))
}

/// How much more the delays of two paths differ than the two halves of the samples of one path: 1 in one queue. `None`: unknown.
fn excess(a: &Delays, b: &Delays) -> Option<f64> {
    /// Resolution of the RTT samples, microseconds.
    const RESOLUTION: f64 = 30.0;
    let noise = f64::midpoint(a.noise_us?.powi(2), b.noise_us?.powi(2)) + RESOLUTION.powi(2);
    let [first, second] = [0, 1].map(|half| spread(&a.halves[half], &b.halves[half]));
    Some((f64::midpoint(first?.powi(2), second?.powi(2)) / noise).sqrt().max(0.5))
}

/// Standard deviation of the difference of two rows, without the fifth of the values that are farthest from the median: a step in which
/// one path has few samples. `None`: too few common steps.
fn spread(a: &Row, b: &Row) -> Option<f64> {
    let difference = |(a, b): (&Option<f64>, &Option<f64>)| Some((*a)? - (*b)?);
    let mut values: Vec<f64> = a.iter().zip(b).filter_map(difference).collect();
    if values.len() < MIN_COMMON {
        return None;
    }
    let middle = values.len() / 2;
    let median = *values.select_nth_unstable_by(middle, f64::total_cmp).1;
    for value in &mut values {
        *value = (*value - median).abs();
    }
    let kept = values.len() * 4 / 5;
    values.select_nth_unstable_by(kept, f64::total_cmp);
    Some((values[..kept].iter().map(|value| value * value).sum::<f64>() / kept as f64).sqrt())
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

/// The difference of two paths that are used by one connection. `slow`: see [`Difference::ratio`].
fn relative_difference(a: &Row, b: &Row, slow: f64) -> f64 {
    /// Delays are also compared by their changes over this many steps: two queues that fill or drain in step have similar delays, but changes that
    /// differ. These are noisier, so they count less, and they only withhold evidence of sharing.
    const CHANGE: usize = 2;
    const WEIGHT: f64 = 0.75;
    const UNDECIDED: f64 = 0.35;
    if slow >= UNDECIDED {
        return slow;
    }
    let change = |row: &Row, from: usize| Some(row[from + CHANGE]? - row[from]?);
    let fast = ratio((0..a.len().saturating_sub(CHANGE)).map(|from| (change(a, from), change(b, from))));
    fast.map_or(slow, |fast| slow.max(WEIGHT * fast).min(UNDECIDED))
}

/// The variance of the difference over the sum of the variances.
fn ratio(pairs: impl Iterator<Item = (Option<f64>, Option<f64>)>) -> Option<f64> {
    let common: Vec<(f64, f64)> = pairs.filter_map(|(a, b)| a.zip(b)).collect();
    let variance = |value: fn(&(f64, f64)) -> f64| variance(&common.iter().map(value).collect::<Vec<f64>>());
    let sum = variance(|(a, _)| *a)? + variance(|(_, b)| *b)?;
    (common.len() >= MIN_COMMON && sum > 0.0).then_some(variance(|(a, b)| a - b)? / sum)
}
