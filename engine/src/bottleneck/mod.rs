// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which subflows share a bottleneck: pure functions over the sender's samples, no I/O and no clock, so that a recording gives the
//! verdicts of the live run. [`concordance`] is the method that mpwatch uses; the published ones stand beside it behind the same
//! trait, to be compared on the same samples.

mod cap;
mod concordance;
mod dcw;
mod detector;
mod dwc;
mod ese;
mod feature;
mod group;
mod name;
mod odds;
mod rest;
mod rfc8382;
mod series;
mod statistics;
mod wavelet;

#[cfg(test)]
pub(crate) mod tests;

use mpwatch_model::bottleneck::{Evidence, Verdict};
use mpwatch_model::id::SubflowId;
use mpwatch_model::sample::DelaySample;
use mpwatch_model::unit::Nanos;

pub use cap::Cap;
pub use detector::{Detector, Look};
pub use group::groups;
pub use name::Contestant;
pub use odds::TERMS;
pub use rest::Rested;

/// What a method thinks of two subflows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PairEvaluation {
    /// The subflow with the lower id.
    pub a: SubflowId,
    /// The other one.
    pub b: SubflowId,
    /// What they have in common.
    pub verdict: Verdict,
    /// Probability that they share a bottleneck. `None`: the method has no such figure, or no samples.
    pub probability: Option<f64>,
    /// When the verdict was reached. `None`: it is unknown.
    pub since: Option<Nanos>,
    /// What it rests on. `None`: the method has none to show, or no samples.
    pub evidence: Option<Evidence>,
}

/// A way to find out, for one connection. Methods see points in batches, a subflow's own in order, those of different subflows
/// in any order; and are asked from time to time, with times that grow.
pub trait Method {
    /// Takes in points of a subflow.
    fn take(&mut self, subflow: SubflowId, points: &[DelaySample]);

    /// Thinks again, with what was sampled up to this time: one evaluation on each two subflows that have samples, in order of their ids.
    fn judge(&mut self, at: Nanos) -> Vec<PairEvaluation>;

    /// Caps that subflows share without sharing a queue, as of the last time it was asked.
    fn caps(&self) -> &[Cap] {
        &[]
    }

    /// The subflows that it would have closed by now. `None`: it does not choose.
    fn closed(&self) -> Option<Vec<SubflowId>> {
        None
    }

    /// A subflow has ended.
    fn forget(&mut self, subflow: SubflowId);

    /// Whether its verdicts bear it that paths are sampled thinly for a while once they have been standing.
    fn may_rest(&self) -> bool {
        false
    }

    /// Nothing could be seen for a while, because nobody wanted to see it.
    fn rested(&mut self, _rested: Rested) {}
}

/// Opinions on each two of these subflows, which stand in order of their ids: verdict, probability, and when it was reached.
fn pairs(
    ids: &[SubflowId],
    mut think: impl FnMut(SubflowId, SubflowId) -> (Verdict, Option<f64>, Option<Nanos>),
) -> Vec<PairEvaluation> {
    let mut evaluations = Vec::new();
    for (place, &a) in ids.iter().enumerate() {
        for &b in &ids[place + 1..] {
            let (verdict, probability, since) = think(a, b);
            evaluations.push(PairEvaluation { a, b, verdict, probability, since, evidence: None });
        }
    }
    evaluations
}
