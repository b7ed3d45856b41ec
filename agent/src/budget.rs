// SPDX-License-Identifier: MIT OR Apache-2.0
//! Keeps the cost of mpwatch within its budget: does less, one step after the other, while it costs more, and more again when it costs less.

use std::time::Duration;

use mpwatch_ebpf::tracer::SamplingRate;
use mpwatch_model::host::machine::MissingHook;
use mpwatch_model::host::overhead::Overhead;

use crate::quantity::in_percent;
use crate::windows::PERIOD;

/// Snapshots after a change before the next one, in which its effect shows. The first second of tracing is dearer than the rest.
const SETTLING: u32 = 8;
/// Snapshots before something is done more again.
const CALM: u32 = 2 * SETTLING;
/// Share of the budget below which something is done more again.
const LOW: f64 = 0.7;
/// Weight of the latest snapshot in the mean.
const WEIGHT: f64 = 0.25;

/// What a step does less of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reduces {
    Windows,
    Samples,
    Rtt,
}

/// A step that saves CPU time; it keeps the savings of the steps before.
#[derive(Debug, PartialEq)]
pub(crate) struct Step {
    reduces: Reduces,
    /// Least time from one window of a sampled ledger to the next.
    pub(crate) window_period: Duration,
    pub(crate) pace: SamplingRate,
    /// What is not done any more, and which values are less precise without it.
    what: &'static str,
    costs: &'static str,
}

const WINDOWS: &str = "window of the CPU ledger every second";
const SAMPLES: &str = "delay samples at full rate";

/// In the order in which they are taken. They are undone in the reverse order.
static STEPS: [Step; 5] = [
    Step {
        reduces: Reduces::Windows,
        window_period: Duration::from_secs(4),
        pace: SamplingRate::FULL,
        what: WINDOWS,
        costs: "precise CPU time and energy of flows: windows are 4 s apart",
    },
    Step {
        reduces: Reduces::Windows,
        window_period: Duration::from_secs(16),
        pace: SamplingRate::FULL,
        what: WINDOWS,
        costs: "precise CPU time and energy of flows: windows are 16 s apart",
    },
    Step {
        reduces: Reduces::Samples,
        window_period: Duration::from_secs(16),
        pace: SamplingRate { interval_factor: 4, ..SamplingRate::FULL },
        what: SAMPLES,
        costs: "fast verdicts on bottlenecks: a quarter of the delay samples is taken",
    },
    Step {
        reduces: Reduces::Samples,
        window_period: Duration::from_secs(16),
        pace: SamplingRate { interval_factor: 16, ..SamplingRate::FULL },
        what: SAMPLES,
        costs: "fast verdicts on bottlenecks: a sixteenth of the delay samples is taken",
    },
    Step {
        reduces: Reduces::Rtt,
        window_period: Duration::from_secs(16),
        pace: SamplingRate { segments_per_tick: 1, every_nth: 256, interval_factor: 16 },
        what: "RTTs of most segments of fast subflows",
        costs: "precise RTT percentiles and times of stalls: at most one segment per timer tick and 256 segments counts",
    },
];

/// The budget and the steps that were taken to keep it. A pure function of the measured costs.
#[derive(Debug)]
pub(crate) struct Budget {
    /// Share of the machine's CPU time. `None`: no limit.
    limit: Option<f64>,
    /// The steps that save something with the settings of this run.
    steps: Vec<&'static Step>,
    /// How many of them are taken.
    taken: usize,
    /// Mean cost. `None`: not measured yet.
    ratio: Option<f64>,
    /// Snapshots since the last change.
    since_change: u32,
}

impl Budget {
    /// `reducible`: what this run does at all.
    pub(crate) fn new(limit: Option<f64>, reducible: &[Reduces]) -> Self {
        let steps = STEPS.iter().filter(|step| reducible.contains(&step.reduces)).collect();
        Self { limit, steps, taken: 0, ratio: None, since_change: 0 }
    }

    /// Takes the cost between two snapshots as a share of the machine's CPU time. Returns whether the step has changed.
    pub(crate) fn observe(&mut self, cost: f64) -> bool {
        let ratio = self.ratio.map_or(cost, |mean| mean + (cost - mean) * WEIGHT);
        self.ratio = Some(ratio);
        self.since_change += 1;
        let Some(limit) = self.limit else { return false };
        if ratio > limit && self.since_change >= SETTLING && self.taken < self.steps.len() {
            self.taken += 1;
        } else if ratio < limit * LOW && self.since_change >= CALM && self.taken > 0 {
            self.taken -= 1;
        } else {
            return false;
        }
        self.since_change = 0;
        true
    }

