// SPDX-License-Identifier: MIT OR Apache-2.0
//! How good a method's verdicts on connections are, when the queue of each subflow is known. Table III of `[MPTCP-D]`: which subflows would
//! be closed if each group kept its first one. Pure.

use std::collections::BTreeMap;
use std::net::IpAddr;

use mpwatch_model::flow::bottleneck::Verdict;
use mpwatch_model::flow::connection::Connection;

/// Of all connections at one time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Judgement {
    /// Subflows beyond one per queue, and those of them that would be closed.
    extra: u32,
    found: u32,
    /// Queues, and those that would lose their last subflow.
    queues: u32,
    lost: u32,
    /// Pairs of subflows, and those with a verdict.
    pairs: u32,
    decided: u32,
}

impl Judgement {
    /// Of these connections.
    pub(crate) fn of<'a>(
        connections: impl Iterator<Item = &'a Connection>,
        queues: &[(IpAddr, usize)],
    ) -> Self {
        connections.fold(Self::default(), |sum, connection| sum.with(connection, queues))
    }

    fn with(mut self, connection: &Connection, queues: &[(IpAddr, usize)]) -> Self {
        let Some(bottlenecks) = &connection.bottlenecks else { return self };
        // Subflows of each queue, and those that would be closed.
        let mut of_queue: BTreeMap<usize, (u32, u32)> = BTreeMap::new();
        for group in &bottlenecks.groups {
            for (nth, id) in group.iter().enumerate() {
                let subflow = connection.subflows.iter().find(|subflow| subflow.id == *id);
                let address = subflow.map(|subflow| subflow.local.ip());
                let Some((_, queue)) = queues.iter().find(|(of, _)| Some(*of) == address) else { continue };
                let (subflows, closed) = of_queue.entry(*queue).or_default();
                *subflows += 1;
                *closed += u32::from(nth > 0);
            }
        }
        for (subflows, closed) in of_queue.into_values() {
            self.extra += subflows - 1;
            self.found += closed.min(subflows - 1);
            self.queues += 1;
            self.lost += u32::from(closed == subflows);
        }
        self.pairs += u32::try_from(bottlenecks.pairs.len()).unwrap_or(u32::MAX);
        let decided = bottlenecks.pairs.iter().filter(|pair| pair.verdict != Verdict::Unknown).count();
        self.decided += u32::try_from(decided).unwrap_or(u32::MAX);
        self
    }

    /// The share of the extra subflows that was found. `None`: there were none.
    pub(crate) fn found(&self) -> Option<f64> {
        ratio(self.found, self.extra)
    }

    /// The share of the queues that would have lost all their subflows.
    pub(crate) fn falsely_closed(&self) -> Option<f64> {
        ratio(self.lost, self.queues)
    }

    /// Whether at least half of the pairs had a verdict.
    pub(crate) fn is_decided(&self) -> bool {
        self.pairs > 0 && self.decided * 2 >= self.pairs
    }

    /// How many pairs of subflows there were.
    pub(crate) fn pairs(&self) -> u32 {
        self.pairs
    }

    /// Whether there was anything to judge.
    pub(crate) fn has_pairs(&self) -> bool {
        self.pairs > 0
    }
}

fn ratio(part: u32, all: u32) -> Option<f64> {
    (all > 0).then(|| f64::from(part) / f64::from(all))
}
