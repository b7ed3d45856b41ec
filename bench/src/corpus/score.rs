// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares the verdicts of a method on a run with the truth. Truth and proportions come from the code of `./dev bench bottleneck`.
//! No I/O.

use std::ops::AddAssign;

use mpwatch_model::flow::bottleneck::Verdict;

use crate::bottleneck::score::Tally;
use crate::bottleneck::truth::{SECOND, Time, Truth as PairTruth, truth};
use crate::corpus::closing::Closing;
use crate::corpus::judge::{TimedVerdict, Verdicts};
use crate::corpus::record::Truth;
use crate::corpus::recording::{Recording, Subflow};

/// Seconds after the start of a pair at which verdicts are scored.
pub const CHECKPOINTS: [u64; 4] = [2, 3, 5, 15];
/// The checkpoint at which the probabilities of verdicts are compared with the truth, seconds.
const RELIABILITY_AT: u64 = 5;
/// Lower limits of the probability of a verdict in the reliability table.
pub const LEVELS: [f64; 4] = [0.0, 0.9, 0.95, 0.99];
/// A subflow without samples for longer than this before a checkpoint counts as ended.
const MAX_IDLE: Time = SECOND;

/// A row of the reliability table: verdicts whose probability is within a range.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reliability {
    /// Number of verdicts.
    pub count: u32,
    /// Number of right verdicts.
    pub right: u32,
    /// Sum of the probabilities.
    pub sum: f64,
}

/// Score of a method on one or more runs.
#[derive(Clone, Debug, Default)]
pub struct Score {
    /// Number of runs.
    pub runs: u32,
    /// Counts at each of [`CHECKPOINTS`].
    pub at: [Tally; 4],
    /// Seconds from the start of each pair to its first right verdict, if it had one.
    pub times: Vec<f64>,
    /// Number of pairs on congested links.
    pub pairs: u32,
    /// The subflows that would be closed.
    pub closing: Closing,
    /// The verdicts at 5 s by probability ([`LEVELS`]).
    pub reliability: [Reliability; 4],
}

impl AddAssign<&Score> for Score {
    fn add_assign(&mut self, other: &Score) {
        self.runs += other.runs;
        for (tally, other) in self.at.iter_mut().zip(other.at) {
            *tally += other;
        }
        self.times.extend(&other.times);
        self.pairs += other.pairs;
        self.closing += other.closing;
        for (row, other) in self.reliability.iter_mut().zip(other.reliability) {
            row.count += other.count;
            row.right += other.right;
            row.sum += other.sum;
        }
    }
}

impl Score {
    /// Seconds until the share `part` of the pairs had a right verdict. `None`: fewer pairs had one.
    pub fn time(&self, part: f64) -> Option<f64> {
        let mut sorted = self.times.clone();
        sorted.sort_by(f64::total_cmp);
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "an index")]
        let rank = (part * f64::from(self.pairs)).ceil().max(1.0) as usize;
        sorted.get(rank - 1).copied()
    }
}

/// Scores the verdicts of a method on a run.
pub fn score(recording: &Recording, known: &Truth, verdicts: &Verdicts) -> Score {
    let mut score = Score { runs: 1, closing: Closing::new(recording, known, verdicts), ..Score::default() };
    for [a, b] in recording.pairs() {
        let links = known.link(a.path.local).zip(known.link(b.path.local));
        let since = a.established.zip(b.established).map(|(a, b)| a.max(b));
        let Some(((a_link, b_link), since)) = links.zip(since) else { continue };
        let timeline = verdicts.of_pair((a.id.min(b.id), a.id.max(b.id)));
        score.add_pair([a, b], since, timeline, |at| truth(&known.queues, [a_link, b_link], since, at));
    }
    score
}

impl Score {
    fn add_pair(
        &mut self,
        [a, b]: [&Subflow; 2],
        since: Time,
        timeline: &[TimedVerdict],
        truth: impl Fn(Time) -> PairTruth,
    ) {
        let end = a.last_sample.min(b.last_sample);
        for (tally, seconds) in self.at.iter_mut().zip(CHECKPOINTS) {
            let time = since + seconds * SECOND;
            if time > end + MAX_IDLE {
                continue;
            }
            let latest = timeline.iter().rev().find(|known| known.known_at <= time);
            let verdict = latest.map_or(Verdict::Unknown, |known| known.verdict);
            tally.add(truth(time), verdict);
            if seconds == RELIABILITY_AT
                && let Some(probability) = latest.and_then(|known| known.probability)
            {
                add_reliability(&mut self.reliability, truth(time), verdict, probability);
            }
        }
        let right = match truth(end) {
            PairTruth::Shared => Verdict::Shared,
            PairTruth::Disjoint => Verdict::Disjoint,
            PairTruth::Uncongested => return,
        };
        // Pairs that end before the first checkpoint would count as never decided.
        if since + CHECKPOINTS[0] * SECOND > end + MAX_IDLE {
            return;
        }
        self.pairs += 1;
        let first = timeline.iter().find(|known| known.known_at >= since && known.verdict == right);
        self.times.extend(first.map(|known| (known.known_at - since) as f64 / SECOND as f64));
    }
}

fn add_reliability(rows: &mut [Reliability; 4], truth: PairTruth, verdict: Verdict, probability: f64) {
    let (probability, right) = match (verdict, truth) {
        (_, PairTruth::Uncongested) => return,
        (Verdict::Shared, truth) => (probability, truth == PairTruth::Shared),
        (Verdict::Disjoint, truth) => (1.0 - probability, truth == PairTruth::Disjoint),
        _ => return,
    };
    let index = LEVELS.iter().rposition(|level| probability >= *level).unwrap_or(0);
    rows[index].count += 1;
    rows[index].right += u32::from(right);
    rows[index].sum += probability;
}
