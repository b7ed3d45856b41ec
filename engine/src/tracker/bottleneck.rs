// SPDX-License-Identifier: MIT OR Apache-2.0
//! Passes delay samples to the detector of their connection, and reports the bottlenecks that it finds.

use mpwatch_model::flow::bottleneck::{
    self, Bottlenecks, DetectionMethod, Evidence, PairVerdict, SharedCap, Verdict,
};
use mpwatch_model::id::SubflowId;
use mpwatch_model::kernel::sample::SampleBatch;
use mpwatch_model::unit::Nanos;
use std::cmp::Reverse;

use super::flow::Flow;
use super::subflow::SubflowState;
use crate::bottleneck::{AddressPair, Detector, NewMethod, PairEvaluation, Pool, groups};

/// Time for which an ended subflow stays in detection. If its connection ends within this time, the last verdicts on the subflow are kept.
const LINGER: Nanos = Nanos(3_000_000_000);
/// Maximum number of subflows with verdicts: the number of pairs grows with the square of this number, and a peer may open and close subflows
/// without end. The kernel has at most 8 subflows open unless limits are raised.
const MAX_JUDGED: usize = 32;
/// Maximum number of batches that arrive before the first record of their subflow and are kept until the next tick.
const MAX_PENDING: usize = 10_000;

/// How bottlenecks are detected.
#[derive(Clone, Copy)]
pub(super) struct Detection {
    /// The name and constructor of another method. `None`: mpwatch's own method.
    pub(super) other: Option<(DetectionMethod, NewMethod)>,
    pub(super) backoff: bool,
}

impl Detection {
    /// A detector without samples.
    pub(super) fn detector(self) -> Box<Detector> {
        Box::new(match self.other {
            // The backoff is designed for the verdicts of mpwatch's own method.
            Some((name, new)) => Detector::with_method(new(name)),
            None if self.backoff => Detector::default().with_backoff(),
            None => Detector::default(),
        })
    }
}

/// Batches of subflows that have no record yet.
#[derive(Default)]
pub(super) struct Pending(Vec<SampleBatch>);

impl Pending {
    pub(super) fn add(&mut self, batch: &SampleBatch) {
        if self.0.len() < MAX_PENDING {
            self.0.push(batch.clone());
        }
    }

    pub(super) fn take(&mut self) -> Vec<SampleBatch> {
        std::mem::take(&mut self.0)
    }
}

/// Evaluates the samples of a connection up to now. A closed connection keeps its last verdicts.
pub(super) fn evaluate(detector: &mut Detector, flow: &Flow, pool: &Pool, now: Nanos) {
    if flow.closed_at().is_some() {
        return;
    }
    // Ended subflows are forgotten before the evaluation, to bound the number of pairs even if many subflows ended since the previous tick.
    let judged = judged(flow);
    let ended = flow.subflows.iter().filter_map(|subflow| Some((subflow.record.id, subflow.end?.0)));
    for (id, _) in ended.filter(|(id, at)| now.since(*at) > LINGER || !judged.contains(id)) {
        detector.forget(id);
    }
    let is_pooled =
        |ids| paths(flow, ids).is_some_and(|paths| pool.is_shared(paths) && pool.pair(paths).is_some());
    detector.defer(pairs(judged).into_iter().all(is_pooled), now);
    detector.advance(now);
}

/// The subflows whose pairs get verdicts: open subflows first, then the most recently ended subflows.
fn judged(flow: &Flow) -> Vec<SubflowId> {
    let mut found: Vec<&SubflowState> = flow.in_order().collect();
    if found.len() > MAX_JUDGED {
        found.sort_by_key(|subflow| Reverse(subflow.end.map_or(Nanos(u64::MAX), |(at, _)| at)));
        found.truncate(MAX_JUDGED);
    }
    found.into_iter().map(|subflow| subflow.record.id).collect()
}

/// The path of a subflow.
fn path(flow: &Flow, subflow: &SubflowState) -> AddressPair {
    let (local, remote) = (subflow.record.local.ip(), subflow.record.remote.ip());
    AddressPair { netns: flow.id().netns, local, remote }
}

/// Adds a batch of samples to the rates of all connections.
pub(super) fn add_to_pool(pool: &mut Pool, flow: &Flow, batch: &SampleBatch) {
    if let Some(subflow) = flow.subflows.iter().find(|subflow| subflow.record.id == batch.id) {
        pool.add(path(flow, subflow), flow.serial, subflow.record.tcp.mss, batch);
    }
}

