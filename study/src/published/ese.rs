// SPDX-License-Identifier: MIT OR Apache-2.0
//! Extra subflow elimination (ESE), Algorithm 1 of `[MPTCP-D]`. Subflows whose RTTs have risen to nearly the same value share a link, so all but
//! one of them are extra. The method uses only RTTs, decides at once, never withdraws a decision, and never reports `disjoint`.

use std::collections::BTreeMap;

use mpwatch_engine::bottleneck::{Method, PairEvaluation};
use mpwatch_model::flow::bottleneck::Verdict;
use mpwatch_model::id::SubflowId;
use mpwatch_model::kernel::sample::DelaySample;
use mpwatch_model::unit::{Micros, Nanos};

use super::pairs::every_pair;

/// Interpretation of the algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reading {
    /// As printed: the subflow that sets the reference RTT is then compared with itself and closed at once.
    Literal,
    /// With the comparison as an `else` branch: the subflow that sets the reference RTT stays open.
    Else,
}

/// The parameters of the algorithm. The best values in `[MPTCP-D]` are alpha 1.3 and beta 0.1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Parameters {
    /// A link is congested if its RTT exceeds this multiple of the base RTT.
    pub(super) alpha: f64,
    /// RTTs that differ by less than this multiple of the base RTT belong to one link.
    pub(super) beta: f64,
    pub(super) reading: Reading,
}

impl Default for Parameters {
    fn default() -> Self {
        Self { alpha: 1.3, beta: 0.1, reading: Reading::Else }
    }
}

pub(super) struct Ese {
    parameters: Parameters,
    /// Samples of all subflows that are not processed yet. `evaluate` processes them in order of time.
    waiting: Vec<(SubflowId, DelaySample)>,
    /// The lowest RTT of each subflow.
    bases: BTreeMap<SubflowId, Micros>,
    /// TRIG of the algorithm: the reference RTT and the subflow that set it. It is never reset. `None`: not set yet.
    trigger: Option<(SubflowId, Micros)>,
    closed: BTreeMap<SubflowId, Nanos>,
}

impl Ese {
    pub(super) fn new(parameters: Parameters) -> Self {
        let (waiting, bases, closed) = Default::default();
        Self { parameters, waiting, bases, trigger: None, closed }
    }

    fn on_rtt(&mut self, id: SubflowId, sample: &DelaySample) {
        let base = self.bases.entry(id).or_insert(sample.rtt);
        *base = sample.rtt.min(*base);
        let (rtt, base) = (sample.rtt.0 as f64, base.0 as f64);
        if rtt <= self.parameters.alpha * base || self.closed.contains_key(&id) {
            return;
        }
        if self.trigger.is_none() {
            self.trigger = Some((id, sample.rtt));
            if self.parameters.reading == Reading::Else {
                return;
            }
        }
        let is_near = |(_, reference): (SubflowId, Micros)| {
            (rtt - reference.0 as f64).abs() < self.parameters.beta * base
        };
        // As in the printed algorithm, later RTTs of the reference subflow are also compared.
        if self.trigger.is_some_and(is_near) {
            self.closed.insert(id, sample.at);
        }
    }
}

impl Method for Ese {
    fn add(&mut self, subflow: SubflowId, samples: &[DelaySample]) {
        self.waiting.extend(samples.iter().map(|sample| (subflow, *sample)));
    }

    fn evaluate(&mut self, at: Nanos) -> Vec<PairEvaluation> {
        self.waiting.sort_by_key(|(id, sample)| (sample.at, *id));
        let due = self.waiting.partition_point(|(_, sample)| sample.at <= at);
        let later = self.waiting.split_off(due);
        for (id, sample) in std::mem::replace(&mut self.waiting, later) {
            self.on_rtt(id, &sample);
        }
        let ids: Vec<SubflowId> = self.bases.keys().copied().collect();
        every_pair(&ids, |a, b| {
            // The reference subflow and all closed subflows are on one link.
            let on_link = |id| {
                let is_reference = self.trigger.is_some_and(|(reference, _)| reference == id);
                self.closed.get(&id).copied().or(is_reference.then_some(Nanos(0)))
            };
            let since = on_link(a).zip(on_link(b)).map(|(a, b)| a.max(b)).filter(|since| since.0 > 0);
            (since.map_or(Verdict::Unknown, |_| Verdict::Shared), None, since)
        })
    }

    fn closed(&self) -> Option<Vec<SubflowId>> {
        Some(self.closed.keys().copied().collect())
    }

    fn forget(&mut self, subflow: SubflowId) {
        self.waiting.retain(|(id, _)| *id != subflow);
        self.bases.remove(&subflow);
        self.closed.remove(&subflow);
    }
}
