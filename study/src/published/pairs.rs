// SPDX-License-Identifier: MIT OR Apache-2.0
//! Evaluates all pairs of subflows.

use mpwatch_engine::bottleneck::PairEvaluation;
use mpwatch_model::flow::bottleneck::Verdict;
use mpwatch_model::id::SubflowId;
use mpwatch_model::unit::Nanos;

/// Evaluates every pair of these subflows, which are sorted by id. `evaluate` returns verdict, probability, and the time of the verdict.
pub(super) fn every_pair(
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
