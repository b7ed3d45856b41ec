// SPDX-License-Identifier: MIT OR Apache-2.0
//! How long the verdict that two subflows share a bottleneck has held without interruption.

use std::collections::BTreeMap;

use mpwatch_model::flow::bottleneck::{PairVerdict, Verdict};
use mpwatch_model::id::SubflowId;
use mpwatch_model::unit::Nanos;

/// For each pair of subflows of a connection, the lower id first: since when its `Shared` verdict has held.
#[derive(Default)]
pub(super) struct Stability {
    since: BTreeMap<(SubflowId, SubflowId), Nanos>,
}

impl Stability {
    /// Applies the verdicts of a snapshot. A pair's time starts again if its verdict is not `Shared`, or less probable than `min_probability`.
    pub(super) fn update<'a>(
        &mut self,
        at: Nanos,
        pairs: impl Iterator<Item = &'a PairVerdict>,
        min_probability: f64,
    ) {
        let sufficient = |pair: &&PairVerdict| {
            pair.verdict == Verdict::Shared && pair.probability.is_none_or(|p| p >= min_probability)
        };
        let previous = std::mem::take(&mut self.since);
        let with_time = |pair: &PairVerdict| {
            let key = key(pair.a, pair.b);
            (key, previous.get(&key).copied().unwrap_or(at))
        };
        self.since = pairs.filter(sufficient).map(with_time).collect();
    }

    /// How long the pair's `Shared` verdict has held at `at`. `None`: it does not hold.
    pub(super) fn duration(&self, a: SubflowId, b: SubflowId, at: Nanos) -> Option<Nanos> {
        self.since.get(&key(a, b)).map(|since| at.since(*since))
    }
}

fn key(a: SubflowId, b: SubflowId) -> (SubflowId, SubflowId) {
    (a.min(b), a.max(b))
}
