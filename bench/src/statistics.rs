// SPDX-License-Identifier: MIT OR Apache-2.0
//! What paired measurements say: the median, an interval for it that assumes nothing about how they are distributed, and whether
//! a target is met.

use super::table::figure;

/// The middle of some numbers; 0 of none.
pub(super) fn median(values: &[f64]) -> f64 {
    let sorted = sorted(values);
    match sorted.len() {
        0 => 0.0,
        odd if odd % 2 == 1 => sorted[odd / 2],
        even => f64::midpoint(sorted[even / 2 - 1], sorted[even / 2]),
    }
}

/// Where the true median lies with a probability of at least 95 %: between the values of two ranks (sign test). `None`: too few.
pub(super) fn interval(values: &[f64]) -> Option<(f64, f64)> {
    let sorted = sorted(values);
    let count = sorted.len();
    // Probability that at most `rank` of the values lie below the true median.
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

/// The cost of something, measured often.
pub(super) struct Cost {
    percent: f64,
    interval: Option<(f64, f64)>,
}

impl Cost {
    /// From the rates with it and without, measured in pairs.
    pub(super) fn of_rates(with: &[f64], without: &[f64]) -> Self {
        let costs: Vec<f64> =
            with.iter().zip(without).map(|(with, without)| (1.0 - with / without) * 100.0).collect();
        Self { percent: median(&costs), interval: interval(&costs) }
    }

    /// The median and its interval.
    pub(super) fn text(&self) -> String {
        match self.interval {
            Some((low, high)) => format!("{:.1} % ({low:+.1} to {high:+.1})", self.percent),
            None => format!("{:.1} % (too few rounds)", self.percent),
        }
    }

    /// Whether it is at most so many percent, as far as the interval tells.
    pub(super) fn verdict(&self, most: f64) -> &'static str {
        match self.interval {
            None => "unknown",
            Some((_, high)) if high <= most => "met",
            Some((low, _)) if low > most => "missed",
            Some((low, high)) if low <= 0.0 && high >= 0.0 => "open: lost in noise",
            Some(_) => "open: inside the interval",
        }
    }
}

/// The median of some numbers and its interval, in a unit.
pub(super) fn spread(values: &[f64], unit: &str) -> String {
    let middle = figure(median(values));
    match interval(values) {
        Some((low, high)) => format!("{middle} {unit} ({} to {})", figure(low), figure(high)),
        None => format!("{middle} {unit}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_of_the_median_is_that_of_the_sign_test() {
        let values = |count: u32| (1..=count).map(f64::from).collect::<Vec<_>>();
        assert_eq!(interval(&values(5)), None);
        assert_eq!(interval(&values(6)), Some((1.0, 6.0)));
        // Tables of the sign test: the 2nd and 9th of 10, the 6th and 15th of 20.
        assert_eq!(interval(&values(10)), Some((2.0, 9.0)));
        assert_eq!(interval(&values(20)), Some((6.0, 15.0)));
        assert!((median(&values(10)) - 5.5).abs() < 1e-9);
    }

    #[test]
    fn a_target_is_met_or_missed_only_when_the_interval_says_so() {
        let cost = |low, high| Cost { percent: 0.0, interval: Some((low, high)) };
        assert_eq!(cost(0.5, 2.9).verdict(3.0), "met");
        assert_eq!(cost(3.1, 5.0).verdict(3.0), "missed");
        assert_eq!(cost(2.0, 5.0).verdict(3.0), "open: inside the interval");
        assert_eq!(cost(-2.0, 5.0).verdict(3.0), "open: lost in noise");
    }
}
