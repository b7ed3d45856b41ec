// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rate caps that subflows share without sharing a queue: the sum of rates is constant, but delays differ. Causes: a policer, a shaper
//! with one queue per flow, or a throttled virtual machine (`[ICPE19]`, figure 13). If the application sends at a constant rate, the sum is
//! constant too, but the paths are not congested.

use std::collections::{BTreeMap, BTreeSet};

use mpwatch_model::flow::bottleneck::{Evidence, Verdict};
use mpwatch_model::id::SubflowId;
use mpwatch_model::unit::{Micros, Nanos};

use super::evaluation::{Cap, SubflowPair};
use super::feature::Features;

/// Minimum length of a window: shorter windows have too little variation.
const MIN_WINDOW: Micros = Micros(2_000_000);
/// Maximum partial correlation of the rates of two subflows that share a cap.
const MAX_CORRELATION: f64 = -0.6;
/// Minimum coefficient of variation of each rate. A steadier rate does not show whether one subflow gains what the other loses.
const MIN_VARIATION: f64 = 0.025;
/// A sum of rates is constant if its variance is at most this fraction of the sum of variances, and its coefficient of variation at most this.
const MAX_SUM_VARIATION: f64 = 0.3;
const MAX_TOTAL_VARIATION: f64 = 0.06;
/// Delays with at most this concordance and at least this signal (the part of their variation that is not noise) come from two queues.
const LOW_CONCORDANCE: f64 = 0.4;
const MIN_SIGNAL: f64 = 0.4;
/// If both subflows queue for less than this fraction of the time, they have no queues whose delays could be compared.
const MIN_BUSY: f64 = 0.2;
/// Evidence against a cap: a variance of the sum above this multiple of the sum of variances (rates rise together), or a concordance of
/// delays above `HIGH_CONCORDANCE`.
const RISING_TOGETHER: f64 = 1.3;
const HIGH_CONCORDANCE: f64 = 0.75;
/// Number of consecutive evaluations with evidence for a cap before it is reported, and with evidence against it before it is withdrawn.
const EVALUATIONS_TO_DECIDE: u32 = 4;
/// Number of evaluations (10 s) for which a cap is kept without new evidence, because steady rates give no evidence.
const CAP_LIFETIME: u32 = 40;

/// Evidence of one evaluation for or against a cap that a pair shares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CapEvidence {
    /// The pair shares a cap, provided that the sum of the rates of all subflows that are connected by such pairs is constant.
    For,
    Neutral,
    Against,
}

impl CapEvidence {
    /// `both_congested`: both subflows queue or lose segments.
    pub(super) fn from_evidence(evidence: &Evidence, both_congested: bool, verdict: Verdict) -> Self {
        let concordance = evidence.queue_concordance.unwrap_or(0.0);
        let signal = evidence.queue_signal.unwrap_or(0.0);
        let rise_together = evidence.sum_variation.is_some_and(|sum| sum > RISING_TOGETHER);
        if rise_together || (concordance > HIGH_CONCORDANCE && signal > MIN_SIGNAL) {
            return Self::Against;
        }
        let two_queues = concordance < LOW_CONCORDANCE && signal >= MIN_SIGNAL;
        let no_queue = evidence.busy_a.max(evidence.busy_b) < MIN_BUSY && verdict != Verdict::Shared;
        let compete = evidence.rate_correlation.is_some_and(|correlation| correlation <= MAX_CORRELATION);
        let vary = evidence.least_variation.is_some_and(|least| least >= MIN_VARIATION);
        let is_long = evidence.window >= MIN_WINDOW;
        if both_congested && is_long && compete && vary && (two_queues || no_queue) {
            Self::For
        } else {
            Self::Neutral
        }
    }
}

/// A pair that may share a cap, with the number of consecutive evaluations for a cap, against a cap, and without evidence for one.
#[derive(Clone, Copy, Default)]
struct Candidate {
    supporting: u32,
    contrary: u32,
    without_support: u32,
    /// When the cap was found. `None`: no cap was found.
    since: Option<Nanos>,
}

impl Candidate {
    /// Adds the evidence of one evaluation. Returns whether the pair is still a candidate.
    fn update(&mut self, evidence: CapEvidence, at: Nanos) -> bool {
        let count = |before: u32, again: bool| if again { before + 1 } else { 0 };
        self.supporting = count(self.supporting, evidence == CapEvidence::For);
        self.contrary = count(self.contrary, evidence == CapEvidence::Against);
        self.without_support = count(self.without_support, evidence != CapEvidence::For);
        if self.supporting >= EVALUATIONS_TO_DECIDE {
            self.since.get_or_insert(at);
        }
        let limit = if self.since.is_some() { CAP_LIFETIME } else { 1 };
        self.contrary < EVALUATIONS_TO_DECIDE && self.without_support < limit
    }
}

