// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which subflows a method would close, as in Table III of `[MPTCP-D]`, `./dev bench bottleneck` and the study. For a method that closes
//! subflows by itself, these are the subflows that it closed; for any other method, all subflows of each group except the first. No I/O.

use std::collections::BTreeMap;

use mpwatch_engine::bottleneck::{PairEvaluation, groups};
use mpwatch_model::id::SubflowId;

use crate::bottleneck::truth::{SECOND, Time};
use crate::corpus::judge::{PairResult, Verdicts};
use crate::corpus::record::Truth;
use crate::corpus::recording::{Recording, Subflow};

/// Time after the establishment of the last subflow of a connection at which its subflows are counted.
const COUNTED_AFTER: Time = 5 * SECOND;

/// Counts over connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Closing {
    /// Number of subflows beyond one per link.
    pub extra: u32,
    /// Number of these subflows that would be closed.
    pub found: u32,
    /// Number of used links, summed over the connections.
    pub links: u32,
    /// Number of these links on which all subflows of the connection would be closed.
    pub lost: u32,
}

impl Closing {
    /// Counts over the connections of a run whose subflows all have samples until [`COUNTED_AFTER`], or at most a second less. Subflows that
    /// share only a rate are not counted: a subflow with its own queue is not extra.
    pub(crate) fn new(recording: &Recording, known: &Truth, verdicts: &Verdicts) -> Self {
        let mut sum = Self::default();
        if known.run.condition.queue.separates() {
            return sum;
        }
        let mut by_connection: BTreeMap<u64, Vec<&Subflow>> = BTreeMap::new();
        let established = |subflow: &&Subflow| subflow.is_mptcp && subflow.established.is_some();
        for subflow in recording.subflows.values().filter(established) {
            by_connection.entry(subflow.connection).or_default().push(subflow);
        }
        for subflows in by_connection.values() {
            let since = subflows.iter().filter_map(|subflow| subflow.established).max().unwrap_or(0);
            let at = since + COUNTED_AFTER;
            if subflows.iter().all(|subflow| subflow.last_sample + SECOND >= at) {
                sum.add_connection(subflows, known, at, &closed(subflows, verdicts, at));
            }
        }
        sum
    }

    fn add_connection(&mut self, subflows: &[&Subflow], known: &Truth, at: Time, closed: &[SubflowId]) {
        // For each link, the number of its subflows, and the number of closed subflows among them.
        let mut links: BTreeMap<usize, (u32, u32)> = BTreeMap::new();
        for subflow in subflows {
            let Some(link) = known.link(subflow, at) else { continue };
            let counts = links.entry(link).or_default();
            counts.0 += 1;
            counts.1 += u32::from(closed.contains(&subflow.id));
        }
        for (all, closed) in links.into_values() {
            self.extra += all - 1;
            self.found += closed.min(all - 1);
            self.links += 1;
            self.lost += u32::from(closed == all);
        }
    }
}

impl std::ops::AddAssign for Closing {
    fn add_assign(&mut self, other: Self) {
        self.extra += other.extra;
        self.found += other.found;
        self.links += other.links;
        self.lost += other.lost;
    }
}

/// The subflows of a connection that a method would have closed by this time.
fn closed(subflows: &[&Subflow], verdicts: &Verdicts, at: Time) -> Vec<SubflowId> {
    if let Some(closed) = &verdicts.closed {
        return closed.iter().filter(|(_, since)| **since <= at).map(|(id, _)| *id).collect();
    }
    let mut ids: Vec<(Option<Time>, SubflowId)> =
        subflows.iter().map(|subflow| (subflow.established, subflow.id)).collect();
    ids.sort_unstable();
    let ids: Vec<SubflowId> = ids.into_iter().map(|(_, id)| id).collect();
    let mut pairs = Vec::new();
    for (index, a) in ids.iter().enumerate() {
        for b in &ids[index + 1..] {
            let pair = (*a.min(b), *a.max(b));
            let known = verdicts.latest(pair, at).map_or(PairResult::unknown(pair), |known| PairResult {
                pair,
                verdict: known.verdict,
                probability: known.probability,
                is_capped: known.is_capped,
            });
            let PairResult { pair: (a, b), verdict, probability, .. } = known;
            pairs.push(PairEvaluation { a, b, verdict, probability, since: None, evidence: None });
        }
    }
    groups(&ids, &pairs).iter().flat_map(|group| group.iter().skip(1).copied()).collect()
}
