// SPDX-License-Identifier: MIT OR Apache-2.0
//! Infers from the rates of all traced connections which paths share a bottleneck. One of many connections is a small part of the traffic of a
//! link, so its own rates and delays are weak evidence. The sum of the rates of all subflows of a path shows which paths divide the rate of a
//! link, and the lowest RTT of all these subflows shows which paths have the same queueing delay.

pub(super) mod delays;
mod pair;
pub(super) mod partition;
mod steps;

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;

use mpwatch_model::flow::bottleneck::Evidence;
use mpwatch_model::id::{NetnsCookie, SubflowId};
use mpwatch_model::kernel::sample::{DelaySample, SampleBatch};
use mpwatch_model::unit::{BitsPerSecond, Nanos};

use delays::{Delays, Difference};
pub use pair::PooledPair;
use partition::Comparison;
use steps::{STEP_NS, Steps};

use super::decision::VERDICT_LIFETIME;

/// Time between two evaluations.
const INTERVAL: u64 = 125_000_000;
/// Delay of an evaluation after its time: a batch arrives up to 100 ms after its samples, an ACK half an RTT after its segment left the queue.
const DELAY: u64 = 250_000_000;
/// Length of the window in steps: 2 s or, if the newest path has existed for less time, that time, but at least 0.8 s.
const WINDOW: u64 = 40;
const MIN_WINDOW: u64 = 16;
/// Paths are compared at several step lengths, in multiples of 50 ms: short steps suit few fast subflows, long steps many slow subflows.
const SCALES: [u64; 3] = [1, 2, 4];
/// Weight of the log-odds from the rates. This weight and the numbers in [`delay_log_odds`] were fitted to the training conditions of the corpus.
const RATE_WEIGHT: f64 = 0.6;
/// Delays with a larger [`Difference::ratio`] come from two queues.
const SEPARATE_QUEUES: f64 = 0.75;
/// Maximum absolute log-odds of an evaluation.
const MAX_ODDS: f64 = 6.0;
/// The first 300 ms of a path, in steps, are ignored: slow start does not fill a link.
const SLOW_START: u64 = 6;
/// Maximum number of paths that are compared: the paths with the most bytes. The time of an evaluation grows with the cube of this number.
const MAX_COMPARED: usize = 32;
/// Maximum number of paths and of subflows that are kept. Samples of further paths and subflows are ignored until others are forgotten.
const MAX_PATHS: usize = 1_024;
const MAX_SUBFLOWS: usize = 20_000;
/// A path, a subflow, or a connection of a path is forgotten after this time without samples, in nanoseconds.
const FORGET_AFTER: u64 = 10_000_000_000;
/// A path without samples for this many steps (200 ms) is idle.
const MAX_IDLE: u64 = 4;
/// A path is congested if its packets were queued in at least this fraction of the steps.
const CONGESTED: f64 = 0.2;

/// The path of a subflow: the network namespace, and the local and remote address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AddressPair {
    /// Network namespace of the sender.
    pub netns: NetnsCookie,
    /// Address of the sender.
    pub local: IpAddr,
    /// Address of the receiver.
    pub remote: IpAddr,
}

/// A subflow whose samples are added to its path.
struct Member {
    path: AddressPair,
    /// Lowest RTT of this subflow, microseconds.
    base_us: u32,
    /// Time and delivered segments of the latest sample.
    latest: (Nanos, u32),
    /// The half of the samples of its path, 0 or 1, that the next sample belongs to.
    half: usize,
}

/// One path.
#[derive(Default)]
struct Path {
    steps: Steps,
    /// Number of the step of the first sample.
    began: u64,
    /// Time of the latest sample, nanoseconds.
    newest: u64,
    /// The connections that use the path, each with the time of its latest sample.
    users: HashMap<u64, u64>,
}

impl Path {
    /// The queueing delays in these steps.
    fn delays(&self, from: u64, to: u64) -> Delays {
        Delays::new(self.steps.delays(from, to), self.users.len())
    }
}

/// The result of comparing two paths at several step lengths.
#[derive(Default)]
struct Scaled {
    /// Length of the window of the queueing delays, in steps.
    steps: u64,
    difference: Option<Difference>,
    /// Sum of the log-odds that the paths share a queue.
    odds: f64,
    /// Sum of the log-odds that the paths share a rate cap, but no queue. 0: their delays do not differ.
    cap_odds: f64,
    /// The comparison with the strongest evidence, its log-odds, and the length of its steps and of its window in steps of 50 ms.
    strongest: Option<(Comparison, f64)>,
    scale: u64,
    window: u64,
}

/// The rates of the paths of all connections.
#[derive(Default)]
pub struct Pool {
    paths: BTreeMap<AddressPair, Path>,
    subflows: HashMap<SubflowId, Member>,
    pairs: BTreeMap<(AddressPair, AddressPair), PooledPair>,
    /// Time of the last evaluation, in multiples of [`INTERVAL`]. `None`: no evaluation has taken place.
    evaluated: Option<u64>,
}

