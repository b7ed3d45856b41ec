// SPDX-License-Identifier: MIT OR Apache-2.0
//! The method of mpwatch. Packets in one FIFO queue wait equally long, so the queueing delays of subflows that share it move together in
//! absolute microseconds. Subflows on separate, equal links can do the same when their congestion windows go up and down in
//! step; what betrays those is that neither takes anything away from the other: rates that do not vary, or that vary together. What
//! speaks for and against is added up as log-odds; the weights are few, and each has a reason that can be told.

use std::collections::BTreeMap;

use mpwatch_model::bottleneck::{Evidence, Verdict};
use mpwatch_model::id::SubflowId;
use mpwatch_model::sample::DelaySample;
use mpwatch_model::unit::Nanos;

use super::cap::{Caps, Sign};
use super::evaluation::{Cap, PairEvaluation};
use super::feature::{Scene, View};
use super::method::Method;
use super::odds::log_odds;
use super::series::{BIN_NS, Series, Window};
use super::statistics::mean;

/// Windows grow from 1 s to 3 s, in bins.
const SHORTEST: u64 = 200;
const LONGEST: u64 = 600;
/// What comes first is slow start, which all do alike.
const SKIPPED: u64 = 60;
/// A subflow without a point for this long stands still: 500 ms.
const STANDS_STILL: u64 = 100;
/// Share of a new look in the running log-odds. Windows overlap, so no single one may decide.
const NEW_SHARE: f64 = 0.4;
/// Log-odds at which a verdict is reached: 9 to 1.
const SURE: f64 = 2.2;
/// Looks that must agree before a verdict is reached, and before one is given up.
const TO_DECIDE: u32 = 2;
const TO_CHANGE: u32 = 4;
/// What other subflows say of two of them weighs no more than this.
const MOST_IMPLIED: f64 = 4.0;
/// The last second alone, in bins: what it says against a verdict may be a change of routes.
const LATELY: u64 = 200;
/// A verdict without new samples is kept for this long: routes rarely change while nobody looks.
const KEPT_FOR: Nanos = Nanos(10_000_000_000);

/// The method, for one connection.
#[derive(Default)]
pub(crate) struct Concordance {
    series: BTreeMap<SubflowId, Series>,
    pairs: BTreeMap<(SubflowId, SubflowId), Pair>,
    caps: Caps,
}

/// What is thought of two subflows so far.
#[derive(Clone, Copy, Default)]
struct Pair {
    odds: Option<f64>,
    /// What is added by other subflows.
    implied: f64,
    verdict: Verdict,
    since: Option<Nanos>,
    evidence: Option<Evidence>,
    candidate: Verdict,
    agreeing: u32,
    looked: Nanos,
    /// Neither waited at the last look.
    free: bool,
    /// Looks in a row at which the last second alone said the contrary of the verdict.
    contrary: u32,
    /// What was before this bin is not looked at: the route was another one.
    from: u64,
}

/// What a look shows of two subflows.
#[derive(Clone, Copy)]
struct Glance {
    evidence: Evidence,
    /// At least one of them waits in a queue.
    congested: bool,
    /// Neither does. Where it is not known, neither of the two is true.
    free: bool,
    /// Log-odds by the last second alone.
    lately: Option<f64>,
    /// Bins that it is over.
    bins: u64,
    /// What it says of a cap.
    cap: Sign,
}

impl Method for Concordance {
    fn take(&mut self, subflow: SubflowId, samples: &[DelaySample]) {
        self.series.entry(subflow).or_default().take(samples);
    }

    fn evaluate(&mut self, at: Nanos) -> Vec<PairEvaluation> {
        let ids: Vec<SubflowId> = self.series.keys().copied().collect();
        let mut scenes = Scenes::default();
        let (mut seen, mut signs) = (Vec::new(), Vec::new());
        for (place, &a) in ids.iter().enumerate() {
            for &b in &ids[place + 1..] {
                let glance = self.glance(&mut scenes, (a, b), at);
                let pair = self.pairs.entry((a, b)).or_default();
                signs.extend(glance.map(|glance| ((a, b), glance.bins, glance.cap)));
                if pair.look(glance, at) {
                    seen.push((a, b));
                }
            }
        }
        let odds: Odds = self.pairs.iter().filter_map(|(ids, pair)| Some((*ids, pair.odds?))).collect();
        for pair in seen {
            let implied = implied(&odds, &ids, pair);
            self.pairs.entry(pair).or_default().consider(implied, at);
        }
        self.caps.look(&signs, &scenes, at);
        self.pairs.iter().map(|((a, b), pair)| pair.evaluation(*a, *b)).collect()
    }

    fn caps(&self) -> &[Cap] {
        self.caps.found()
    }

    fn forget(&mut self, subflow: SubflowId) {
        self.series.remove(&subflow);
        self.caps.forget(subflow);
        self.pairs.retain(|(a, b), _| *a != subflow && *b != subflow);
    }

    fn resume(&mut self, suspended_for: Nanos) {
        for pair in self.pairs.values_mut() {
            pair.looked += suspended_for;
        }
    }
}

/// The windows that were looked at this time.
type Scenes = BTreeMap<u64, Scene>;
/// Log-odds of each two subflows.
type Odds = BTreeMap<(SubflowId, SubflowId), f64>;

