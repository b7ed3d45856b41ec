// SPDX-License-Identifier: MIT OR Apache-2.0
//! The units that the interval of a difference assumes to be independent. The connections of a run share load, paths and cost estimates, and
//! successive connections resemble each other. So medians of units are compared: of runs, or of blocks of connections.

use jiff::Timestamp;
use mpwatch_model::snapshot::Report;
use mpwatch_model::statistics::{Shift, change, median, relative_change, relative_shift, shift};
use serde::Serialize;

/// Blocks per set. Student's t needs several, and connections in different blocks should not depend on each other.
const BLOCKS: usize = 10;
/// Minimum connections per block.
const MIN_PER_BLOCK: usize = 2;
/// Smaller differences are rounding errors.
const ROUNDING: f64 = 1e-12;

/// The units that the interval of a difference assumes to be independent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Independent {
    /// Runs; both sets have at least two.
    Runs,
    /// Blocks of the same number of connections, in the order of their opening.
    Blocks,
    /// Single connections; there are too few for blocks.
    Connections,
}

/// A difference with its 95 % confidence interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Difference {
    /// Whether the difference is relative to the first set (0.1: 10 % more). Otherwise, it is in the unit of the quantity: a value is zero.
    pub relative: bool,
    /// The estimate and its interval.
    #[serde(flatten)]
    pub shift: Shift,
    /// The units that are assumed to be independent.
    pub independent: Independent,
    /// Number of units in the first set.
    pub a_units: usize,
    /// Number of units in the second set.
    pub b_units: usize,
}

/// The values of a quantity in one set.
pub(super) struct Values {
    /// Opening times of connections (`None`: before tracing) with their values, sorted.
    values: Vec<(Option<Timestamp>, f64)>,
    /// Start times of the runs, sorted.
    run_starts: Vec<Timestamp>,
}

impl Difference {
    /// The independent units, with their number in each set.
    pub(crate) fn units(&self) -> String {
        let unit = match self.independent {
            Independent::Runs => "runs",
            Independent::Blocks => "blocks",
            Independent::Connections => "connections",
        };
        format!("{} + {} {unit}", self.a_units, self.b_units)
    }
}

impl Values {
    pub(super) fn new(mut values: Vec<(Option<Timestamp>, f64)>, report: &Report) -> Self {
        values.sort_by_key(|(opened, _)| *opened);
        Self { values, run_starts: report.run_starts.clone() }
    }

    pub(super) fn all(&self) -> Vec<f64> {
        self.values.iter().map(|(_, value)| *value).collect()
    }

    /// The median of each run. A connection that is older than tracing counts in the first run.
    fn runs(&self) -> Vec<f64> {
        let run = |opened: Option<Timestamp>| {
            opened.map_or(1, |opened| self.run_starts.partition_point(|start| *start <= opened).max(1))
        };
        let of_run = self.values.chunk_by(|value, next| run(value.0) == run(next.0));
        of_run.filter_map(median_value).collect()
    }

    /// The median of each block. Empty: there are too few values.
    fn blocks(&self) -> Vec<f64> {
        let count = self.values.len();
        if count < BLOCKS * MIN_PER_BLOCK {
            return Vec::new();
        }
        let start = |block: usize| block * count / BLOCKS;
        (0..BLOCKS).filter_map(|block| median_value(&self.values[start(block)..start(block + 1)])).collect()
    }
}

fn median_value(values: &[(Option<Timestamp>, f64)]) -> Option<f64> {
    median(&values.iter().map(|(_, value)| *value).collect::<Vec<f64>>())
}

