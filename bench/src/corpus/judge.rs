// SPDX-License-Identifier: MIT OR Apache-2.0
//! The interface of a detection method for the corpus. Runs a method on a recorded run, and keeps each verdict with the time at which it was
//! known.

use std::collections::BTreeMap;

use mpwatch_model::flow::bottleneck::Verdict;
use mpwatch_model::id::SubflowId;
use mpwatch_model::kernel::sample::SampleBatch;

use crate::bottleneck::truth::Time;
use crate::corpus::recording::{Recording, Subflow};

/// Time between two evaluations.
pub const INTERVAL: Time = 250_000_000;
/// The verdict on a pair of subflows of one connection, the lower id first.
#[derive(Clone, Copy, Debug)]
pub struct PairResult {
    /// The subflows.
    pub pair: (SubflowId, SubflowId),
    /// The verdict.
    pub verdict: Verdict,
    /// The probability that they share a bottleneck. `None`: the method does not compute it.
    pub probability: Option<f64>,
    /// Whether the method reports that they share a rate cap without sharing a queue.
    pub is_capped: bool,
}

/// A method that gets samples in order and is asked for its verdicts four times a second.
pub trait Judge {
    /// Adds samples of a subflow.
    fn add(&mut self, subflow: &Subflow, batch: &SampleBatch) -> Result<(), String>;

    /// The verdicts after all samples until `now`.
    fn evaluate(&mut self, now: Time) -> Result<Vec<PairResult>, String>;

    /// The subflows that the method would have closed so far. `None`: the method does not close subflows.
    fn closed(&self) -> Option<Vec<SubflowId>> {
        None
    }
}

/// A verdict, and since when it is known.
#[derive(Clone, Copy, Debug)]
pub struct TimedVerdict {
    /// Time of the newest sample that the method had received at the evaluation.
    pub known_at: Time,
    /// The verdict.
    pub verdict: Verdict,
    /// The probability of sharing.
    pub probability: Option<f64>,
    /// Whether a shared rate cap is reported.
    pub is_capped: bool,
}

/// The verdicts of a method on a run.
#[derive(Clone, Debug, Default)]
pub struct Verdicts {
    /// The verdicts on each pair, in order of time.
    pub pairs: BTreeMap<(SubflowId, SubflowId), Vec<TimedVerdict>>,
    /// When the method closed each subflow that it closed. `None`: the method does not close subflows.
    pub closed: Option<BTreeMap<SubflowId, Time>>,
}

impl Verdicts {
    /// The verdicts on a pair, the lower id first, in order of time.
    pub fn of_pair(&self, pair: (SubflowId, SubflowId)) -> &[TimedVerdict] {
        self.pairs.get(&pair).map_or(&[], Vec::as_slice)
    }

    /// The last verdict on a pair that was known at this time.
    pub fn latest(&self, pair: (SubflowId, SubflowId), at: Time) -> Option<&TimedVerdict> {
        self.of_pair(pair).iter().rev().find(|known| known.known_at <= at)
    }
}

impl PairResult {
    /// No verdict.
    pub fn unknown(pair: (SubflowId, SubflowId)) -> Self {
        Self { pair, verdict: Verdict::Unknown, probability: None, is_capped: false }
    }
}

/// Runs a method on a recording.
pub fn judge(recording: &Recording, method: &mut dyn Judge) -> Result<Verdicts, String> {
    let mut verdicts = Verdicts::default();
    let (mut now, mut due): (Time, Time) = (0, 0);
    for batch in &recording.batches {
        let Some((subflow, last)) = recording.subflows.get(&batch.id).zip(batch.samples.last()) else {
            continue;
        };
        method.add(subflow, batch)?;
        now = now.max(last.at.0);
        if now >= due {
            due = (now / INTERVAL + 1) * INTERVAL;
            for result in method.evaluate(now)? {
                let PairResult { pair, verdict, probability, is_capped } = result;
                verdicts.pairs.entry(pair).or_default().push(TimedVerdict {
                    known_at: now,
                    verdict,
                    probability,
                    is_capped,
                });
            }
            if let Some(closed) = method.closed() {
                let known = verdicts.closed.get_or_insert_default();
                for id in closed {
                    known.entry(id).or_insert(now);
                }
            }
        }
    }
    Ok(verdicts)
}
