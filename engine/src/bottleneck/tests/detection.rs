// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs mpwatch's own method on samples, for the tests in this directory.

use mpwatch_model::flow::bottleneck::Verdict;
use mpwatch_model::kernel::sample::DelaySample;
use mpwatch_model::unit::Nanos;

use mpwatch_fixtures::delay_samples::{SECOND, batches};

use crate::bottleneck::{Detector, PairEvaluation};

/// The results after all samples.
pub(crate) fn detect(rows: &[Vec<DelaySample>]) -> Vec<PairEvaluation> {
    let mut detector = Detector::default();
    for batch in batches(rows) {
        detector.add(&batch);
    }
    let end = rows.iter().flatten().map(|sample| sample.at).max().unwrap_or(Nanos(0));
    detector.advance(end + Nanos(SECOND));
    detector.pairs().to_vec()
}

pub(crate) fn verdicts(rows: &[Vec<DelaySample>]) -> Vec<Verdict> {
    detect(rows).iter().map(|pair| pair.verdict).collect()
}
