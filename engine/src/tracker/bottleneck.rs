// SPDX-License-Identifier: MIT OR Apache-2.0
//! From samples to the bottlenecks of connections: hands points to the detector of their connection, and shows what it found.

use mpwatch_model::bottleneck::{Bottlenecks, DetectionMethod, PairVerdict, SharedCap, Verdict};
use mpwatch_model::id::SubflowId;
use mpwatch_model::sample::SampleBatch;
use mpwatch_model::unit::{BitsPerSecond, Nanos};

use super::Tracker;
use super::flow::Flow;
use crate::bottleneck::{Cap, Detector, PairEvaluation, groups};

/// A subflow that ended while its connection goes on is left out after this time. Until then the connection may prove to have ended too,
/// whose last verdicts are worth keeping.
const MOURNED: Nanos = Nanos(3_000_000_000);
/// Samples may come before the first record of their subflow. So many batches are kept until the next tick, by when it was read.
const MOST_EARLY: usize = 10_000;

/// Samples of subflows of which nothing else is known yet.
pub(super) type Early = Vec<SampleBatch>;

impl Tracker {
    pub(super) fn on_samples(&mut self, samples: &SampleBatch) {
        let method = self.method;
        // The published methods are evaluated as often as their papers ask for.
        let backs_off = self.start.backoff && method.is_default();
        let new = || {
            let detector = Detector::by(method);
            Box::new(if backs_off { detector.with_backoff() } else { detector })
        };
        let flow = self.index.by_subflow(samples.id).and_then(|key| self.flows.get_mut(&key));
        match flow {
            Some(flow) => {
                flow.detector.get_or_insert_with(new).take(samples);
            }
            None if self.early.len() < MOST_EARLY => self.early.push(samples.clone()),
            None => {}
        }
    }

    pub(super) fn look_for_bottlenecks(&mut self) {
        for samples in std::mem::take(&mut self.early) {
            self.on_samples(&samples);
        }
        // Still unknown: it came and went without a record.
        self.early.clear();
        let now = self.tick.at;
        for flow in self.flows.values_mut() {
            flow.look_for_bottlenecks(now);
        }
    }
}

impl Flow {
    fn look_for_bottlenecks(&mut self, now: Nanos) {
        // The last verdicts of a closed connection stay.
        if self.closed_at().is_some() {
            return;
        }
        let Some(detector) = &mut self.detector else { return };
        detector.advance(now);
        let ended = self.subflows.iter().filter_map(|subflow| Some((subflow.record.id, subflow.end?.0)));
        for (id, _) in ended.filter(|(_, at)| now.since(*at) > MOURNED) {
            detector.forget(id);
        }
    }
}

/// The bottlenecks of a connection with these subflows, found by this method. `from`: when it was opened. `None`: fewer than two
/// subflows.
pub(super) fn of(
    flow: &Flow,
    subflows: &[SubflowId],
    method: DetectionMethod,
    from: Nanos,
) -> Option<Bottlenecks> {
    if subflows.len() < 2 {
        return None;
    }
    let evaluations = flow.detector.as_deref().map_or(&[][..], Detector::pairs);
    let on = |pair| evaluations.binary_search_by_key(&pair, |evaluation| (evaluation.a, evaluation.b)).ok();
    let pairs = subflows.iter().enumerate().flat_map(|(place, one)| {
        subflows[place + 1..].iter().map(move |other| {
            let (a, b) = (*one.min(other), *one.max(other));
            shown(a, b, on((a, b)).map(|place| &evaluations[place]), from)
        })
    });
    let caps = flow.detector.as_deref().map_or(&[][..], Detector::caps);
    Some(Bottlenecks {
        method,
        groups: groups(subflows, evaluations),
        pairs: pairs.collect(),
        shared_caps: caps.iter().map(|cap| shared_cap(flow, cap, from)).collect(),
    })
}

fn shared_cap(flow: &Flow, cap: &Cap, from: Nanos) -> SharedCap {
    let bits = |(id, segments): &(SubflowId, f64)| {
        let known = flow.subflows.iter().find(|subflow| subflow.record.id == *id);
        known.map_or(0.0, |subflow| segments * f64::from(subflow.record.tcp.mss) * 8.0)
    };
    let sum: f64 = cap.rates.iter().map(bits).sum();
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "an `as` cast saturates")]
    let sum = BitsPerSecond(sum.round() as u64);
    SharedCap {
        subflows: cap.rates.iter().map(|(id, _)| *id).collect(),
        sum,
        since: cap.since.since(from).micros(),
        sum_variation: cap.sum_variation,
        least_variation: cap.least_variation,
    }
}

fn shown(a: SubflowId, b: SubflowId, evaluation: Option<&PairEvaluation>, from: Nanos) -> PairVerdict {
    PairVerdict {
        a,
        b,
        verdict: evaluation.map_or(Verdict::Unknown, |evaluation| evaluation.verdict),
        probability: evaluation.and_then(|evaluation| evaluation.probability),
        since: evaluation.and_then(|evaluation| Some(evaluation.since?.since(from).micros())),
        evidence: evaluation.and_then(|evaluation| evaluation.evidence),
    }
}
