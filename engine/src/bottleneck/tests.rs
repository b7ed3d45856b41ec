// SPDX-License-Identifier: MIT OR Apache-2.0
//! Verdicts on simulated traffic, what must not confuse them, and what holds for any samples.

mod backoff;
mod caps;
mod invariants;
mod published;
mod robustness;
pub(crate) mod simulator;
mod verdicts;

use mpwatch_model::bottleneck::{DetectionMethod, Verdict};
use mpwatch_model::id::{SocketCookie, SubflowId};
use mpwatch_model::sample::{DelaySample, SampleBatch};
use mpwatch_model::unit::Nanos;

use super::detector::Detector;
use super::evaluation::PairEvaluation;

const SECOND: u64 = 1_000_000_000;

fn id(number: u64) -> SubflowId {
    SubflowId { cookie: SocketCookie(number), generation: 0 }
}

/// Hands points over as the kernel does: in batches of 32, those of all subflows in turn, in order of time.
pub(crate) fn batches(rows: &[Vec<DelaySample>]) -> Vec<SampleBatch> {
    let of = |(number, points): (u64, &Vec<DelaySample>)| {
        let batch = move |points: &[DelaySample]| SampleBatch { id: id(number), points: points.to_vec() };
        points.chunks(32).map(batch).collect::<Vec<_>>()
    };
    let mut all: Vec<SampleBatch> = (1..).zip(rows).flat_map(of).collect();
    all.sort_by_key(|samples| samples.points.last().map(|point| point.at));
    all
}

/// What is thought after all of it.
fn judged(rows: &[Vec<DelaySample>]) -> Vec<PairEvaluation> {
    judged_by(DetectionMethod::default(), rows)
}

fn judged_by(method: DetectionMethod, rows: &[Vec<DelaySample>]) -> Vec<PairEvaluation> {
    let mut detector = Detector::by(method);
    for samples in batches(rows) {
        detector.take(&samples);
    }
    let end = rows.iter().flatten().map(|point| point.at).max().unwrap_or(Nanos(0));
    detector.advance(end + Nanos(SECOND));
    detector.pairs().to_vec()
}

fn verdicts(rows: &[Vec<DelaySample>]) -> Vec<Verdict> {
    judged(rows).iter().map(|evaluation| evaluation.verdict).collect()
}
