// SPDX-License-Identifier: MIT OR Apache-2.0
//! Turns the log-odds of successive evaluations into a verdict. Windows overlap, so a single evaluation must not decide.

use mpwatch_model::flow::bottleneck::Verdict;
use mpwatch_model::unit::Nanos;

/// Weight of a new evaluation in the running mean of the log-odds.
const NEW_WEIGHT: f64 = 0.4;
/// Absolute log-odds above which a verdict is reached: odds of 9 to 1.
pub(super) const DECISIVE_LOG_ODDS: f64 = 2.2;
/// Number of consecutive evaluations that must agree to reach a verdict.
const EVALUATIONS_TO_DECIDE: u32 = 2;
/// A verdict without new samples is kept for this long: routes rarely change without traffic.
pub(super) const VERDICT_LIFETIME: Nanos = Nanos(10_000_000_000);

/// The verdict on a pair, and how it changes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Decision {
    pub(super) verdict: Verdict,
    /// When the verdict was reached. `None`: it is unknown.
    pub(super) since: Option<Nanos>,
    /// The verdict that the last evaluations suggest, and the number of consecutive evaluations that suggest it.
    candidate: Verdict,
    agreeing: u32,
}

/// The running mean after an evaluation.
pub(super) fn running_mean(odds: Option<f64>, new: f64) -> f64 {
    odds.map_or(new, |odds| odds + NEW_WEIGHT * (new - odds))
}

pub(super) fn probability(odds: f64) -> f64 {
    1.0 / (1.0 + (-odds).exp())
}

impl Decision {
    /// Reaches or withdraws a verdict. `odds`: log-odds of sharing. `otherwise`: the verdict without odds. `to_withdraw`: number of consecutive
    /// evaluations that must agree to withdraw a verdict.
    pub(super) fn update(&mut self, odds: Option<f64>, otherwise: Verdict, at: Nanos, to_withdraw: u32) {
        let candidate = match odds {
            None => otherwise,
            Some(odds) if odds > DECISIVE_LOG_ODDS => Verdict::Shared,
            Some(odds) if odds < -DECISIVE_LOG_ODDS => Verdict::Disjoint,
            // The odds are no longer decisive, but do not contradict the verdict.
            Some(odds) if self.verdict == Verdict::Shared && odds > 0.0 => Verdict::Shared,
            Some(odds) if self.verdict == Verdict::Disjoint && odds < 0.0 => Verdict::Disjoint,
            _ => Verdict::Unknown,
        };
        self.agreeing = if candidate == self.candidate { self.agreeing + 1 } else { 1 };
        self.candidate = candidate;
        let enough = if self.verdict == Verdict::Unknown { EVALUATIONS_TO_DECIDE } else { to_withdraw };
        if candidate != self.verdict && self.agreeing >= enough {
            self.verdict = candidate;
            self.since = (candidate != Verdict::Unknown).then_some(at);
        }
    }
}
