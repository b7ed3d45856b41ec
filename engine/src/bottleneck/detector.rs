// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs a method over a connection's samples as they come: asks it at fixed times of the samples' own clock, so that verdicts do not
//! depend on how often anyone looks, and a replay reaches the same ones at the same times.

use std::borrow::Cow;
use std::collections::BTreeMap;

use mpwatch_model::id::SubflowId;
use mpwatch_model::sample::{DelaySample, SampleBatch};
use mpwatch_model::unit::Nanos;

use super::rest::{Advice, Rest};
use super::{Cap, Method, PairEvaluation};

/// Time between two looks.
const PACE: u64 = 250_000_000;
/// Points travel in batches and are read from time to time: so late is everything in.
const LATE: u64 = 300_000_000;
/// After a longer pause the looks in between are left out: nothing came.
const LONGEST_PAUSE: u64 = 20_000_000_000;

/// What a method thinks at one time.
pub struct Look<'a> {
    /// Up to when it had the samples. It is told [`LATE`] after this.
    pub at: Nanos,
    /// What it thinks of each two subflows.
    pub evaluations: &'a [PairEvaluation],
    /// Caps that subflows share without sharing a queue.
    pub caps: &'a [Cap],
    /// The subflows that it would have closed by now. `None`: it does not choose; one of each group is enough.
    pub closed: Option<Vec<SubflowId>>,
}

/// One connection under a method.
pub struct Detector {
    method: Box<dyn Method + Send>,
    looked: Option<u64>,
    newest: u64,
    evaluations: Vec<PairEvaluation>,
    /// `None`: every look is taken, and paths never rest.
    rest: Option<Rest>,
    /// From when on a kernel would take the next point of each subflow. `None`: this is no rehearsal.
    rehearsed: Option<BTreeMap<SubflowId, Nanos>>,
}

impl Detector {
    /// Under this method.
    pub(crate) fn with(method: Box<dyn Method + Send>) -> Self {
        let rest = method.may_rest().then(Rest::default);
        Self { method, looked: None, newest: 0, evaluations: Vec::new(), rest, rehearsed: None }
    }

    /// The same, which sees all that there is, at every look.
    pub fn restless(self) -> Self {
        Self { rest: None, ..self }
    }

    /// The same, which of paths that would rest sees only what the kernel would have sent of them.
    pub fn rehearsing(self) -> Self {
        Self { rehearsed: Some(BTreeMap::new()), ..self }
    }

    /// Takes in points.
    pub fn take(&mut self, samples: &SampleBatch) {
        self.take_and(samples, &mut |_| {});
    }

    /// As [`Detector::take`]; `each` sees what is thought at each look on the way.
    pub fn take_and(&mut self, samples: &SampleBatch, each: &mut dyn FnMut(&Look<'_>)) {
        let points = self.sent(samples);
        let Some(latest) = points.last() else { return };
        // A clock that was set back: nothing before it counts.
        if latest.at.0 + LONGEST_PAUSE < self.newest {
            self.looked = None;
            self.newest = 0;
        }
        self.method.take(samples.id, &points);
        if let Some(rest) = &mut self.rest {
            rest.take(samples.id, &points);
        }
        self.newest = self.newest.max(latest.at.0);
        self.advance_and(Nanos(self.newest), each);
    }

    /// Everything up to now has been handed over, as far as it was there.
    pub fn advance(&mut self, now: Nanos) {
        self.advance_and(now, &mut |_| {});
    }

    /// As [`Detector::advance`]; `each` sees what is thought at each look on the way.
    pub fn advance_and(&mut self, now: Nanos, each: &mut dyn FnMut(&Look<'_>)) {
        let due = now.0.saturating_sub(LATE) / PACE;
        let earliest = due.saturating_sub(LONGEST_PAUSE / PACE);
        let from = self.looked.map_or(due, |looked| (looked + 1).max(earliest));
        for look in from..=due {
            let at = Nanos(look * PACE);
            self.look(at);
            let (caps, closed) = (self.method.caps(), self.method.closed());
            each(&Look { at, evaluations: &self.evaluations, caps, closed });
        }
        self.looked = Some(self.looked.map_or(due, |looked| looked.max(due)));
    }

    /// The points that a kernel sends, if this is a rehearsal; else all.
    fn sent<'a>(&mut self, samples: &'a SampleBatch) -> Cow<'a, [DelaySample]> {
        let (Some(rest), Some(rehearsed)) = (&self.rest, &mut self.rehearsed) else {
            return Cow::Borrowed(&samples.points);
        };
        let is_sent = |point: &&DelaySample| {
            let due = rehearsed.entry(samples.id).or_default();
            // A clock that was set back waits for nothing.
            let is_sent = point.at >= *due || point.at.0 + LONGEST_PAUSE < due.0;
            if is_sent {
                *due = rest.due_after(samples.id, point);
            }
            is_sent
        };
        samples.points.iter().filter(is_sent).copied().collect()
    }

    fn look(&mut self, at: Nanos) {
        match self.rest.as_mut().map_or(Advice::Look, |rest| rest.advise(at)) {
            Advice::Leave => return,
            Advice::Look => {}
            Advice::LookAfter(rested) => self.method.rested(rested),
        }
        self.evaluations = self.method.judge(at);
        debug_assert!(self.evaluations.is_sorted_by_key(|evaluation| (evaluation.a, evaluation.b)));
        if let Some(rest) = &mut self.rest {
            rest.looked(at, &self.evaluations, !self.method.caps().is_empty());
        }
    }

    /// No more points come: looks until everything that came was looked at.
    pub fn finish_and(&mut self, each: &mut dyn FnMut(&Look<'_>)) {
        self.advance_and(Nanos(self.newest + LATE + PACE), each);
    }

    /// A subflow has ended.
    pub fn forget(&mut self, subflow: SubflowId) {
        self.method.forget(subflow);
        if let Some(rest) = &mut self.rest {
            rest.forget(subflow);
        }
        self.evaluations.retain(|evaluation| evaluation.a != subflow && evaluation.b != subflow);
    }

    /// Caps that subflows share without sharing a queue.
    pub fn caps(&self) -> &[Cap] {
        self.method.caps()
    }

    /// What the method thinks now.
    pub fn evaluations(&self) -> &[PairEvaluation] {
        &self.evaluations
    }
}
