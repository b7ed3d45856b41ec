// SPDX-License-Identifier: MIT OR Apache-2.0
//! The interface of a detection method.

use mpwatch_model::bottleneck::Verdict;
use mpwatch_model::id::SubflowId;
use mpwatch_model::sample::DelaySample;
use mpwatch_model::unit::Nanos;

use super::evaluation::{Cap, PairEvaluation};

/// A detection method, applied to one connection. Samples of one subflow arrive in order of time; those of different subflows are
/// interleaved in any order. Evaluations are requested at increasing times.
pub(crate) trait Method {
    /// Adds samples of a subflow.
    fn take(&mut self, subflow: SubflowId, samples: &[DelaySample]);

    /// Evaluates the samples up to this time: one result per pair of subflows with samples, in order of their ids.
    fn evaluate(&mut self, at: Nanos) -> Vec<PairEvaluation>;

    /// Rate caps that subflows share without sharing a queue, as of the last evaluation.
    fn caps(&self) -> &[Cap] {
        &[]
    }

    /// The subflows that the method would have closed by now. `None`: it does not choose.
    fn closed(&self) -> Option<Vec<SubflowId>> {
        None
    }

    /// Removes a subflow that has ended.
    fn forget(&mut self, subflow: SubflowId);

    /// Evaluation was suspended for this long; samples were added meanwhile.
    fn resume(&mut self, _suspended_for: Nanos) {}
}

/// Evaluates every pair of these subflows, which are in order of their ids. `evaluate` returns the verdict, its probability and the time
/// at which it was reached.
pub(crate) fn every_pair(
    ids: &[SubflowId],
    mut evaluate: impl FnMut(SubflowId, SubflowId) -> (Verdict, Option<f64>, Option<Nanos>),
) -> Vec<PairEvaluation> {
    let mut pairs = Vec::new();
    for (index, &a) in ids.iter().enumerate() {
        for &b in &ids[index + 1..] {
            let (verdict, probability, since) = evaluate(a, b);
            pairs.push(PairEvaluation { a, b, verdict, probability, since, evidence: None });
        }
    }
    pairs
}