/// The difference, which is relative unless a value is zero. `None`: there are too few values.
pub(super) fn difference(a: &Values, b: &Values) -> Option<Difference> {
    let (runs, blocks) = ([a.runs(), b.runs()], [a.blocks(), b.blocks()]);
    let (independent, [a, b]) = if runs.iter().all(|runs| runs.len() >= 2) {
        (Independent::Runs, runs)
    } else if blocks.iter().all(|blocks| !blocks.is_empty()) {
        (Independent::Blocks, blocks)
    } else {
        (Independent::Connections, [a.all(), b.all()])
    };
    let is_single = independent == Independent::Connections;
    let found = if is_single { relative_shift(&a, &b) } else { relative_change(&a, &b) };
    let absolute = || if is_single { shift(&a, &b) } else { change(&a, &b) };
    let (relative, mut shift) = found.map(|shift| (true, shift)).or_else(|| Some((false, absolute()?)))?;
    if !is_single {
        // The rounding of logarithms is not a difference.
        shift = shift.map(|value| if value.abs() < ROUNDING { 0.0 } else { value });
    }
    Some(Difference { relative, shift, independent, a_units: a.len(), b_units: b.len() })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A fixed pseudo-random sequence, evenly distributed between -0.5 and 0.5.
    struct Noise(u64);

    impl Noise {
        fn next(&mut self) -> f64 {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 33) as f64 / (1_u64 << 31) as f64 - 0.5
        }
    }

    fn at(seconds: usize) -> Timestamp {
        Timestamp::from_second(i64::try_from(seconds).unwrap()).unwrap()
    }

    /// Runs of `of_each` connections, one per second. `of_run`: scale of the random part that the connections of a run share.
    fn runs(noise: &mut Noise, [runs, of_each]: [usize; 2], mean: f64, of_run: f64) -> Values {
        let mut values = Vec::new();
        for run in 0..runs {
            let common = mean + of_run * noise.next();
            values.extend((0..of_each).map(|second| (Some(at(run * 1_000 + second)), common + noise.next())));
        }
        Values { values, run_starts: (0..runs).map(|run| at(run * 1_000)).collect() }
    }

    /// For 500 pairs of equal sets, the number of intervals that exclude the true difference, 0.
    fn missed(mut make: impl FnMut() -> [Values; 2]) -> usize {
        let shown = |[a, b]: [Values; 2]| difference(&a, &b).unwrap().shift.is_shown();
        (0..500).filter(|_| shown(make())).count()
    }

    #[test]
    fn runs_that_differ_among_themselves_show_no_difference_between_the_sets() {
        let mut noise = Noise(1);
        let missed_by_runs = missed(|| [(); 2].map(|()| runs(&mut noise, [4, 50], 10.0, 2.0)));
        assert!(missed_by_runs <= 45, "{missed_by_runs} of 500");
        // Intervals that assume independent connections exclude 0 far too often.
        let mut by_connections = 0;
        for _ in 0..500 {
            let [a, b] = [(); 2].map(|()| runs(&mut noise, [4, 50], 10.0, 2.0).all());
            by_connections += usize::from(shift(&a, &b).unwrap().is_shown());
        }
        assert!(by_connections > 250, "{by_connections} of 500");
    }

    #[test]
    fn a_difference_between_all_runs_is_shown() {
        let mut noise = Noise(2);
        let [a, b] = [10.0, 12.0].map(|mean| runs(&mut noise, [3, 50], mean, 0.2));
        let found = difference(&a, &b).unwrap();
        assert_eq!((found.independent, found.a_units, found.b_units), (Independent::Runs, 3, 3));
        assert!(found.relative && (found.shift.low..found.shift.high).contains(&0.2), "{found:?}");
        assert!(found.shift.is_shown());
    }

    /// Conditions that change slowly, as with the time of day.
    fn drifting(noise: &mut Noise) -> Values {
        let mut level = 0.0;
        let mut next = |second| {
            level = 0.8 * level + noise.next();
            (Some(at(second)), 10.0 + level + 0.2 * noise.next())
        };
        Values { values: (0..200).map(&mut next).collect(), run_starts: vec![at(0)] }
    }

    #[test]
    fn the_connections_of_one_run_count_in_blocks() {
        let mut noise = Noise(3);
        let by_blocks = missed(|| [(); 2].map(|()| drifting(&mut noise)));
        assert!(by_blocks <= 60, "{by_blocks} of 500");
        let [a, b] = [(); 2].map(|()| drifting(&mut noise));
        let found = difference(&a, &b).unwrap();
        assert_eq!((found.independent, found.a_units, found.b_units), (Independent::Blocks, BLOCKS, BLOCKS));
    }

    #[test]
    fn few_connections_of_one_run_count_each_for_itself() {
        let mut noise = Noise(4);
        let [few, many] = [6, 60].map(|connections| runs(&mut noise, [1, connections], 10.0, 0.0));
        let found = difference(&few, &many).unwrap();
        assert_eq!((found.independent, found.a_units, found.b_units), (Independent::Connections, 6, 60));
        let three = runs(&mut noise, [1, 3], 10.0, 0.0);
        assert!(difference(&three, &many).is_none());
    }

    #[test]
    fn a_connection_older_than_tracing_counts_in_the_first_run() {
        let mut values = runs(&mut Noise(5), [2, 3], 10.0, 0.0);
        values.values.insert(0, (None, 1.0));
        assert_eq!(values.runs().len(), 2);
    }
}