impl Concordance {
    /// The time over which two subflows are compared. `None`: one of them has not been there for long enough, or stands still.
    fn window(&self, (a, b): (SubflowId, SubflowId), at: Nanos) -> Option<Window> {
        let now = at.0 / BIN_NS;
        let from = self.pairs.get(&(a, b)).map_or(0, |pair| pair.from);
        let (a, b) = (self.series.get(&a)?, self.series.get(&b)?);
        if a.latest()?.min(b.latest()?) + STANDS_STILL < now {
            return None;
        }
        let together = now.checked_sub((a.begun()?.max(b.begun()?) + SKIPPED).max(from))?;
        // Rounded, so that few different windows have to be worked out.
        (together >= SHORTEST).then(|| Window::before(at, together.min(LONGEST) / 50 * 50))
    }

    fn glance(&self, scenes: &mut Scenes, (a, b): (SubflowId, SubflowId), at: Nanos) -> Option<Glance> {
        let window = self.window((a, b), at)?;
        let verdict = self.pairs.get(&(a, b)).map_or(Verdict::Unknown, |pair| pair.verdict);
        let scene = scenes.entry(window.bins()).or_insert_with(|| Scene::of(&self.series, window));
        let evidence = scene.compare(a, b)?;
        let are_congested = [a, b].map(|id| scene.view(id).is_some_and(View::is_congested));
        let free = scene.is_free(a) && scene.is_free(b);
        let cap = Sign::of(&evidence, are_congested == [true; 2], verdict);
        let last = Window::before(at, LATELY);
        let lately = (verdict != Verdict::Unknown && window.bins() > LATELY)
            .then(|| scenes.entry(LATELY).or_insert_with(|| Scene::of(&self.series, last)).compare(a, b));
        Some(Glance {
            evidence,
            congested: are_congested.contains(&true),
            free,
            lately: lately.flatten().map(|evidence| log_odds(&evidence)),
            bins: window.bins(),
            cap,
        })
    }
}

/// What other subflows say of two: who shares with one that shares with the other shares with it; who shares with one that the other
/// one does not share with, does not. On average over the others, as sure as the less sure half of it.
fn implied(odds: &Odds, ids: &[SubflowId], (a, b): (SubflowId, SubflowId)) -> f64 {
    let of = |one: SubflowId, other: SubflowId| odds.get(&(one.min(other), one.max(other))).copied();
    let through = |other: &SubflowId| {
        let (x, y) = (of(a, *other)?, of(b, *other)?);
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
    mean(&all).unwrap_or(0.0).clamp(-MOST_IMPLIED, MOST_IMPLIED)
}

impl Pair {
    /// Takes in what a look shows; whether there was anything to see.
    fn look(&mut self, glance: Option<Glance>, at: Nanos) -> bool {
        let Some(Glance { evidence, congested, free, lately, .. }) = glance else {
            if at.since(self.looked) > KEPT_FOR {
                *self = Self::default();
            }
            return false;
        };
        (self.looked, self.free) = (at, free);
        self.evidence = Some(evidence);
        let against = match self.verdict {
            Verdict::Shared => lately.is_some_and(|odds| odds < -SURE),
            Verdict::Disjoint => lately.is_some_and(|odds| odds > SURE),
            Verdict::NoBottleneck | Verdict::Unknown => false,
        };
        self.contrary = if against { self.contrary + 1 } else { 0 };
        if self.contrary >= TO_CHANGE {
            // As if they had met a second ago.
            let from = (at.0 / BIN_NS).saturating_sub(LATELY);
            *self = Self { from, odds: lately, looked: at, evidence: self.evidence, ..Self::default() };
        } else if congested {
            let new = log_odds(&evidence);
            self.odds = Some(self.odds.map_or(new, |odds| odds + NEW_SHARE * (new - odds)));
        } else {
            self.odds = None;
        }
        true
    }

    /// `implied`: what other subflows say.
    fn consider(&mut self, implied: f64, at: Nanos) {
        let wanted = match self.odds.map(|odds| odds + implied) {
            None if self.free => Verdict::NoBottleneck,
            Some(odds) if odds > SURE => Verdict::Shared,
            Some(odds) if odds < -SURE => Verdict::Disjoint,
            // Not sure any more, but nothing speaks for the contrary.
            Some(odds) if self.verdict == Verdict::Shared && odds > 0.0 => Verdict::Shared,
            Some(odds) if self.verdict == Verdict::Disjoint && odds < 0.0 => Verdict::Disjoint,
            _ => Verdict::Unknown,
        };
        self.implied = implied;
        self.agreeing = if wanted == self.candidate { self.agreeing + 1 } else { 1 };
        self.candidate = wanted;
        let enough = if self.verdict == Verdict::Unknown { TO_DECIDE } else { TO_CHANGE };
        if wanted != self.verdict && self.agreeing >= enough {
            self.verdict = wanted;
            self.since = (wanted != Verdict::Unknown).then_some(at);
        }
    }

    fn evaluation(&self, a: SubflowId, b: SubflowId) -> PairEvaluation {
        PairEvaluation {
            a,
            b,
            verdict: self.verdict,
            probability: self.odds.map(|odds| 1.0 / (1.0 + (-odds - self.implied).exp())),
            since: self.since,
            evidence: self.evidence,
        }
    }
}
