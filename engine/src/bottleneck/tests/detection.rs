// SPDX-License-Identifier: MIT OR Apache-2.0
//! What all these tests use: samples made by hand, batches of them, and the results of a method.

use mpwatch_model::flow::bottleneck::{DetectionMethod, Verdict};
use mpwatch_model::id::{SocketCookie, SubflowId};
use mpwatch_model::kernel::sample::{DelaySample, SampleBatch};
use mpwatch_model::unit::{Micros, Nanos};

use crate::bottleneck::{Detector, PairEvaluation};

pub(crate) const SECOND: u64 = 1_000_000_000;

pub(crate) fn id(number: u64) -> SubflowId {
    SubflowId { cookie: SocketCookie(number), generation: 0 }
}

/// A sample; times count from the first second.
pub(crate) fn sample(at_ms: u64, rtt_us: u64, delivered: u32) -> DelaySample {
    let at = Nanos(SECOND + at_ms * 1_000_000);
    DelaySample { at, rtt: Micros(rtt_us), delivered, ..DelaySample::default() }
}

/// The samples of subflows 1, 2 and so on as the kernel sends them: in batches of 32, in order of time.
pub(crate) fn batches(rows: &[Vec<DelaySample>]) -> Vec<SampleBatch> {
    batches_of(32, rows)
}

pub(crate) fn batches_of(size: usize, rows: &[Vec<DelaySample>]) -> Vec<SampleBatch> {
    let of = |(number, row): (u64, &Vec<DelaySample>)| {
        let batch = move |samples: &[DelaySample]| SampleBatch { id: id(number), samples: samples.to_vec() };
        row.chunks(size).map(batch).collect::<Vec<_>>()
    };
    let mut all: Vec<SampleBatch> = (1..).zip(rows).flat_map(of).collect();
    all.sort_by_key(|batch| batch.samples.last().map(|sample| sample.at));
    all
}

/// The results after all samples.
pub(crate) fn detect(rows: &[Vec<DelaySample>]) -> Vec<PairEvaluation> {
    detect_by(DetectionMethod::default(), rows)
}

pub(crate) fn detect_by(method: DetectionMethod, rows: &[Vec<DelaySample>]) -> Vec<PairEvaluation> {
    let mut detector = Detector::by(method);
    for batch in batches(rows) {
        detector.take(&batch);
    }
    let end = rows.iter().flatten().map(|sample| sample.at).max().unwrap_or(Nanos(0));
    detector.advance(end + Nanos(SECOND));
    detector.pairs().to_vec()
}

pub(crate) fn verdicts(rows: &[Vec<DelaySample>]) -> Vec<Verdict> {
    verdicts_by(DetectionMethod::default(), rows)
}

pub(crate) fn verdicts_by(method: DetectionMethod, rows: &[Vec<DelaySample>]) -> Vec<Verdict> {
    detect_by(method, rows).iter().map(|pair| pair.verdict).collect()
}
