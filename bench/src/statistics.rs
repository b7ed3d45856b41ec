// SPDX-License-Identifier: MIT OR Apache-2.0
//! Statistics of paired measurements: the median, its confidence interval (valid for any distribution), and the comparison with a target.

use crate::table::figure;

/// The median; 0 for an empty list.
pub(crate) fn median(values: &[f64]) -> f64 {
    let sorted = sorted(values);
    match sorted.len() {
        0 => 0.0,
        odd if odd % 2 == 1 => sorted[odd / 2],
        even => f64::midpoint(sorted[even / 2 - 1], sorted[even / 2]),
    }
}

/// The 95 % confidence interval of the median by the sign test. Its ends are two of the values. `None`: there are too few values.
pub(crate) fn interval(values: &[f64]) -> Option<(f64, f64)> {
    let sorted = sorted(values);
    let count = sorted.len();
    // Probability that at most `below` of the values are below the true median.
    let mut exactly = 0.5_f64.powi(i32::try_from(count).ok()?);
    let mut at_most = exactly;
    let mut rank = None;
    for below in 0..count / 2 {
        if at_most > 0.025 {
            break;
        }
        rank = Some(below);
        exactly *= (count - below) as f64 / (below + 1) as f64;
        at_most += exactly;
    }
    rank.map(|rank| (sorted[rank], sorted[count - 1 - rank]))
}

fn sorted(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

/// The cost of a tool: the reduction of the rate of work by the tool, in percent of the rate without the tool.
pub(crate) struct Cost {
    percent: f64,
    interval: Option<(f64, f64)>,
}

impl Cost {
    /// Computes the cost from pairs of rates, with and without the tool.
    pub(crate) fn from_rates(with: &[f64], without: &[f64]) -> Self {
        let costs: Vec<f64> =
            with.iter().zip(without).map(|(with, without)| (1.0 - with / without) * 100.0).collect();
        Self { percent: median(&costs), interval: interval(&costs) }
    }

    /// The median cost and its confidence interval.
    pub(crate) fn text(&self) -> String {
        match self.interval {
            Some((low, high)) => format!("{:.1} % ({low:+.1} to {high:+.1})", self.percent),
            None => format!("{:.1} % (too few rounds)", self.percent),
        }
    }

    /// States whether the cost is at most `target` percent.
    pub(crate) fn verdict(&self, target: f64) -> &'static str {
        match self.interval {
            None => "unknown",
            Some((_, high)) if high <= target => "met",
            Some((low, _)) if low > target => "missed",
            Some((low, high)) if low <= 0.0 && high >= 0.0 => "undecided: within noise",
            Some(_) => "undecided: target inside the interval",
        }
    }
}

/// The median and its confidence interval, with a unit.
pub(crate) fn spread(values: &[f64], unit: &str) -> String {
    let middle = figure(median(values));
    match interval(values) {
        Some((low, high)) => format!("{middle} {unit} ({} to {})", figure(low), figure(high)),
        None => format!("{middle} {unit}"),
    }
}

/// The median and, in parentheses, the worst of relative errors, in percent. The worst error is the furthest from 0.
pub(crate) fn median_and_worst(errors: &[f64]) -> String {
    let worst = errors.iter().copied().max_by(|a, b| a.abs().total_cmp(&b.abs()));
    worst
        .map_or("-".to_owned(), |worst| format!("{:+.1} % ({:+.1} %)", median(errors) * 100.0, worst * 100.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_has_the_interval_of_the_sign_test() {
        let values = |count: u32| (1..=count).map(f64::from).collect::<Vec<_>>();
        assert_eq!(interval(&values(5)), None);
        assert_eq!(interval(&values(6)), Some((1.0, 6.0)));
        // According to tables of the sign test, the ends are the 2nd and 9th of 10 values, and the 6th and 15th of 20.
        assert_eq!(interval(&values(10)), Some((2.0, 9.0)));
        assert_eq!(interval(&values(20)), Some((6.0, 15.0)));
        assert!((median(&values(10)) - 5.5).abs() < 1e-9);
    }

    #[test]
    fn a_target_inside_the_interval_is_neither_met_nor_missed() {
        let cost = |low, high| Cost { percent: 0.0, interval: Some((low, high)) };
        assert_eq!(cost(0.5, 2.9).verdict(3.0), "met");
        assert_eq!(cost(3.1, 5.0).verdict(3.0), "missed");
        assert_eq!(cost(2.0, 5.0).verdict(3.0), "undecided: target inside the interval");
        assert_eq!(cost(-2.0, 5.0).verdict(3.0), "undecided: within noise");
    }
}