/// The caps of one connection.
#[derive(Default)]
pub(super) struct Caps {
    candidates: BTreeMap<SubflowPair, Candidate>,
    found: Vec<Cap>,
}

impl Caps {
    /// Adds the evidence on all compared pairs, each with the length of its window in bins. `windows`: the features by length of window.
    pub(super) fn update(
        &mut self,
        evidence: &[(SubflowPair, u64, CapEvidence)],
        windows: &BTreeMap<u64, Features>,
        at: Nanos,
    ) {
        let supporting = evidence.iter().filter(|(.., evidence)| *evidence == CapEvidence::For);
        let lengths: BTreeMap<SubflowPair, u64> = supporting.map(|(pair, bins, _)| (*pair, *bins)).collect();
        let mut constant: BTreeSet<SubflowPair> = BTreeSet::new();
        for members in components(lengths.keys().copied()) {
            let is_inside = |pair: &&SubflowPair| members.contains(&pair.0);
            let bins = lengths.iter().filter(|(pair, _)| is_inside(pair)).map(|(_, bins)| *bins).min();
            let total = bins.and_then(|bins| windows.get(&bins)?.total(&members));
            if total.is_some_and(|total| {
                total.sum_variation <= MAX_SUM_VARIATION && total.variation <= MAX_TOTAL_VARIATION
            }) {
                constant.extend(lengths.keys().filter(is_inside));
            }
        }
        let mut by_pair: BTreeMap<SubflowPair, CapEvidence> =
            evidence.iter().map(|(pair, _, evidence)| (*pair, *evidence)).collect();
        for (pair, evidence) in by_pair.iter_mut().filter(|(_, evidence)| **evidence == CapEvidence::For) {
            *evidence = if constant.contains(pair) { CapEvidence::For } else { CapEvidence::Neutral };
            self.candidates.entry(*pair).or_default();
        }
        self.candidates.retain(|pair, candidate| {
            candidate.update(by_pair.get(pair).copied().unwrap_or(CapEvidence::Neutral), at)
        });
        self.merge_pairs(windows);
    }

    /// Merges the pairs that share a cap into caps.
    fn merge_pairs(&mut self, windows: &BTreeMap<u64, Features>) {
        let found: BTreeMap<SubflowPair, Nanos> =
            self.candidates.iter().filter_map(|(pair, candidate)| Some((*pair, candidate.since?))).collect();
        let before = std::mem::take(&mut self.found);
        for members in components(found.keys().copied()) {
            let inside = found.iter().filter(|(pair, _)| members.contains(&pair.0));
            let Some(since) = inside.map(|(_, since)| *since).max() else { continue };
            let total = windows.values().rev().find_map(|features| features.total(&members));
            let known = before.iter().find(|cap| cap.rates.iter().map(|(id, _)| id).eq(&members));
            let cap = match (total, known) {
                (Some(total), _) => Some(Cap {
                    rates: members.iter().copied().zip(total.segments_per_second).collect(),
                    since,
                    sum_variation: total.sum_variation,
                    least_variation: total.least_variation,
                }),
                (None, known) => known.cloned(),
            };
            self.found.extend(cap);
        }
    }

    pub(super) fn found(&self) -> &[Cap] {
        &self.found
    }

    pub(super) fn forget(&mut self, subflow: SubflowId) {
        self.candidates.retain(|(a, b), _| *a != subflow && *b != subflow);
        self.found.retain(|cap| cap.rates.iter().all(|(id, _)| *id != subflow));
    }
}

/// Connected components of the graph of these pairs, each sorted by id.
fn components(pairs: impl Iterator<Item = SubflowPair>) -> Vec<Vec<SubflowId>> {
    let mut groups: Vec<BTreeSet<SubflowId>> = Vec::new();
    for (a, b) in pairs {
        let (touched, mut others): (Vec<_>, Vec<_>) =
            groups.into_iter().partition(|group| group.contains(&a) || group.contains(&b));
        others.push(touched.into_iter().flatten().chain([a, b]).collect());
        groups = others;
    }
    groups.into_iter().map(|group| group.into_iter().collect()).collect()
}
