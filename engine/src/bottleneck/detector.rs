// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs a method on the samples of one connection. Evaluation times are multiples of [`INTERVAL`] on the clock of the samples, so verdicts
//! do not depend on the time at which batches are read, and a replay reaches the same verdicts at the same times.

use mpwatch_model::id::SubflowId;
use mpwatch_model::kernel::sample::{DelaySample, SampleBatch};
use mpwatch_model::unit::Nanos;

use super::backoff::{Backoff, Step};
use super::concordance::Concordance;
use super::evaluation::{Evaluation, PairEvaluation};
use super::method::Method;

/// Time between two evaluations.
const INTERVAL: u64 = 250_000_000;
/// Delay of an evaluation after its time, so that all samples have arrived: a batch is sent after at most 100 ms, and read within 50 ms.
const DELAY: u64 = 300_000_000;
/// After a gap in the samples, only the evaluations due in the last 20 s are run; earlier evaluations are skipped.
const MAX_GAP: u64 = 20_000_000_000;
/// Maximum number of subflows: the number of pairs grows with the square of this number, and a peer may open and close subflows without
/// end. Samples of further subflows are ignored until a subflow is forgotten.
const MAX_SUBFLOWS: usize = 64;

/// Applies a method to one connection.
pub struct Detector {
    subflows: Vec<SubflowId>,
    method: Box<dyn Method + Send>,
    /// Time of the last evaluation, in multiples of [`INTERVAL`]. `None`: no evaluation has taken place.
    evaluated: Option<u64>,
    /// Time of the latest sample, nanoseconds.
    newest: u64,
    pairs: Vec<PairEvaluation>,
    /// `None`: evaluation is never suspended.
    backoff: Option<Backoff>,
    /// Time since which the rates of all connections decide every verdict, so that this connection is not evaluated. `None`: it is evaluated.
    deferred: Option<Nanos>,
}

impl Default for Detector {
    /// Uses mpwatch's own method and evaluates at every interval.
    fn default() -> Self {
        Self::with_method(Box::<Concordance>::default())
    }
}

impl Detector {
    /// Uses this method and evaluates at every interval.
    pub fn with_method(method: Box<dyn Method + Send>) -> Self {
        Self {
            method,
            evaluated: None,
            newest: 0,
            pairs: Vec::new(),
            backoff: None,
            subflows: Vec::new(),
            deferred: None,
        }
    }

    /// Suspends evaluation while verdicts do not change.
    #[must_use]
    pub fn with_backoff(self) -> Self {
        Self { backoff: Some(Backoff::default()), ..self }
    }

    /// Adds a batch of samples.
    pub fn add(&mut self, batch: &SampleBatch) {
        self.add_and_evaluate(batch, &mut |_| {});
    }

    /// Adds a batch of samples. Calls `each` with the result of every evaluation that becomes due.
    pub fn add_and_evaluate(&mut self, batch: &SampleBatch, each: &mut dyn FnMut(&Evaluation<'_>)) {
        let samples: &[DelaySample] = &batch.samples;
        let Some(latest) = samples.last() else { return };
        if !self.subflows.contains(&batch.id) {
            if self.subflows.len() == MAX_SUBFLOWS {
                return;
            }
            self.subflows.push(batch.id);
        }
        // If the clock was set back, evaluations start again at the new time.
        if latest.at.0 + MAX_GAP < self.newest {
            self.evaluated = None;
            self.newest = 0;
        }
        self.method.add(batch.id, samples);
        if let Some(backoff) = &mut self.backoff {
            backoff.add(batch.id, samples);
        }
        self.newest = self.newest.max(latest.at.0);
        self.evaluate_until(Nanos(self.newest), each);
    }

    /// Runs the evaluations that are due. Every batch sent until `now` must have been added.
    pub fn advance(&mut self, now: Nanos) {
        self.evaluate_until(now, &mut |_| {});
    }

    /// Runs the remaining evaluations. No samples may be added later.
    pub fn finish(&mut self, each: &mut dyn FnMut(&Evaluation<'_>)) {
        self.evaluate_until(Nanos(self.newest + DELAY + INTERVAL), each);
    }

    fn evaluate_until(&mut self, now: Nanos, each: &mut dyn FnMut(&Evaluation<'_>)) {
        let due = now.0.saturating_sub(DELAY) / INTERVAL;
        let earliest = due.saturating_sub(MAX_GAP / INTERVAL);
        let from = self.evaluated.map_or(due, |evaluated| (evaluated + 1).max(earliest));
        for number in from..=due {
            let at = Nanos(number * INTERVAL);
            self.evaluate(at);
            each(&Evaluation { at, pairs: &self.pairs, closed: self.method.closed() });
        }
        self.evaluated = Some(self.evaluated.map_or(due, |evaluated| evaluated.max(due)));
    }

    /// Suspends evaluation if the rates of all connections decide the verdict on every pair (`is_decided`), or resumes it.
    pub(crate) fn defer(&mut self, is_decided: bool, now: Nanos) {
        match self.deferred {
            None if is_decided => self.deferred = Some(now),
            Some(since) if !is_decided => {
                self.deferred = None;
                self.method.resume(now.since(since));
            }
            _ => {}
        }
    }

    fn evaluate(&mut self, at: Nanos) {
        if self.deferred.is_some() {
            return;
        }
        match self.backoff.as_mut().map_or(Step::Evaluate, |backoff| backoff.step(at)) {
            Step::Skip => return,
            Step::Evaluate => {}
            Step::Resume(suspended_for) => self.method.resume(suspended_for),
        }
        self.pairs = self.method.evaluate(at);
        debug_assert!(self.pairs.is_sorted_by_key(|pair| (pair.a, pair.b)));
        if let Some(backoff) = &mut self.backoff {
            backoff.evaluated(at, &self.pairs);
        }
    }

    /// Time of the latest sample.
    pub(crate) fn newest(&self) -> Nanos {
        Nanos(self.newest)
    }

    /// Removes a subflow that has ended.
    pub fn forget(&mut self, subflow: SubflowId) {
        self.subflows.retain(|id| *id != subflow);
        self.method.forget(subflow);
        if let Some(backoff) = &mut self.backoff {
            backoff.forget(subflow);
        }
        self.pairs.retain(|pair| pair.a != subflow && pair.b != subflow);
    }

    /// The latest result for each pair of subflows, in order of subflow ids.
    pub fn pairs(&self) -> &[PairEvaluation] {
        &self.pairs
    }

    /// The latest result for two subflows, the lower id first.
    pub(crate) fn pair(&self, a: SubflowId, b: SubflowId) -> PairEvaluation {
        let found = self.pairs.binary_search_by_key(&(a, b), |pair| (pair.a, pair.b));
        let unknown = PairEvaluation { a, b, ..PairEvaluation::default() };
        found.map_or(unknown, |index| self.pairs[index])
    }
}