    /// How closely segments are looked at now.
    pub(crate) fn pace(&self) -> SamplingRate {
        self.current().map_or(SamplingRate::FULL, |step| step.pace)
    }

    /// Least time from one window to the next now.
    pub(crate) fn window_period(&self) -> Duration {
        self.current().map_or(PERIOD, |step| step.window_period)
    }

    fn current(&self) -> Option<&'static Step> {
        self.taken.checked_sub(1).map(|last| self.steps[last])
    }

    /// What is less precise now, and why.
    pub(crate) fn missing(&self) -> Vec<MissingHook> {
        let taken = &self.steps[..self.taken];
        let is_last_of_its_kind =
            |index: usize| taken.get(index + 1).is_none_or(|next| next.reduces != taken[index].reduces);
        let limit = in_percent(self.limit.unwrap_or(1.0));
        let why = format!("mpwatch would take more than {limit} of the CPU time, see trace.budget");
        let last = taken.iter().enumerate().filter(|(index, _)| is_last_of_its_kind(*index));
        last.map(|(_, step)| MissingHook {
            what: step.what.to_owned(),
            costs: step.costs.to_owned(),
            why: why.clone(),
        })
        .collect()
    }

    /// `None`: not measured yet.
    pub(crate) fn overhead(&self) -> Option<Overhead> {
        let reductions = u8::try_from(self.taken).unwrap_or(u8::MAX);
        self.ratio.map(|ratio| Overhead { ratio, budget: self.limit, reductions })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Reduces; 3] = [Reduces::Windows, Reduces::Samples, Reduces::Rtt];

    /// Numbers of steps taken after each of so many snapshots of the same cost.
    fn run(budget: &mut Budget, cost: f64, snapshots: usize) -> Vec<u8> {
        let each = |_| {
            budget.observe(cost);
            budget.overhead().unwrap().reductions
        };
        (0..snapshots).map(each).collect()
    }

    #[test]
    fn every_step_is_taken_while_it_costs_too_much_and_undone_when_it_does_not() {
        let mut budget = Budget::new(Some(0.01), &ALL);
        let up = run(&mut budget, 0.02, 60);
        assert!(up.windows(2).all(|pair| (0..=1).contains(&(pair[1] - pair[0]))), "{up:?}");
        assert_eq!((up[0], up[59]), (0, 5));
        assert_eq!(budget.pace(), STEPS[4].pace);
        let missing: Vec<String> = budget.missing().into_iter().map(|one| one.costs).collect();
        assert_eq!(missing, [STEPS[1].costs, STEPS[3].costs, STEPS[4].costs]);

        let down = run(&mut budget, 0.001, 120);
        assert!(down.windows(2).all(|pair| (0..=1).contains(&(pair[0] - pair[1]))), "{down:?}");
        assert_eq!(down[119], 0);
        assert_eq!((budget.pace(), budget.window_period()), (SamplingRate::FULL, PERIOD));
        assert_eq!(budget.missing(), []);
    }

    #[test]
    fn a_short_peak_and_a_cost_near_the_limit_change_nothing() {
        let mut budget = Budget::new(Some(0.01), &ALL);
        run(&mut budget, 0.03, 1);
        assert_eq!(run(&mut budget, 0.005, 100), [0; 100]);
        run(&mut budget, 0.02, 8);
        let taken = budget.taken;
        assert!(taken > 0);
        run(&mut budget, 0.0085, 20);
        let settled = budget.taken;
        assert_eq!(run(&mut budget, 0.0085, 100), vec![u8::try_from(settled).unwrap(); 100]);
    }

    #[test]
    fn without_a_limit_the_cost_is_only_measured() {
        let mut budget = Budget::new(None, &ALL);
        assert_eq!(budget.overhead(), None);
        assert_eq!(run(&mut budget, 0.9, 50), [0; 50]);
        assert_eq!(budget.overhead(), Some(Overhead { ratio: 0.9, budget: None, reductions: 0 }));
    }

    #[test]
    fn steps_that_save_nothing_are_skipped() {
        let mut budget = Budget::new(Some(0.01), &[Reduces::Rtt]);
        assert_eq!(run(&mut budget, 0.02, 60)[59], 1);
        assert_eq!(budget.missing().len(), 1);
    }
}
