// SPDX-License-Identifier: MIT OR Apache-2.0
//! The verdicts that a method has reached, each with the time at which it was reached.

use std::collections::BTreeMap;

use mpwatch_model::flow::bottleneck::Verdict;
use mpwatch_model::id::SubflowId;
use mpwatch_model::unit::Nanos;

type SubflowPair = (SubflowId, SubflowId);

/// Verdict, probability (`None`: these methods compute none), and the time at which the verdict was reached (`None`: no verdict).
pub(super) type Decision = (Verdict, Option<f64>, Option<Nanos>);

#[derive(Default)]
pub(super) struct Decisions(BTreeMap<SubflowPair, (Verdict, Nanos)>);

impl Decisions {
    /// Records a verdict and returns it. If the previous verdict was the same, its time is kept.
    pub(super) fn reach(&mut self, pair: SubflowPair, verdict: Verdict, at: Nanos) -> Decision {
        let known = self.0.get(&pair).filter(|(known, _)| *known == verdict);
        let since = known.map_or(at, |(_, since)| *since);
        self.0.insert(pair, (verdict, since));
        (verdict, None, Some(since))
    }

    /// The latest verdict; `Unknown` if there is none.
    pub(super) fn latest(&self, pair: SubflowPair) -> Decision {
        let known = self.0.get(&pair).copied().unzip();
        (known.0.unwrap_or(Verdict::Unknown), None, known.1)
    }

    pub(super) fn forget(&mut self, subflow: SubflowId) {
        self.0.retain(|(a, b), _| *a != subflow && *b != subflow);
    }
}
