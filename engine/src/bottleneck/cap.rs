// SPDX-License-Identifier: MIT OR Apache-2.0
//! A cap that subflows share without sharing a queue: what one of them gets the others lose, under a sum that stays the same, and yet
//! their delays are not those of one queue. So look a policer, a shaper with a queue for each flow, and the throttled virtual machine of
//! `[ICPE19]` (figure 13). An application that sends at a constant rate divides a constant as well; but then the paths are not congested.

use std::collections::{BTreeMap, BTreeSet};

use mpwatch_model::bottleneck::{Evidence, Verdict};
use mpwatch_model::id::SubflowId;
use mpwatch_model::unit::{Micros, Nanos};

use super::evaluation::Cap;
use super::feature::{Scene, Together};

/// Shorter windows have too few ups and downs.
const LEAST_WINDOW: Micros = Micros(2_000_000);
/// What one gets the other one loses, as far as third subflows do not explain it.
const TAKES_AWAY: f64 = -0.6;
/// A rate that moves by less does not show whose loss it is.
const MOVES: f64 = 0.025;
/// The sum varies by no more than this part of what its parts do, and by no more than this part of itself.
const CONSTANT: f64 = 0.3;
const STEADY: f64 = 0.06;
/// Delays that agree less than this, and are no noise, are those of two queues.
const UNLIKE: f64 = 0.4;
const SIGNAL: f64 = 0.4;
/// Who waits for less of the time has no queue that could be compared.
const WAITS: f64 = 0.2;
/// Rates that rise together divide nothing; delays this much alike are those of one queue.
const RISE_TOGETHER: f64 = 1.3;
const ALIKE: f64 = 0.75;
/// Looks in a row that find a cap, and that find the contrary.
const TO_DECIDE: u32 = 4;
/// Rates that have become steady show nothing any more; so many looks (10 s) it is kept.
const KEPT_FOR: u32 = 40;

/// What a look at two subflows says of a cap that they share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sign {
    /// It looks like one, if the sum is constant.
    For,
    /// Not to be told.
    Nothing,
    Against,
}

impl Sign {
    /// `congested`: both wait in a queue, or lose packets.
    pub(super) fn of(evidence: &Evidence, congested: bool, verdict: Verdict) -> Self {
        let agree = evidence.queue_concordance.unwrap_or(0.0);
        let signal = evidence.queue_signal.unwrap_or(0.0);
        if evidence.sum_variation.is_some_and(|sum| sum > RISE_TOGETHER) || (agree > ALIKE && signal > SIGNAL)
        {
            return Self::Against;
        }
        let two_queues = agree < UNLIKE && signal >= SIGNAL;
        let no_queue = evidence.busy_a.max(evidence.busy_b) < WAITS && verdict != Verdict::Shared;
        let takes_away = evidence.rate_correlation.is_some_and(|correlation| correlation <= TAKES_AWAY);
        let moves = evidence.least_variation.is_some_and(|least| least >= MOVES);
        let is_long = evidence.window >= LEAST_WINDOW;
        if congested && is_long && takes_away && moves && (two_queues || no_queue) {
            Self::For
        } else {
            Self::Nothing
        }
    }
}

type Two = (SubflowId, SubflowId);

/// What is thought of two subflows so far.
#[derive(Clone, Copy, Default)]
struct Suspicion {
    agreeing: u32,
    contrary: u32,
    silent: u32,
    since: Option<Nanos>,
}

impl Suspicion {
    /// Whether there is still something to it.
    fn hear(&mut self, sign: Sign, at: Nanos) -> bool {
        let count = |before: u32, is_it: bool| if is_it { before + 1 } else { 0 };
        self.agreeing = count(self.agreeing, sign == Sign::For);
        self.contrary = count(self.contrary, sign == Sign::Against);
        self.silent = count(self.silent, sign != Sign::For);
        if self.agreeing >= TO_DECIDE {
            self.since.get_or_insert(at);
        }
        let patience = if self.since.is_some() { KEPT_FOR } else { 1 };
        self.contrary < TO_DECIDE && self.silent < patience
    }
}

