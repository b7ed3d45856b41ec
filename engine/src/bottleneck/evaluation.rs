// SPDX-License-Identifier: MIT OR Apache-2.0
//! The results of an evaluation: a verdict for every pair of subflows.

use mpwatch_model::flow::bottleneck::{self, Evidence, Verdict};
use mpwatch_model::id::SubflowId;
use mpwatch_model::unit::Nanos;

/// Two subflows of a connection, the lower id first.
pub(super) type SubflowPair = (SubflowId, SubflowId);

/// The pair of these subflows.
pub(super) fn pair_of(a: SubflowId, b: SubflowId) -> SubflowPair {
    (a.min(b), a.max(b))
}

/// The result for one pair of subflows.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PairEvaluation {
    /// The subflow with the lower id.
    pub a: SubflowId,
    /// The other subflow.
    pub b: SubflowId,
    /// Whether the two subflows share a bottleneck.
    pub verdict: Verdict,
    /// Probability that they share a bottleneck. `None`: the method computes none, or has no samples.
    pub probability: Option<f64>,
    /// When the verdict was reached. `None`: the verdict is unknown.
    pub since: Option<Nanos>,
    /// The figures behind the verdict. `None`: the method exposes none, or has no samples.
    pub evidence: Option<Evidence>,
}

/// Groups the subflows by bottleneck: see [`bottleneck::groups`].
pub fn groups(subflows: &[SubflowId], pairs: &[PairEvaluation]) -> Vec<Vec<SubflowId>> {
    bottleneck::groups(subflows, pairs.iter().map(|pair| (pair.a, pair.b, pair.verdict, pair.probability)))
}

/// The result of one evaluation of a connection.
pub struct Evaluation<'a> {
    /// Time of the evaluation. It used all samples up to this time.
    pub at: Nanos,
    /// Every pair of subflows, in order of subflow ids.
    pub pairs: &'a [PairEvaluation],
    /// The subflows that the method would have closed so far. `None`: the method does not close subflows, so all but one subflow of each
    /// group count as extra subflows.
    pub closed: Option<Vec<SubflowId>>,
}
