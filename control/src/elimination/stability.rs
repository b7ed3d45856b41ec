// SPDX-License-Identifier: MIT OR Apache-2.0
//! How long a sufficient verdict on two subflows has held without interruption.

use std::collections::BTreeMap;

use mpwatch_model::flow::bottleneck::PairVerdict;
use mpwatch_model::id::SubflowId;
use mpwatch_model::unit::Nanos;

/// For each pair of subflows of a connection, the lower id first: since when a sufficient verdict has held.
#[derive(Default)]
pub(super) struct Stability {
    since: BTreeMap<(SubflowId, SubflowId), Nanos>,
}

impl Stability {
    /// Applies the sufficient verdicts of a snapshot. A pair that is missing in one snapshot starts again at zero.
    pub(super) fn update<'a>(&mut self, at: Nanos, sufficient: impl Iterator<Item = &'a PairVerdict>) {
        let previous = std::mem::take(&mut self.since);
        let with_time = |pair: &PairVerdict| {
            let key = key(pair.a, pair.b);
            (key, previous.get(&key).copied().unwrap_or(at))
        };
        self.since = sufficient.map(with_time).collect();
    }

    /// How long a sufficient verdict on the pair has held at `at`. `None`: it does not hold.
    pub(super) fn duration(&self, a: SubflowId, b: SubflowId, at: Nanos) -> Option<Nanos> {
        self.since.get(&key(a, b)).map(|since| at.since(*since))
    }
}

fn key(a: SubflowId, b: SubflowId) -> (SubflowId, SubflowId) {
    (a.min(b), a.max(b))
}
