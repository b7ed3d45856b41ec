// SPDX-License-Identifier: MIT OR Apache-2.0
//! The method of mpwatch. Packets in one FIFO queue wait equally long, so the queueing delays of subflows that share it move together in
//! absolute microseconds. Subflows on separate, equal links can do the same when their congestion windows go up and down in
//! step; what betrays those is that neither takes anything away from the other: rates that do not vary, or that vary together. What
//! speaks for and against is added up as log-odds; the weights are few, and each has a reason that can be told.

use std::collections::BTreeMap;

use mpwatch_model::bottleneck::{Evidence, Verdict};
use mpwatch_model::id::SubflowId;
use mpwatch_model::sample::Point;
use mpwatch_model::unit::Nanos;

use super::feature::{View, compare};
use super::series::{BIN_NS, Series, Window};
use super::{Method, Opinion};

/// Windows grow from 1 s to 3 s, in bins.
const SHORTEST: u64 = 200;
const LONGEST: u64 = 600;
/// What comes first is slow start, which all do alike.
const SKIPPED: u64 = 60;
/// A subflow without a point for this long stands still: 500 ms.
const STANDS_STILL: u64 = 100;
/// Share of a new look in the running log-odds. Windows overlap, so no single one may decide.
const NEW_SHARE: f64 = 0.4;
/// Log-odds at which a verdict is reached: 10 to 1.
const SURE: f64 = 2.2;
/// Looks that must agree before a verdict is reached, and before one is given up.
const TO_DECIDE: u32 = 2;
const TO_CHANGE: u32 = 4;
/// A verdict without new samples is kept for this long: routes rarely change while nobody looks.
const KEPT_FOR: Nanos = Nanos(10_000_000_000);

/// The method, for one connection.
#[derive(Default)]
pub(crate) struct Concordance {
    series: BTreeMap<SubflowId, Series>,
    pairs: BTreeMap<(SubflowId, SubflowId), Pair>,
}

/// What is thought of two subflows so far.
#[derive(Clone, Copy, Default)]
struct Pair {
    odds: Option<f64>,
    verdict: Verdict,
    since: Option<Nanos>,
    evidence: Option<Evidence>,
    candidate: Verdict,
    agreeing: u32,
    looked: Nanos,
}

impl Method for Concordance {
    fn take(&mut self, subflow: SubflowId, points: &[Point]) {
        self.series.entry(subflow).or_default().take(points);
    }

    fn judge(&mut self, at: Nanos) -> Vec<Opinion> {
        let ids: Vec<SubflowId> = self.series.keys().copied().collect();
        let mut views: BTreeMap<(SubflowId, u64), Option<View>> = BTreeMap::new();
        for (place, &a) in ids.iter().enumerate() {
            for &b in &ids[place + 1..] {
                let evidence = self.window(a, b, at).and_then(|window| {
                    for id in [a, b] {
                        let series = &self.series[&id];
                        views.entry((id, window.bins())).or_insert_with(|| View::of(series, window));
                    }
                    let view = |id| views.get(&(id, window.bins())).and_then(Option::as_ref);
                    let (view_a, view_b) = (view(a)?, view(b)?);
                    let congested = view_a.is_congested() || view_b.is_congested();
                    Some((compare(view_a, view_b)?, congested))
                });
                self.pairs.entry((a, b)).or_default().look(evidence, at);
            }
        }
        self.pairs.iter().map(|((a, b), pair)| pair.opinion(*a, *b)).collect()
    }

    fn forget(&mut self, subflow: SubflowId) {
        self.series.remove(&subflow);
        self.pairs.retain(|(a, b), _| *a != subflow && *b != subflow);
    }
}

impl Concordance {
    /// The time over which two subflows are compared. `None`: one of them has not been there for long enough, or stands still.
    fn window(&self, a: SubflowId, b: SubflowId, at: Nanos) -> Option<Window> {
        let now = at.0 / BIN_NS;
        let (a, b) = (self.series.get(&a)?, self.series.get(&b)?);
        if a.latest()?.min(b.latest()?) + STANDS_STILL < now {
            return None;
        }
        let together = now.checked_sub(a.begun()?.max(b.begun()?) + SKIPPED)?;
        // Rounded, so that few different windows have to be worked out.
        (together >= SHORTEST).then(|| Window::before(at, together.min(LONGEST) / 100 * 100))
    }
}