/// The caps of one connection.
#[derive(Default)]
pub(super) struct Caps {
    suspicions: BTreeMap<Two, Suspicion>,
    found: Vec<Cap>,
}

impl Caps {
    /// Takes in what a look shows: of each two subflows that could be compared, in a window of so many bins. `scenes`: the windows.
    pub(super) fn look(&mut self, signs: &[(Two, u64, Sign)], scenes: &BTreeMap<u64, Scene>, at: Nanos) {
        let hopeful = signs.iter().filter(|(.., sign)| *sign == Sign::For);
        let windows: BTreeMap<Two, u64> = hopeful.map(|(two, bins, _)| (*two, *bins)).collect();
        let mut dividing: BTreeSet<Two> = BTreeSet::new();
        for members in components(windows.keys().copied()) {
            let inside = |two: &&Two| members.contains(&two.0);
            let bins = windows.iter().filter(|(two, _)| inside(two)).map(|(_, bins)| *bins).min();
            let scene = bins.and_then(|bins| scenes.get(&bins));
            if scene.and_then(|scene| scene.together(&members)).is_some_and(|all| is_constant(&all)) {
                dividing.extend(windows.keys().filter(inside));
            }
        }
        let mut heard: BTreeMap<Two, Sign> = signs.iter().map(|(two, _, sign)| (*two, *sign)).collect();
        for (two, sign) in heard.iter_mut().filter(|(_, sign)| **sign == Sign::For) {
            *sign = if dividing.contains(two) { Sign::For } else { Sign::Nothing };
            self.suspicions.entry(*two).or_default();
        }
        self.suspicions.retain(|two, known| known.hear(heard.get(two).copied().unwrap_or(Sign::Nothing), at));
        self.tell(scenes);
    }

    /// Puts together who divides with whom.
    fn tell(&mut self, scenes: &BTreeMap<u64, Scene>) {
        let sure: BTreeMap<Two, Nanos> =
            self.suspicions.iter().filter_map(|(two, known)| Some((*two, known.since?))).collect();
        let before = std::mem::take(&mut self.found);
        for members in components(sure.keys().copied()) {
            let inside = sure.iter().filter(|(two, _)| members.contains(&two.0));
            let Some(since) = inside.map(|(_, since)| *since).max() else { continue };
            let seen = scenes.values().rev().find_map(|scene| scene.together(&members));
            let known = before.iter().find(|cap| cap.rates.iter().map(|(id, _)| id).eq(&members));
            let shown = match (seen, known) {
                (Some(all), _) => Some(Cap {
                    rates: members.iter().copied().zip(all.segments_a_second).collect(),
                    since,
                    sum_variation: all.sum_variation,
                    least_variation: all.least_variation,
                }),
                (None, known) => known.cloned(),
            };
            self.found.extend(shown);
        }
    }

    /// Those that there are.
    pub(super) fn found(&self) -> &[Cap] {
        &self.found
    }

    pub(super) fn forget(&mut self, subflow: SubflowId) {
        self.suspicions.retain(|(a, b), _| *a != subflow && *b != subflow);
        self.found.retain(|cap| cap.rates.iter().all(|(id, _)| *id != subflow));
    }
}

fn is_constant(all: &Together) -> bool {
    all.sum_variation <= CONSTANT && all.sum_swing <= STEADY
}

/// Who is connected with whom, in the order of their ids.
fn components(pairs: impl Iterator<Item = Two>) -> Vec<Vec<SubflowId>> {
    let mut groups: Vec<BTreeSet<SubflowId>> = Vec::new();
    for (a, b) in pairs {
        let (touched, mut rest): (Vec<_>, Vec<_>) =
            groups.into_iter().partition(|group| group.contains(&a) || group.contains(&b));
        rest.push(touched.into_iter().flatten().chain([a, b]).collect());
        groups = rest;
    }
    groups.into_iter().map(|group| group.into_iter().collect()).collect()
}
