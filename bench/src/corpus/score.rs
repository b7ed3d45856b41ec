// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares the verdicts of a method on a run with the truth. Truth and proportions come from the code of `./dev bench bottleneck`.
//! No I/O.

use std::ops::AddAssign;

use mpwatch_model::flow::bottleneck::Verdict;

use crate::bottleneck::score::Tally;
use crate::bottleneck::truth::{SECOND, Time, Truth as PairTruth};
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
    /// Number of pairs reported as capped at each of [`CHECKPOINTS`]: of the pairs that share only a rate, and of all others.
    pub caps: [[u32; 2]; 4],
    /// Seconds from the start of each pair, or from the change of its route, to its first right verdict, if it had one.
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
        for (count, other) in self.caps.iter_mut().flatten().zip(other.caps.iter().flatten()) {
            *count += other;
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
        let Some(since) = a.established.zip(b.established).map(|(a, b)| a.max(b)) else { continue };
        let timeline = verdicts.of_pair((a.id.min(b.id), a.id.max(b.id)));
        score.add_pair([a, b], since, timeline, known);
    }
    score
}

impl Score {
    fn add_pair(&mut self, [a, b]: [&Subflow; 2], since: Time, timeline: &[TimedVerdict], known: &Truth) {
        let truth = |at| known.pair([a, b], since, at);
        let end = a.last_sample.min(b.last_sample);
        for ((tally, caps), seconds) in self.at.iter_mut().zip(&mut self.caps).zip(CHECKPOINTS) {
            let time = since + seconds * SECOND;
            let Some(truth) = truth(time).filter(|_| time <= end + MAX_IDLE) else { continue };
            let latest = timeline.iter().rev().find(|known| known.known_at <= time);
            let verdict = latest.map_or(Verdict::Unknown, |known| known.verdict);
            tally.add(truth, verdict);
            caps[usize::from(truth != PairTruth::Cap)] +=
                u32::from(latest.is_some_and(|known| known.is_capped));
            if seconds == RELIABILITY_AT
                && let Some(probability) = latest.and_then(|known| known.probability)
            {
                add_reliability(&mut self.reliability, truth, verdict, probability);
            }
        }
        let right = match truth(end) {
            Some(PairTruth::Shared) => Verdict::Shared,
            Some(PairTruth::Disjoint) => Verdict::Disjoint,
            Some(PairTruth::Cap | PairTruth::Uncongested) | None => return,
        };
        // Pairs that end before the first checkpoint would count as never decided.
        if since + CHECKPOINTS[0] * SECOND > end + MAX_IDLE {
            return;
        }
        self.pairs += 1;
        let since =
            known.switched.filter(|switched| *switched < end).map_or(since, |switched| since.max(switched));
        let first = timeline.iter().find(|known| known.known_at >= since && known.verdict == right);
        self.times.extend(first.map(|known| (known.known_at - since) as f64 / SECOND as f64));
    }
}

