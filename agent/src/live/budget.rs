// SPDX-License-Identifier: MIT OR Apache-2.0
//! Keeps the CPU time of mpwatch within its budget: makes one reduction of tracing after the other while the cost exceeds the budget, and
//! undoes them when the cost is well below the budget.

use std::time::Duration;

use self::Reducible::{Rtt, Samples, Windows};
use mpwatch_ebpf::tracer::SamplingRate;
use mpwatch_model::host::machine::{MissingHook, Overhead};

use crate::live::windows::PERIOD;
use crate::quantity::in_percent;

/// Snapshots to wait after a change until its effect is measured. Tracing costs more during its first second.
const SETTLING: u32 = 8;
/// Snapshots to wait before undoing a reduction. Doubled whenever an undone reduction must be made again, so that reductions do not flap.
const WAIT: u32 = 2 * SETTLING;
const MAX_WAIT: u32 = 64 * WAIT;
/// A reduction is undone if the cost is below this share of the budget.
const UNDO_BELOW: f64 = 0.7;
/// Weight of the latest snapshot in the mean cost.
const WEIGHT: f64 = 0.25;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reducible {
    Windows,
    Samples,
    Rtt,
}

impl Reducible {
    fn what(self) -> &'static str {
        match self {
            Windows => "window of the CPU ledger every second",
            Samples => "delay samples at full rate",
            Rtt => "RTTs of most segments of fast subflows",
        }
    }
}

#[derive(Debug, PartialEq)]
struct Reduction {
    reduces: Reducible,
    /// The window period in seconds, or the factor of the interval between delay samples.
    factor: u32,
    /// Values that are less precise with the reduction.
    costs: &'static str,
}

/// Sampling rate of received segments with the last reduction.
const FEW_SEGMENTS: SamplingRate =
    SamplingRate { segments_per_tick: 1, every_nth: 256, ..SamplingRate::FULL };

const fn reduction(reduces: Reducible, factor: u32, costs: &'static str) -> Reduction {
    Reduction { reduces, factor, costs }
}

/// The reductions in the order in which they are made. They are undone in the reverse order.
static REDUCTIONS: [Reduction; 5] = [
    reduction(Windows, 4, "precise CPU time and energy of flows: windows are 4 s apart"),
    reduction(Windows, 16, "precise CPU time and energy of flows: windows are 16 s apart"),
    reduction(Samples, 4, "fast verdicts on bottlenecks: only a quarter of the delay samples"),
    reduction(Samples, 16, "fast verdicts on bottlenecks: only a sixteenth of the delay samples"),
    reduction(
        Rtt,
        1,
        "precise RTT percentiles and times of stalls: one segment per timer tick, then every 256th",
    ),
];

/// The budget and the reductions in force. A pure function of the measured costs.
#[derive(Debug)]
pub(crate) struct Budget {
    /// Share of the machine's CPU time. `None`: no limit.
    limit: Option<f64>,
    /// The reductions that save something with the settings of this run.
    reductions: Vec<&'static Reduction>,
    /// Number of reductions in force, from the first on.
    in_force: usize,
    /// Mean cost as a share of the CPU time. `None`: not measured.
    ratio: Option<f64>,
    /// Snapshots since the last change.
    since_change: u32,
    /// Snapshots to wait before undoing a reduction.
    wait: u32,
    /// Whether the last change undid a reduction.
    has_undone: bool,
}

impl Budget {
    /// `limit`: share of the CPU time; `None`: no limit. `reducible`: the work that this run does.
    pub(crate) fn new(limit: Option<f64>, reducible: &[Reducible]) -> Self {
        let reductions = REDUCTIONS.iter().filter(|next| reducible.contains(&next.reduces)).collect();
        Self { limit, reductions, in_force: 0, ratio: None, since_change: 0, wait: WAIT, has_undone: false }
    }

    /// Adds the cost between two snapshots, as a share of the machine's CPU time. Returns whether the reductions have changed.
    pub(crate) fn observe(&mut self, cost: f64) -> bool {
        let ratio = self.ratio.map_or(cost, |mean| mean + (cost - mean) * WEIGHT);
        self.ratio = Some(ratio);
        self.since_change += 1;
        let Some(limit) = self.limit else { return false };
        if ratio > limit && self.since_change >= SETTLING && self.in_force < self.reductions.len() {
            self.in_force += 1;
            if self.since_change >= MAX_WAIT {
                self.wait = WAIT;
            } else if self.has_undone {
                self.wait = (self.wait * 2).min(MAX_WAIT);
            }
            self.has_undone = false;
        } else if ratio < limit * UNDO_BELOW && self.since_change >= self.wait && self.in_force > 0 {
            self.in_force -= 1;
            self.has_undone = true;
        } else {
            return false;
        }
        self.since_change = 0;
        true
    }

    /// Current sampling rate of received segments.
    pub(crate) fn sampling_rate(&self) -> SamplingRate {
        let rate = if self.factor(Rtt).is_some() { FEW_SEGMENTS } else { SamplingRate::FULL };
        SamplingRate { interval_factor: self.factor(Samples).unwrap_or(rate.interval_factor), ..rate }
    }