impl Pair {
    fn look(&mut self, evidence: Option<(Evidence, bool)>, at: Nanos) {
        let Some((evidence, congested)) = evidence else {
            if at.since(self.looked) > KEPT_FOR {
                *self = Self::default();
            }
            return;
        };
        self.looked = at;
        self.evidence = Some(evidence);
        if congested {
            let new = log_odds(&evidence);
            self.odds = Some(self.odds.map_or(new, |odds| odds + NEW_SHARE * (new - odds)));
        } else {
            self.odds = None;
        }
        self.consider(at);
    }

    fn consider(&mut self, at: Nanos) {
        let odds = self.odds;
        let wanted = match odds {
            None => Verdict::NoBottleneck,
            Some(odds) if odds > SURE => Verdict::Shared,
            Some(odds) if odds < -SURE => Verdict::Disjoint,
            // Not sure any more, but nothing speaks for the contrary.
            Some(odds) if self.verdict == Verdict::Shared && odds > 0.0 => Verdict::Shared,
            Some(odds) if self.verdict == Verdict::Disjoint && odds < 0.0 => Verdict::Disjoint,
            Some(_) => Verdict::Unknown,
        };
        self.agreeing = if wanted == self.candidate { self.agreeing + 1 } else { 1 };
        self.candidate = wanted;
        let enough = if self.verdict == Verdict::Unknown { TO_DECIDE } else { TO_CHANGE };
        if wanted != self.verdict && self.agreeing >= enough {
            self.verdict = wanted;
            self.since = (wanted != Verdict::Unknown).then_some(at);
        }
    }

    fn opinion(&self, a: SubflowId, b: SubflowId) -> Opinion {
        Opinion {
            a,
            b,
            verdict: self.verdict,
            probability: self.odds.map(|odds| 1.0 / (1.0 + (-odds).exp())),
            since: self.since,
            evidence: self.evidence,
        }
    }
}

/// Log-odds that two congested subflows share a bottleneck. Between sparse samples a queue may have done anything: whatever they show
/// no trace of counts for less, the sparser they are.
fn log_odds(evidence: &Evidence) -> f64 {
    const SPARSE: f64 = 0.45;
    const DENSE: f64 = 0.85;
    let says = delay_says(evidence)
        + bursts_say(evidence)
        + rates_say(evidence)
        + steadiness_says(evidence)
        + losses_say(evidence);
    let seen = ((evidence.coverage - SPARSE) / (DENSE - SPARSE)).clamp(0.0, 1.0);
    if says < 0.0 { says * seen } else { says }
}

/// One queue is one process. Two queues may look alike for other reasons, so likeness says less than the lack of it.
fn delay_says(evidence: &Evidence) -> f64 {
    evidence.queue_concordance.map_or(0.0, |alike| (9.0 * (alike - 0.6)).clamp(-5.0, 2.6))
}

/// Bursts are too short for two senders to be in step about them; and too short for sparse samples, so that a lack of them says little.
fn bursts_say(evidence: &Evidence) -> f64 {
    evidence.burst_concordance.map_or(0.0, |alike| (2.5 * (alike - 0.3)).clamp(-0.5, 1.2))
}

/// What one gets the other one loses, while both wait: they divide something. Rising and falling together, they do not.
fn rates_say(evidence: &Evidence) -> f64 {
    const BUSY: f64 = 0.2;
    let Some(correlation) = evidence.rate_correlation else { return 0.0 };
    if correlation >= 0.0 {
        // Other traffic pushes two that share about together, but never in lockstep.
        const LOCKSTEP: f64 = 0.8;
        return -2.5 * correlation - 20.0 * (correlation - LOCKSTEP).max(0.0);
    }
    // An application that sends at a constant rate divides that between its paths as well; but then no queue stands.
    if evidence.busy_a.min(evidence.busy_b) < BUSY { 0.0 } else { -4.0 * correlation }
}

/// Whoever shares a link is pushed about by the other one.
fn steadiness_says(evidence: &Evidence) -> f64 {
    const ALONE: f64 = 0.04;
    const PUSHED: f64 = 0.09;
    let Some(variation) = evidence.rate_variation else { return 0.0 };
    -5.0 * ((PUSHED - variation) / (PUSHED - ALONE)).clamp(0.0, 1.0)
}

/// A queue that overflows drops packets of all who are in it; but equal links overflow at the same time as well.
fn losses_say(evidence: &Evidence) -> f64 {
    evidence.loss_coincidence.map_or(0.0, |together| (2.0 * (together - 0.2)).clamp(-0.5, 0.5))
}