impl Pool {
    /// Adds samples of a subflow of a connection, in order of time. `mss`: payload of a segment, bytes.
    pub fn add(&mut self, path: AddressPair, connection: u64, mss: u32, batch: &SampleBatch) {
        let Some((first, last)) = batch.samples.first().zip(batch.samples.last()) else { return };
        if !self.subflows.contains_key(&batch.id) {
            let is_full = self.paths.len() == MAX_PATHS && !self.paths.contains_key(&path);
            if is_full || self.subflows.len() == MAX_SUBFLOWS {
                return;
            }
            let latest = (first.at, first.delivered);
            self.subflows.insert(batch.id, Member { path, base_us: u32::MAX, latest, half: 0 });
        }
        let Some(member) = self.subflows.get_mut(&batch.id) else { return };
        let new = || Path { began: first.at.0 / STEP_NS, ..Path::default() };
        let path = self.paths.entry(member.path).or_insert_with(new);
        path.newest = path.newest.max(last.at.0);
        path.users.insert(connection, last.at.0);
        for sample in &batch.samples {
            member.add(path, sample, mss);
        }
        self.advance(last.at);
    }

    /// Runs the evaluations that are due. Every batch sent until `now` must have been added.
    pub fn advance(&mut self, now: Nanos) {
        let due = now.0.saturating_sub(DELAY) / INTERVAL;
        let earliest = due.saturating_sub(WINDOW * STEP_NS / INTERVAL);
        let from = self.evaluated.map_or(due, |evaluated| (evaluated + 1).max(earliest));
        for number in from..=due {
            self.evaluate(Nanos(number * INTERVAL));
            self.evaluated = Some(number);
        }
    }

    /// The result for two different paths. `None`: they were not compared in the last 10 s, because one is new, idle or not congested.
    pub fn pair(&self, (a, b): (AddressPair, AddressPair)) -> Option<&PooledPair> {
        self.pairs.get(&(a.min(b), a.max(b)))
    }

    fn evaluate(&mut self, at: Nanos) {
        let is_recent = |newest: u64| newest.saturating_add(FORGET_AFTER) > at.0;
        self.paths.retain(|_, path| is_recent(path.newest));
        self.paths.values_mut().for_each(|path| path.users.retain(|_, newest| is_recent(*newest)));
        self.subflows.retain(|_, member| is_recent(member.latest.0.0));
        let to = at.0 / STEP_NS;
        let (began, compared) = self.compared(to);
        for ((a, b), scaled) in self.compare(&compared, began, to) {
            let paths = (compared[a], compared[b]);
            let evidence = self.evidence(paths, compared.len(), to, &scaled);
            let pair = self.pairs.entry(paths).or_default();
            // A short window counts less: the first seconds of two links are often alike.
            let weight = scaled.steps as f64 / WINDOW as f64;
            let [queue, cap] =
                [scaled.odds, scaled.cap_odds].map(|odds| (odds * weight).clamp(-MAX_ODDS, MAX_ODDS));
            pair.update((queue, cap), (scaled.steps, scaled.steps == WINDOW), at, evidence);
        }
        self.pairs.retain(|_, pair| at.since(pair.updated) <= VERDICT_LIFETIME);
    }

    /// Compares every pair of these paths, at each step length for which the window is long enough.
    fn compare(&self, compared: &[AddressPair], began: u64, to: u64) -> BTreeMap<(usize, usize), Scaled> {
        let mut found: BTreeMap<(usize, usize), Scaled> = BTreeMap::new();
        let steps = WINDOW.min(to - began.min(to));
        let row = |path| Some(self.paths.get(path)?.delays(to - steps, to));
        let differences = delays::differences(&compared.iter().filter_map(row).collect::<Vec<_>>());
        for scale in SCALES {
            let from = began.max(to.saturating_sub(scale * WINDOW));
            if to - from < scale * MIN_WINDOW {
                break;
            }
            let row = |path| Some(self.paths.get(path)?.steps.bytes(from, to, scale));
            let rows: Vec<Vec<f64>> = compared.iter().filter_map(row).collect();
            for comparison in partition::compare(&rows) {
                let odds = log_odds(&comparison);
                let scaled = found.entry(comparison.rows).or_insert_with_key(|pair| {
                    let difference = differences.get(pair).copied();
                    Scaled {
                        steps,
                        odds: difference.map_or(0.0, delay_log_odds),
                        difference,
                        ..Scaled::default()
                    }
                });
                // Paths that divide a rate, but have different delays, share a rate limit and no queue.
                let is_cap = scaled.difference.is_some_and(|difference| difference.ratio > SEPARATE_QUEUES);
                scaled.odds += RATE_WEIGHT * if is_cap { odds.min(0.0) } else { odds };
                scaled.cap_odds += if is_cap { RATE_WEIGHT * odds } else { 0.0 };
                if scaled.strongest.as_ref().is_none_or(|(_, strongest)| strongest.abs() <= odds.abs()) {
                    (scaled.strongest, scaled.scale, scaled.window) =
                        (Some((comparison, odds)), scale, to - from);
                }
            }
        }
        found
    }

