// SPDX-License-Identifier: MIT OR Apache-2.0
//! mpwatch's own method. Packets in one FIFO queue wait equally long, so the queueing delays of subflows that share the queue vary
//! together, in absolute microseconds. Delays on separate but equal links can also vary together, while congestion windows rise and fall in
//! step. But only subflows on one link take throughput from each other. `odds.rs` sums up all evidence as log-odds.

use std::collections::BTreeMap;

use mpwatch_model::flow::bottleneck::{Evidence, Verdict};
use mpwatch_model::id::SubflowId;
use mpwatch_model::kernel::sample::DelaySample;
use mpwatch_model::statistics::mean;
use mpwatch_model::unit::Nanos;

use super::decision::{DECISIVE_LOG_ODDS, Decision, VERDICT_LIFETIME, probability, running_mean};
use super::evaluation::{PairEvaluation, SubflowPair, pair_of};
use super::feature::{Features, SubflowFeatures};
use super::method::Method;
use super::odds::log_odds;
use super::series::{BIN_NS, Series, Window};

/// Number of consecutive evaluations that must agree to withdraw a verdict.
const EVALUATIONS_TO_WITHDRAW: u32 = 4;
/// Minimum and maximum length of a window in bins: 1 s and 3 s.
const MIN_WINDOW: u64 = 200;
const MAX_WINDOW: u64 = 600;
/// The first 300 ms of a subflow, in bins, are ignored: slow start is the same on all paths.
const SLOW_START: u64 = 60;
/// A subflow without a sample for this long (500 ms) is idle.
const IDLE_AFTER: u64 = 100;
/// Maximum absolute log-odds that follow from the other subflows (see `implied()`).
const MAX_IMPLIED: f64 = 4.0;
/// The last second, in bins. If its samples contradict the verdict, the route may have changed.
const LAST_SECOND: u64 = 200;

/// mpwatch's own method.
#[derive(Default)]
pub struct Concordance {
    series: BTreeMap<SubflowId, Series>,
    pairs: BTreeMap<SubflowPair, Pair>,
}

/// The state of a pair of subflows.
#[derive(Clone, Copy, Default)]
struct Pair {
    /// Running mean of the log-odds from the evidence on this pair. `None`: neither subflow is congested, or there was no evidence.
    odds: Option<f64>,
    /// Log-odds that follow from the log-odds between the pair and third subflows.
    implied: f64,
    decision: Decision,
    evidence: Option<Evidence>,
    /// Time of the last evaluation with evidence.
    evaluated: Nanos,
    /// At the last evaluation, both subflows were uncongested.
    is_uncongested: bool,
    /// Number of consecutive evaluations in which the last second alone contradicted the verdict.
    contradicted: u32,
    /// Number of the first bin that is used: earlier bins belong to an earlier route.
    from: u64,
}

/// Result of comparing a pair of subflows once.
#[derive(Clone, Copy)]
struct Finding {
    evidence: Evidence,
    /// At least one of the two subflows queues or loses segments.
    is_congested: bool,
    /// Both subflows are uncongested. This and `is_congested` are false if the delays are inconclusive.
    is_uncongested: bool,
    /// Log-odds of the last second alone. `None`: there is no verdict to contradict, or there are too few samples.
    last_second: Option<f64>,
}

/// The windows of one evaluation, by length in bins.
type Windows = BTreeMap<u64, Features>;
/// Log-odds of pairs of subflows.
type Odds = BTreeMap<SubflowPair, f64>;

impl Method for Concordance {
    fn add(&mut self, subflow: SubflowId, samples: &[DelaySample]) {
        self.series.entry(subflow).or_default().add(samples);
    }

    fn evaluate(&mut self, at: Nanos) -> Vec<PairEvaluation> {
        let ids: Vec<SubflowId> = self.series.keys().copied().collect();
        let mut windows = Windows::default();
        let mut with_evidence = Vec::new();
        for (index, &a) in ids.iter().enumerate() {
            for &b in &ids[index + 1..] {
                let finding = self.compare(&mut windows, (a, b), at);
                let pair = self.pairs.entry((a, b)).or_default();
                if pair.update(finding, at) {
                    with_evidence.push((a, b));
                }
            }
        }
        let odds: Odds = self.pairs.iter().filter_map(|(ids, pair)| Some((*ids, pair.odds?))).collect();
        for pair in with_evidence {
            let implied = implied(&odds, &ids, pair);
            self.pairs.entry(pair).or_default().decide(implied, at);
        }
        self.pairs.iter().map(|((a, b), pair)| pair.evaluation(*a, *b)).collect()
    }

    fn forget(&mut self, subflow: SubflowId) {
        self.series.remove(&subflow);
        self.pairs.retain(|(a, b), _| *a != subflow && *b != subflow);
    }

    fn resume(&mut self, suspended_for: Nanos) {
        for pair in self.pairs.values_mut() {
            pair.evaluated += suspended_for;
        }
    }
}