fn add_reliability(rows: &mut [Reliability; 4], truth: PairTruth, verdict: Verdict, probability: f64) {
    let (probability, right) = match (verdict, truth) {
        (_, PairTruth::Uncongested) => return,
        (Verdict::Shared, truth) => (probability, truth == PairTruth::Shared),
        (Verdict::Disjoint, truth) => (1.0 - probability, truth != PairTruth::Shared),
        _ => return,
    };
    let index = LEVELS.iter().rposition(|level| probability >= *level).unwrap_or(0);
    rows[index].count += 1;
    rows[index].right += u32::from(right);
    rows[index].sum += probability;
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::net::SocketAddr;

    use mpwatch_engine::bottleneck::AddressPair;
    use mpwatch_model::id::{NetnsCookie, SocketCookie, SubflowId};
    use mpwatch_model::kernel::event::Start;

    use super::*;
    use crate::bottleneck::truth::QueueSample;
    use mpwatch_lab::corpus::plan;

    /// A run of two subflows for 20 s. The queues of both links are never empty.
    fn run(condition: &str) -> (Recording, Truth) {
        let condition = format!("a training {condition}").parse().unwrap();
        let addresses: [SocketAddr; 2] =
            ["10.50.0.1:7", "10.50.0.2:8"].map(|address| address.parse().unwrap());
        let subflow = |number: usize| Subflow {
            id: SubflowId { cookie: SocketCookie(number as u64), generation: 0 },
            connection: 1,
            is_mptcp: true,
            path: AddressPair {
                netns: NetnsCookie(1),
                local: addresses[number].ip(),
                remote: addresses[0].ip(),
            },
            local: addresses[number],
            mss: 1448,
            established: Some(0),
            last_sample: 20 * SECOND,
        };
        let subflows = [0, 1].map(subflow).map(|subflow| (subflow.id, subflow));
        let recording = Recording {
            start: Start::default(),
            subflows: BTreeMap::from(subflows),
            records: BTreeMap::new(),
            batches: Vec::new(),
        };
        let sample = |tenth| QueueSample { at: tenth * SECOND / 10, backlog: vec![1, 1], drops: vec![0, 0] };
        let known = Truth {
            run: plan(&[condition], 1, 1, "").remove(0),
            links: vec![(addresses[0].ip(), 0), (addresses[1].ip(), 1)],
            subflows: Vec::new(),
            switched: None,
            queues: (0..200).map(sample).collect(),
            late: 0.0,
            busy: 0.0,
        };
        (recording, known)
    }

    fn verdicts(recording: &Recording, verdict: Verdict, is_capped: bool) -> Verdicts {
        let [a, b] = recording.pairs()[0];
        let known = TimedVerdict { known_at: SECOND, verdict, probability: None, is_capped };
        Verdicts { pairs: BTreeMap::from([((a.id, b.id), vec![known])]), closed: None }
    }

    #[test]
    fn subflows_that_share_only_a_rate_are_scored_as_capped() {
        for queue in ["fair", "policer", "fq-codel"] {
            let (recording, mut known) = run(&format!("shared 2 50,50 50 cubic bulk none 1 {queue} fixed"));
            known.links[1].1 = 0;
            let capped = score(&recording, &known, &verdicts(&recording, Verdict::Disjoint, true));
            assert_eq!((capped.caps[2], capped.at[2].by_cap(), capped.at[2].wrong()), ([1, 0], [1, 0], 0));
            assert_eq!(capped.at[2].precision_of_disjoint().unwrap().counts, (1, 1));
            assert_eq!(capped.at[2].recall_of_all(), None);
            let shared = score(&recording, &known, &verdicts(&recording, Verdict::Shared, false));
            assert_eq!((shared.caps[2], shared.at[2].wrong()), ([0, 0], 1));
            assert_eq!(shared.at[2].precision().unwrap().counts, (0, 1));
            known.links[1].1 = 1;
            let disjoint = score(&recording, &known, &verdicts(&recording, Verdict::Disjoint, true));
            assert_eq!((disjoint.caps[2], disjoint.at[2].by_cap()), ([0, 1], [0, 1]), "a false cap");
        }
    }

    #[test]
    fn the_truth_changes_with_the_route() {
        let (recording, mut known) = run("halves 2 50,50 50 cubic bulk none 1 fifo switch");
        known.switched = Some(4 * SECOND);
        let truth = |seconds| known.pair(recording.pairs()[0], 0, seconds * SECOND);
        assert_eq!([3, 5, 7].map(truth), [Some(PairTruth::Disjoint), None, Some(PairTruth::Shared)]);
        let score = score(&recording, &known, &verdicts(&recording, Verdict::Disjoint, false));
        assert_eq!(score.at.map(|tally| (tally.count(), tally.wrong())), [(1, 0), (1, 0), (0, 0), (1, 1)]);
    }

    #[test]
    fn ecmp_selects_the_link_by_port() {
        let (recording, mut known) = run("halves 2 50,50 50 cubic bulk none 1 fifo ecmp");
        assert_eq!(known.pair(recording.pairs()[0], 0, SECOND), None, "unknown links");
        known.subflows = recording.subflows.values().map(|subflow| (subflow.local, 1)).collect();
        assert_eq!(known.pair(recording.pairs()[0], 0, SECOND), Some(PairTruth::Shared));
    }
}