    /// Current length of the period in which at most one window opens.
    pub(crate) fn window_period(&self) -> Duration {
        self.factor(Windows).map_or(PERIOD, |seconds| Duration::from_secs(seconds.into()))
    }

    /// The factor of the last reduction of this work that is in force. `None`: none is.
    fn factor(&self, work: Reducible) -> Option<u32> {
        let mut in_force = self.reductions[..self.in_force].iter().rev();
        in_force.find(|reduction| reduction.reduces == work).map(|reduction| reduction.factor)
    }

    /// Values that are less precise now, and why.
    pub(crate) fn missing(&self) -> Vec<MissingHook> {
        let in_force = &self.reductions[..self.in_force];
        let is_last_of_its_kind =
            |index: usize| in_force.get(index + 1).is_none_or(|next| next.reduces != in_force[index].reduces);
        let limit = in_percent(self.limit.unwrap_or(1.0));
        let why = format!("mpwatch would use more than {limit} of the CPU time, see {}", MissingHook::BUDGET);
        let last = in_force.iter().enumerate().filter(|(index, _)| is_last_of_its_kind(*index));
        last.map(|(_, reduction)| MissingHook {
            what: reduction.reduces.what().to_owned(),
            costs: reduction.costs.to_owned(),
            why: why.clone(),
        })
        .collect()
    }

    /// The mean cost and its limit. `None`: not measured.
    pub(crate) fn overhead(&self) -> Option<Overhead> {
        let reductions = u8::try_from(self.in_force).unwrap_or(u8::MAX);
        self.ratio.map(|ratio| Overhead { ratio, budget: self.limit, reductions })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Reducible; 3] = [Windows, Samples, Rtt];

    /// Observes `snapshots` snapshots of the same cost. Returns the number of reductions in force after each.
    fn run(budget: &mut Budget, cost: f64, snapshots: usize) -> Vec<u8> {
        let each = |_| {
            budget.observe(cost);
            budget.overhead().unwrap().reductions
        };
        (0..snapshots).map(each).collect()
    }

    #[test]
    fn reductions_are_made_while_the_cost_exceeds_the_budget_and_undone_afterwards() {
        let mut budget = Budget::new(Some(0.01), &ALL);
        let up = run(&mut budget, 0.02, 60);
        assert!(up.windows(2).all(|pair| (0..=1).contains(&(pair[1] - pair[0]))), "{up:?}");
        assert_eq!((up[0], up[59]), (0, 5));
        assert_eq!(budget.sampling_rate(), SamplingRate { interval_factor: 16, ..FEW_SEGMENTS });
        let missing: Vec<String> = budget.missing().into_iter().map(|hook| hook.costs).collect();
        assert_eq!(missing, [REDUCTIONS[1].costs, REDUCTIONS[3].costs, REDUCTIONS[4].costs]);

        let down = run(&mut budget, 0.001, 120);
        assert!(down.windows(2).all(|pair| (0..=1).contains(&(pair[0] - pair[1]))), "{down:?}");
        assert_eq!(down[119], 0);
        assert_eq!((budget.sampling_rate(), budget.window_period()), (SamplingRate::FULL, PERIOD));
        assert_eq!(budget.missing(), []);
    }

    #[test]
    fn a_short_peak_and_a_cost_near_the_limit_change_nothing() {
        let mut budget = Budget::new(Some(0.01), &ALL);
        run(&mut budget, 0.03, 1);
        assert_eq!(run(&mut budget, 0.005, 100), [0; 100]);
        run(&mut budget, 0.02, 8);
        assert!(budget.in_force > 0);
        run(&mut budget, 0.0085, 20);
        let settled = budget.in_force;
        assert_eq!(run(&mut budget, 0.0085, 100), vec![u8::try_from(settled).unwrap(); 100]);
    }

    #[test]
    fn reductions_do_not_flap() {
        let mut budget = Budget::new(Some(0.01), &ALL[..1]);
        let mut changes = 0;
        // Every reduction saves so much that undoing it seems possible.
        for _ in 0..800 {
            changes += u32::from(budget.observe(if budget.in_force > 0 { 0.004 } else { 0.02 }));
        }
        assert!((4..=14).contains(&changes), "{changes} changes in 800 snapshots");
    }

    #[test]
    fn without_a_limit_the_cost_is_only_measured() {
        let mut budget = Budget::new(None, &ALL);
        assert_eq!(budget.overhead(), None);
        assert_eq!(run(&mut budget, 0.9, 50), [0; 50]);
        assert_eq!(budget.overhead(), Some(Overhead { ratio: 0.9, budget: None, reductions: 0 }));
    }

    #[test]
    fn reductions_that_save_nothing_are_skipped() {
        let mut budget = Budget::new(Some(0.01), &[Rtt]);
        assert_eq!(run(&mut budget, 0.02, 60)[59], 1);
        assert_eq!(budget.missing().len(), 1);
    }
}