impl Concordance {
    /// The window in which a pair is compared. `None`: one of the two subflows is too new, or idle.
    fn window(&self, (a, b): SubflowPair, at: Nanos) -> Option<Window> {
        let now = at.0 / BIN_NS;
        let from = self.pairs.get(&(a, b)).map_or(0, |pair| pair.from);
        let (a, b) = (self.series.get(&a)?, self.series.get(&b)?);
        if a.latest()?.min(b.latest()?) + IDLE_AFTER < now {
            return None;
        }
        let bins = now.checked_sub((a.begin()?.max(b.begin()?) + SLOW_START).max(from))?;
        // Rounded down to multiples of 250 ms, so that pairs share windows.
        (bins >= MIN_WINDOW).then(|| Window::before(at, bins.min(MAX_WINDOW) / 50 * 50))
    }

    fn compare(&self, windows: &mut Windows, (a, b): SubflowPair, at: Nanos) -> Option<Finding> {
        let window = self.window((a, b), at)?;
        let verdict = self.pairs.get(&(a, b)).map_or(Verdict::Unknown, |pair| pair.decision.verdict);
        let features =
            windows.entry(window.bins()).or_insert_with(|| Features::from_series(&self.series, window));
        let evidence = features.compare(a, b)?;
        let congested = [a, b].map(|id| features.subflow(id).is_some_and(SubflowFeatures::is_congested));
        let is_uncongested = features.is_uncongested(a) && features.is_uncongested(b);
        let last_second = Window::before(at, LAST_SECOND);
        let last_second = (verdict != Verdict::Unknown && window.bins() > LAST_SECOND).then(|| {
            let features = windows
                .entry(LAST_SECOND)
                .or_insert_with(|| Features::from_series(&self.series, last_second));
            features.compare(a, b)
        });
        Some(Finding {
            evidence,
            is_congested: congested.contains(&true),
            is_uncongested,
            last_second: last_second.flatten().map(|evidence| log_odds(&evidence)),
        })
    }
}

/// Log-odds of a pair that follow from the other subflows: a third subflow that shares a bottleneck with both is evidence for sharing; one
/// that shares it with only one of them is evidence against. Each contributes the smaller of its two absolute log-odds; the result is the mean.
fn implied(odds: &Odds, ids: &[SubflowId], (a, b): SubflowPair) -> f64 {
    let odds_of = |a: SubflowId, b: SubflowId| odds.get(&pair_of(a, b)).copied();
    let through = |other: &SubflowId| {
        let (x, y) = (odds_of(a, *other)?, odds_of(b, *other)?);
        let least = x.abs().min(y.abs());
        Some(if x > 0.0 && y > 0.0 {
            least
        } else if x < 0.0 && y < 0.0 {
            0.0
        } else {
            -least
        })
    };
    let all: Vec<f64> = ids.iter().filter(|id| **id != a && **id != b).filter_map(through).collect();
    mean(&all).unwrap_or(0.0).clamp(-MAX_IMPLIED, MAX_IMPLIED)
}

impl Pair {
    /// Adds a finding. Returns whether there was a finding.
    fn update(&mut self, finding: Option<Finding>, at: Nanos) -> bool {
        let Some(Finding { evidence, is_congested, is_uncongested, last_second }) = finding else {
            if at.since(self.evaluated) > VERDICT_LIFETIME {
                *self = Self::default();
            }
            return false;
        };
        (self.evaluated, self.is_uncongested) = (at, is_uncongested);
        self.evidence = Some(evidence);
        let is_contradicted = match self.decision.verdict {
            Verdict::Shared => last_second.is_some_and(|odds| odds < -DECISIVE_LOG_ODDS),
            Verdict::Disjoint => last_second.is_some_and(|odds| odds > DECISIVE_LOG_ODDS),
            Verdict::NoBottleneck | Verdict::Unknown => false,
        };
        self.contradicted = if is_contradicted { self.contradicted + 1 } else { 0 };
        if self.contradicted >= EVALUATIONS_TO_WITHDRAW {
            // Start over, as if both subflows had been established a second ago.
            let from = (at.0 / BIN_NS).saturating_sub(LAST_SECOND);
            *self =
                Self { from, odds: last_second, evaluated: at, evidence: self.evidence, ..Self::default() };
        } else if is_congested {
            self.odds = Some(running_mean(self.odds, log_odds(&evidence)));
        } else {
            self.odds = None;
        }
        true
    }

    /// Reaches or withdraws a verdict. `implied`: log-odds from the other subflows.
    fn decide(&mut self, implied: f64, at: Nanos) {
        self.implied = implied;
        let otherwise = if self.is_uncongested { Verdict::NoBottleneck } else { Verdict::Unknown };
        self.decision.update(self.odds.map(|odds| odds + implied), otherwise, at, EVALUATIONS_TO_WITHDRAW);
    }

    fn evaluation(&self, a: SubflowId, b: SubflowId) -> PairEvaluation {
        PairEvaluation {
            a,
            b,
            verdict: self.decision.verdict,
            probability: self.odds.map(|odds| probability(odds + self.implied)),
            since: self.decision.since,
            evidence: self.evidence,
        }
    }
}
