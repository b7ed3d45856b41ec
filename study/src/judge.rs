// SPDX-License-Identifier: MIT OR Apache-2.0
//! Evaluates a method's verdicts on connections whose queues are known, as in Table III of `[MPTCP-D]`: which subflows would be
//! closed. For a method that closes subflows by itself, these are the subflows that it closed; for any other method, all subflows of
//! each group except the first. No I/O.

use std::collections::BTreeMap;
use std::net::IpAddr;

use mpwatch_model::flow::bottleneck::Verdict;
use mpwatch_model::flow::connection::Connection;

use crate::closed_subflows::is_closed;

/// The evaluation of all connections at one time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Judgement {
    /// Number of subflows beyond one per queue, and the number of them that would be closed.
    extra: u32,
    found: u32,
    /// Number of queues, and the number of them that would lose their last subflow.
    queues: u32,
    lost: u32,
    /// Number of pairs of subflows, and the number of them that have a verdict.
    pairs: u32,
    decided: u32,
}

impl Judgement {
    /// Evaluates the verdicts on these connections. `queues`: the queue of each local address.
    pub(crate) fn from_connections<'a>(
        connections: impl Iterator<Item = &'a Connection>,
        queues: &[(IpAddr, usize)],
    ) -> Self {
        connections.fold(Self::default(), |sum, connection| sum.with(connection, queues))
    }

    fn with(mut self, connection: &Connection, queues: &[(IpAddr, usize)]) -> Self {
        let Some(bottlenecks) = &connection.bottlenecks else { return self };
        // For each queue, the number of its subflows, and the number of them that would be closed.
        let mut by_queue: BTreeMap<usize, (u32, u32)> = BTreeMap::new();
        for group in &bottlenecks.groups {
            for (nth, id) in group.iter().enumerate() {
                let subflow = connection.subflows.iter().find(|subflow| subflow.id == *id);
                let address = subflow.map(|subflow| subflow.local.ip());
                let Some((_, queue)) = queues.iter().find(|(local, _)| Some(*local) == address) else {
                    continue;
                };
                let (subflows, closed) = by_queue.entry(*queue).or_default();
                *subflows += 1;
                *closed += u32::from(is_closed(bottlenecks.method, *id).unwrap_or(nth > 0));
            }
        }
        for (subflows, closed) in by_queue.into_values() {
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

    /// The share of the extra subflows that was found. `None`: there were no extra subflows.
    pub(crate) fn found(&self) -> Option<f64> {
        ratio(self.found, self.extra)
    }

    /// The share of the queues that would lose all their subflows. `None`: there were no queues.
    pub(crate) fn falsely_closed(&self) -> Option<f64> {
        ratio(self.lost, self.queues)
    }

    /// Whether at least half of the pairs of subflows have a verdict.
    pub(crate) fn is_decided(&self) -> bool {
        self.pairs > 0 && self.decided * 2 >= self.pairs
    }

    /// Number of pairs of subflows.
    pub(crate) fn pairs(&self) -> u32 {
        self.pairs
    }

    /// Whether there was a pair of subflows to evaluate.
    pub(crate) fn has_pairs(&self) -> bool {
        self.pairs > 0
    }
}

fn ratio(part: u32, all: u32) -> Option<f64> {
    (all > 0).then(|| f64::from(part) / f64::from(all))
}
