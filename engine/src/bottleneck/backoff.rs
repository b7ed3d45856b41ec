// SPDX-License-Identifier: MIT OR Apache-2.0
//! Suspends evaluation, the main cost of detection, while the verdicts of a connection do not change. Samples are still added (20 ns each),
//! so windows are full when evaluation resumes. All times are times of samples, so a replay evaluates when the live run did.

use mpwatch_model::flow::bottleneck::Verdict;
use mpwatch_model::id::SubflowId;
use mpwatch_model::kernel::sample::DelaySample;
use mpwatch_model::unit::Nanos;

use super::evaluation::PairEvaluation;
use super::traffic::{Change, Traffic};

/// Evaluation is suspended when no verdict has changed for this long. Undecided pairs prevent this, except after a backoff without changes.
const STABLE_AFTER: Nanos = Nanos(3_000_000_000);
/// Evaluation is suspended after this time even if pairs are undecided or verdicts keep changing.
const UNDECIDED_AFTER: Nanos = Nanos(12_000_000_000);
/// Each backoff is twice as long as the previous backoff, within these limits.
const MIN_BACKOFF: Nanos = Nanos(4_000_000_000);
const MAX_BACKOFF: Nanos = Nanos(30_000_000_000);

/// Whether an evaluation takes place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Evaluate,
    /// Evaluate, after evaluation was suspended for this long.
    Resume(Nanos),
    Skip,
}

/// The backoff of one connection.
#[derive(Default)]
pub(super) struct Backoff {
    state: State,
    /// Length of the last backoff. 0 after a restart of traffic, so that the next backoff has the minimum length.
    length: Nanos,
    verdicts: Vec<(SubflowId, SubflowId, Verdict)>,
    /// When the verdicts last changed.
    changed: Nanos,
    traffic: Traffic,
    /// Largest change of traffic since the last step.
    change: Change,
}

#[derive(Clone, Copy)]
enum State {
    Evaluating { since: Nanos },
    Suspended { since: Nanos, until: Nanos },
}

impl Default for State {
    fn default() -> Self {
        Self::Evaluating { since: Nanos(0) }
    }
}

impl Backoff {
    /// Compares new samples with earlier traffic.
    pub(super) fn add(&mut self, subflow: SubflowId, samples: &[DelaySample]) {
        let is_suspended = matches!(self.state, State::Suspended { .. });
        self.change = self.change.max(self.traffic.add(subflow, samples, is_suspended));
    }

    pub(super) fn forget(&mut self, subflow: SubflowId) {
        self.change = self.change.max(self.traffic.forget(subflow));
    }

    pub(super) fn step(&mut self, at: Nanos) -> Step {
        let change = std::mem::take(&mut self.change);
        let step = match self.state {
            State::Suspended { since, until } if (since..until).contains(&at) && change == Change::None => {
                return Step::Skip;
            }
            State::Evaluating { since } if at >= since && change != Change::Restart => return Step::Evaluate,
            State::Suspended { since, .. } => Step::Resume(at.since(since)),
            State::Evaluating { .. } => Step::Evaluate,
        };
        self.state = State::Evaluating { since: at };
        // A value out of range ends a backoff but keeps its length: in a congested queue, values often leave their ranges.
        if change == Change::Restart {
            (self.length, self.changed) = (Nanos(0), at);
        }
        step
    }

    /// Suspends evaluation if these results allow it.
    pub(super) fn evaluated(&mut self, at: Nanos, pairs: &[PairEvaluation]) {
        let State::Evaluating { since } = self.state else { return };
        let verdicts: Vec<_> = pairs.iter().map(|pair| (pair.a, pair.b, pair.verdict)).collect();
        if verdicts != self.verdicts {
            (self.changed, self.verdicts) = (at, verdicts);
            self.traffic.forget_ranges();
        }
        let is_recheck = self.changed < since;
        let is_undecided = pairs.iter().any(|pair| pair.verdict == Verdict::Unknown);
        let enough = if is_undecided && !is_recheck { UNDECIDED_AFTER } else { STABLE_AFTER };
        let is_stable = at.since(self.changed.max(since)) >= enough;
        if !pairs.is_empty() && (is_stable || at.since(since) >= UNDECIDED_AFTER) {
            self.length = Nanos(self.length.0 * 2).clamp(MIN_BACKOFF, MAX_BACKOFF);
            self.state = State::Suspended { since: at, until: at + self.length };
        }
    }
}