/// The result for two subflows. If several connections use one of their paths, the traffic of all connections decides the verdict, because the
/// traffic of this connection is a small part of the traffic of the links. Otherwise, this traffic decides if it disagrees with the samples of the
/// connection, which take longer.
fn evaluation(
    flow: &Flow,
    (a, b): (SubflowId, SubflowId),
    detector: &Detector,
    pool: &Pool,
) -> PairEvaluation {
    let own = detector.pair(a, b);
    let Some(paths) = paths(flow, (a, b)) else { return own };
    let is_shared = pool.is_shared(paths);
    match pool.pair(paths) {
        Some(pair) if is_shared => pair.evaluation(&own),
        Some(pair) if pair.disagrees_with(own.verdict) => {
            // Elimination closes a subflow over another path only if several connections were compared.
            let found = pair.evaluation(&own);
            let alone = |evidence| Evidence { connections: None, pooled_paths: None, ..evidence };
            PairEvaluation { evidence: found.evidence.map(alone), ..found }
        }
        None if is_shared && own.verdict != Verdict::NoBottleneck => {
            PairEvaluation { verdict: Verdict::Unknown, since: None, ..own }
        }
        _ => own,
    }
}

/// The paths of two subflows. `None`: they use one path.
fn paths(flow: &Flow, (a, b): (SubflowId, SubflowId)) -> Option<(AddressPair, AddressPair)> {
    let path =
        |id| flow.subflows.iter().find(|subflow| subflow.record.id == id).map(|found| path(flow, found));
    let (a, b) = (path(a)?, path(b)?);
    (a != b).then_some((a, b))
}

/// Every pair of these subflows, in order of ids.
fn pairs(mut subflows: Vec<SubflowId>) -> Vec<(SubflowId, SubflowId)> {
    subflows.sort_unstable();
    let mut pairs = Vec::new();
    for (index, a) in subflows.iter().enumerate() {
        pairs.extend(subflows[index + 1..].iter().map(|b| (*a, *b)));
    }
    pairs
}

/// The bottlenecks of a connection. Returns `None` if it has fewer than two subflows. `detector` is `None` if there were no samples.
pub(super) fn summarise(
    flow: &Flow,
    detector: Option<&Detector>,
    pool: &Pool,
    method: DetectionMethod,
    now: Nanos,
) -> Option<Bottlenecks> {
    let subflows = judged(flow);
    let from = flow.began(now);
    if subflows.len() < 2 {
        return None;
    }
    let unknown = &Detector::default();
    let detector = detector.unwrap_or(unknown);
    let evaluate = |ids| evaluation(flow, ids, detector, pool);
    let evaluated: Vec<PairEvaluation> = pairs(subflows.clone()).into_iter().map(evaluate).collect();
    Some(Bottlenecks {
        method,
        groups: groups(&subflows, &evaluated),
        pairs: evaluated.iter().map(|pair| pair_verdict(pair, from)).collect(),
        shared_caps: shared_caps(flow, pool, &subflows, from),
    })
}

/// The rate caps that these subflows share.
fn shared_caps(flow: &Flow, pool: &Pool, subflows: &[SubflowId], from: Nanos) -> Vec<SharedCap> {
    let capped = |ids| Some((ids, pool.pair(paths(flow, ids)?)?.cap()?));
    let found: Vec<_> = pairs(subflows.to_vec()).into_iter().filter_map(capped).collect();
    let sets =
        bottleneck::groups(subflows, found.iter().map(|((a, b), _)| (*a, *b, Verdict::Shared, Some(1.0))));
    let cap = |members: Vec<SubflowId>| {
        let inside = || found.iter().filter(|((a, _), _)| members.contains(a)).map(|(_, found)| found);
        let since = inside().map(|(since, _)| *since).max()?;
        Some(SharedCap {
            sum: inside().filter_map(|(_, evidence)| evidence.link_rate).max()?,
            since: since.since(from).micros(),
            sum_variation: inside()
                .filter_map(|(_, evidence)| evidence.conservation_ratio)
                .fold(0.0, f64::max),
            subflows: members,
        })
    };
    sets.into_iter().filter(|members| members.len() > 1).filter_map(cap).collect()
}

fn pair_verdict(pair: &PairEvaluation, from: Nanos) -> PairVerdict {
    let PairEvaluation { a, b, verdict, probability, since, evidence } = *pair;
    PairVerdict { a, b, verdict, probability, since: since.map(|since| since.since(from).micros()), evidence }
}