    fn evidence(
        &self,
        (a, b): (AddressPair, AddressPair),
        paths: usize,
        to: u64,
        scaled: &Scaled,
    ) -> Evidence {
        let number = |count: usize| u32::try_from(count).ok();
        let strongest = scaled.strongest.as_ref().map(|(comparison, _)| comparison);
        let per_step = 8e9 / (scaled.scale * STEP_NS) as f64;
        let rate = strongest.and_then(|comparison| comparison.rate).map(|bytes| bytes * per_step);
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "an `as` cast saturates")]
        let link_rate = rate.map(|rate| BitsPerSecond(rate.round() as u64));
        Evidence {
            busy_a: self.busy(a, to),
            busy_b: self.busy(b, to),
            coverage: 1.0,
            window: Nanos(scaled.window * STEP_NS).micros(),
            queue_concordance: scaled.difference.map(|difference| 1.0 - difference.ratio),
            connections: number(self.connections(a).max(self.connections(b))),
            pooled_paths: number(paths),
            conservation_ratio: strongest.map(|comparison| comparison.conservation),
            link_rate,
            ..Evidence::default()
        }
    }

    /// Fraction of the last 0.8 s in which packets of a path were queued.
    fn busy(&self, path: AddressPair, to: u64) -> f64 {
        self.paths.get(&path).map_or(0.0, |path| path.steps.busy(to.saturating_sub(MIN_WINDOW)))
    }

    /// Whether several connections use one of two paths.
    pub fn is_shared(&self, (a, b): (AddressPair, AddressPair)) -> bool {
        self.connections(a).max(self.connections(b)) > 1
    }

    /// Number of paths that are kept.
    #[cfg(test)]
    pub(super) fn paths(&self) -> usize {
        self.paths.len()
    }

    fn connections(&self, path: AddressPair) -> usize {
        self.paths.get(&path).map_or(0, |path| path.users.len())
    }

    /// The congested paths with the most bytes in the 0.8 s before step `to`, in order; and the first step from which all can be compared.
    fn compared(&self, to: u64) -> (u64, Vec<AddressPair>) {
        let recent = to.saturating_sub(MIN_WINDOW);
        let is_comparable = |path: &Path| {
            path.began + SLOW_START <= recent
                && path.newest / STEP_NS + MAX_IDLE > to
                && path.steps.busy(recent) >= CONGESTED
        };
        let comparable = self.paths.iter().filter(|(_, path)| is_comparable(path));
        let mut sized: Vec<(f64, AddressPair, u64)> = comparable
            .map(|(id, path)| (path.steps.bytes(recent, to, 1).iter().sum(), *id, path.began + SLOW_START))
            .collect();
        sized.sort_by(|(a, ..), (b, ..)| b.total_cmp(a));
        sized.truncate(MAX_COMPARED);
        sized.sort_by_key(|(_, path, _)| *path);
        let began = sized.iter().map(|(_, _, began)| *began).max().unwrap_or(0);
        (began, sized.into_iter().map(|(_, path, _)| path).collect())
    }
}

impl Member {
    fn add(&mut self, path: &mut Path, sample: &DelaySample, mss: u32) {
        let rtt_us = u32::try_from(sample.rtt.0).unwrap_or(u32::MAX);
        self.base_us = self.base_us.min(rtt_us);
        // Acknowledgements arrive about half of the base RTT after the segment left the queue.
        let left = |at: Nanos| Nanos(at.0.saturating_sub(u64::from(self.base_us) * 500));
        let segments = sample.delivered.wrapping_sub(self.latest.1);
        // A sample of another CPU may be late.
        if segments > u32::MAX / 2 || sample.at < self.latest.0 {
            return;
        }
        let bytes = f64::from(segments) * f64::from(mss);
        path.steps.add(left(self.latest.0), left(sample.at), bytes, (rtt_us, self.half));
        self.half = 1 - self.half;
        self.latest = (sample.at, sample.delivered);
    }
}

/// Log-odds that two congested paths share a link.
fn log_odds(comparison: &Comparison) -> f64 {
    /// Coefficients of variation: `STEADY` is due to the granularity of segments, the other two to a link that other traffic uses as well.
    const STEADY: f64 = 0.02;
    const VARYING_ALONE: f64 = 0.06;
    const VARYING_TOGETHER: f64 = 0.16;
    /// From this conservation on, the sum is as steady as expected of one link.
    const CONSERVED: f64 = 0.3;
    let steadiness = |limit: f64| ((limit - comparison.variation) / (limit - STEADY)).clamp(0.0, 1.0);
    if comparison.rate.is_some() {
        let conserved = (partition::SPLIT - comparison.conservation) / (partition::SPLIT - CONSERVED);
        MAX_ODDS * steadiness(VARYING_TOGETHER) * conserved.clamp(0.0, 1.0)
    } else {
        -MAX_ODDS * steadiness(VARYING_ALONE)
    }
}

/// Log-odds that two congested paths share a queue. The mean of many pairs is less noisy than one pair.
fn delay_log_odds(difference: Difference) -> f64 {
    /// Delays alone give at most a probability of 0.989: two queues can fill in step.
    const MAX: f64 = 4.5;
    ((difference.pairs as f64).powf(0.25) * difference.log_odds).clamp(-MAX, MAX)
}
