// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the evaluations so far say about two paths: whether they share a queue, and whether they share a rate cap.

use mpwatch_model::flow::bottleneck::{Evidence, Verdict};
use mpwatch_model::unit::Nanos;

use super::super::decision::{Decision, probability, running_mean};
use super::super::evaluation::PairEvaluation;

/// Number of consecutive evaluations that must agree to withdraw a verdict. On the corpus, wrong `disjoint` verdicts are withdrawn sooner with four,
/// and right `shared` ones are kept with eight.
const EVALUATIONS_TO_WITHDRAW: u32 = 8;
const EVALUATIONS_TO_WITHDRAW_DISJOINT: u32 = 4;

/// What the evaluations so far say about a question on two paths.
#[derive(Clone, Copy, Debug, Default)]
struct Answer {
    decision: Decision,
    /// Running mean of the log-odds of sharing. `None`: there was no evaluation.
    odds: Option<f64>,
    /// Evidence of the last evaluation that did not contradict the verdict.
    evidence: Evidence,
}

impl Answer {
    /// Adds an evaluation. `counts`: whether the running mean counts, because this window does not contain all earlier ones.
    fn update(&mut self, odds: f64, counts: bool, at: Nanos, evidence: Evidence) {
        let mean = running_mean(self.odds.filter(|_| counts), odds);
        self.odds = Some(mean);
        let to_withdraw = match self.decision.verdict {
            Verdict::Disjoint => EVALUATIONS_TO_WITHDRAW_DISJOINT,
            _ => EVALUATIONS_TO_WITHDRAW,
        };
        self.decision.update(Some(mean), Verdict::Unknown, at, to_withdraw);
        let is_against = match self.decision.verdict {
            Verdict::Shared => odds <= 0.0,
            Verdict::Disjoint => odds >= 0.0,
            Verdict::NoBottleneck | Verdict::Unknown => false,
        };
        if !is_against {
            self.evidence = evidence;
        }
    }
}

/// The result for two paths from the rates and delays of all connections.
#[derive(Clone, Copy, Debug, Default)]
pub struct PooledPair {
    /// Whether they share a queue.
    queue: Answer,
    /// Whether they share a rate cap, but no queue.
    cap: Answer,
    /// Length of the longest window so far, in steps.
    steps: u64,
    /// Time of the last evaluation.
    pub(super) updated: Nanos,
}

impl PooledPair {
    /// Adds an evaluation: the log-odds that the paths share a queue, and that they share a cap but no queue. `steps`: the length of its window.
    /// `is_longest`: no window is longer.
    pub(super) fn update(
        &mut self,
        (queue, cap): (f64, f64),
        (steps, is_longest): (u64, bool),
        at: Nanos,
        evidence: Evidence,
    ) {
        // A window longer than all before contains all that was in them. A new path shortens the windows of all pairs.
        let counts = is_longest || self.steps > steps;
        self.queue.update(queue, counts, at, evidence);
        // Step lengths can disagree: only a comparison that found one rate is evidence for a cap.
        let evidence = if evidence.link_rate.is_some() { evidence } else { self.cap.evidence };
        self.cap.update(cap, counts, at, evidence);
        (self.steps, self.updated) = (self.steps.max(steps), at);
    }

    /// Whether a verdict has been reached that differs from this one.
    pub(crate) fn disagrees_with(&self, verdict: Verdict) -> bool {
        self.queue.decision.since.is_some() && self.queue.decision.verdict != verdict
    }

    /// The result for two subflows on these paths. `own`: the result of their connection alone.
    pub(crate) fn evaluation(&self, own: &PairEvaluation) -> PairEvaluation {
        PairEvaluation {
            verdict: self.queue.decision.verdict,
            probability: self.queue.odds.map(probability),
            since: self.queue.decision.since,
            evidence: Some(self.queue.evidence),
            ..*own
        }
    }

    /// When a rate cap that the two paths share was found, and its evidence. `None`: no cap was found, or they share a queue.
    pub(crate) fn cap(&self) -> Option<(Nanos, Evidence)> {
        let found =
            self.cap.decision.verdict == Verdict::Shared && self.queue.decision.verdict != Verdict::Shared;
        self.cap.decision.since.filter(|_| found).map(|since| (since, self.cap.evidence))
    }
}
