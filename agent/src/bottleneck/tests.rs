// SPDX-License-Identifier: MIT OR Apache-2.0
//! Verdicts on simulated traffic, what must not confuse them, and what holds for any samples.

mod caps;
mod invariants;
mod published;
mod rest;
mod robustness;
pub(crate) mod simulator;
mod verdicts;

use mpwatch_model::bottleneck::{MethodName, Verdict};
use mpwatch_model::id::{SocketCookie, SubflowId};
use mpwatch_model::sample::{Point, Samples};
use mpwatch_model::unit::Nanos;

use super::{Detector, Opinion};

const SECOND: u64 = 1_000_000_000;

fn id(number: u64) -> SubflowId {
    SubflowId { cookie: SocketCookie(number), generation: 0 }
}

/// Hands points over as the kernel does: in batches of 32, those of all subflows in turn, in order of time.
pub(crate) fn batches(rows: &[Vec<Point>]) -> Vec<Samples> {
    let of = |(number, points): (u64, &Vec<Point>)| {
        let batch = move |points: &[Point]| Samples { id: id(number), points: points.to_vec() };
        points.chunks(32).map(batch).collect::<Vec<_>>()
    };
    let mut all: Vec<Samples> = (1..).zip(rows).flat_map(of).collect();
    all.sort_by_key(|samples| samples.points.last().map(|point| point.at));
    all
}

/// What is thought after all of it.
fn judged(rows: &[Vec<Point>]) -> Vec<Opinion> {
    judged_by(MethodName::default(), rows)
}

fn judged_by(method: MethodName, rows: &[Vec<Point>]) -> Vec<Opinion> {
    let mut detector = Detector::by(method);
    for samples in batches(rows) {
        detector.take(&samples);
    }
    let end = rows.iter().flatten().map(|point| point.at).max().unwrap_or(Nanos(0));
    detector.advance(end + Nanos(SECOND));
    detector.opinions().to_vec()
}

fn verdicts(rows: &[Vec<Point>]) -> Vec<Verdict> {
    judged(rows).iter().map(|opinion| opinion.verdict).collect()
}
