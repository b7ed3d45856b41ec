// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares verdicts with the truth: whether and when they were right. No I/O.

use std::collections::BTreeMap;
use std::ops::AddAssign;

use mpwatch_model::flow::bottleneck::Verdict;
use mpwatch_model::id::{SocketCookie, SubflowId};

use crate::bottleneck::truth::{Labels, SECOND, Time, Truth};
use crate::bottleneck::verdict::{Evaluation, Verdicts};

/// Seconds after the onset of congestion at which verdicts are scored.
pub const CHECKPOINTS: [u64; 4] = [1, 2, 3, 5];
/// Time in nanoseconds for which the detector waits for late samples. A verdict is known this time after the last sample that it uses.
const DETECTION_DELAY: Time = 300_000_000;

/// Numbers of pairs of subflows. The field is the truth about the pair, the index the verdict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    shared: [u32; 4],
    disjoint: [u32; 4],
    cap: [u32; 4],
    uncongested: [u32; 4],
}

/// A proportion with its 95 % confidence interval (Wilson).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Proportion {
    /// Numerator and denominator of the proportion.
    pub counts: (u32, u32),
    /// The proportion.
    pub value: f64,
    /// Lower and upper end of the confidence interval.
    pub interval: (f64, f64),
}

impl Proportion {
    /// The proportion of `part` in `all`. `None`: `all` is 0.
    pub fn new(part: u32, all: u32) -> Option<Self> {
        const Z: f64 = 1.96;
        if all == 0 {
            return None;
        }
        let (n, p) = (f64::from(all), f64::from(part) / f64::from(all));
        let scale = 1.0 + Z * Z / n;
        let middle = (p + Z * Z / (2.0 * n)) / scale;
        let half = Z / scale * (p * (1.0 - p) / n + Z * Z / (4.0 * n * n)).sqrt();
        let interval = ((middle - half).max(0.0), (middle + half).min(1.0));
        Some(Self { counts: (part, all), value: p, interval })
    }
}

impl Tally {
    /// Counts a verdict.
    pub fn add(&mut self, truth: Truth, verdict: Verdict) {
        let row = match truth {
            Truth::Shared => &mut self.shared,
            Truth::Disjoint => &mut self.disjoint,
            Truth::Cap => &mut self.cap,
            Truth::Uncongested => &mut self.uncongested,
        };
        row[verdict as usize] += 1;
    }

    /// Number of all pairs, with and without a verdict.
    pub fn count(&self) -> u32 {
        self.rows().iter().flatten().sum()
    }

    /// Number of pairs that share only a rate, and number of all others.
    pub fn by_cap(&self) -> [u32; 2] {
        let caps = self.cap.iter().sum();
        [caps, self.count() - caps]
    }

    /// Precision of `shared`: of the pairs with this verdict, the proportion that shares a bottleneck. `None`: no pair has this verdict.
    pub fn precision(&self) -> Option<Proportion> {
        Proportion::new(self.shared[Verdict::Shared as usize], self.with_verdict(Verdict::Shared))
    }

    /// Precision of `disjoint`: of the pairs on congested links with this verdict, the proportion without a common queue. `None`: no such pair.
    pub fn precision_of_disjoint(&self) -> Option<Proportion> {
        let [disjoint, cap, wrong] =
            [self.disjoint, self.cap, self.shared].map(|row| row[Verdict::Disjoint as usize]);
        Proportion::new(disjoint + cap, disjoint + cap + wrong)
    }

    /// Recall of `shared` and `disjoint`: of all pairs on congested links that share either a queue or no rate limit, the proportion with the
    /// right verdict. `None`: no such pair.
    pub fn recall_of_all(&self) -> Option<Proportion> {
        let right = self.shared[Verdict::Shared as usize] + self.disjoint[Verdict::Disjoint as usize];
        Proportion::new(right, self.shared.iter().chain(&self.disjoint).sum())
    }

    /// Of the pairs that share a bottleneck and have a verdict, the proportion with verdict `shared`. `None`: no such pair.
    pub fn recall_of_decided(&self) -> Option<Proportion> {
        let decided = self.shared.iter().sum::<u32>() - self.shared[Verdict::Unknown as usize];
        Proportion::new(self.shared[Verdict::Shared as usize], decided)
    }

    /// Recall of `shared`: of the pairs that share a bottleneck, the proportion with verdict `shared`. `None`: no such pair.
    pub fn recall(&self) -> Option<Proportion> {
        Proportion::new(self.shared[Verdict::Shared as usize], self.shared.iter().sum())
    }

    /// Of the pairs that share no bottleneck, the proportion with verdict `shared`. `None`: no such pair.
    pub fn false_positives(&self) -> Option<Proportion> {
        let not_shared = self.rows()[1..].iter().flatten().sum();
        Proportion::new(self.wrongly_shared(), not_shared)
    }

    /// Number of wrong verdicts: `disjoint` or `no bottleneck` for a shared pair, `shared` for any other pair.
    pub fn wrong(&self) -> u32 {
        let missed = [Verdict::Disjoint, Verdict::NoBottleneck].map(|verdict| self.shared[verdict as usize]);
        missed.iter().sum::<u32>() + self.wrongly_shared()
    }

    /// Of all pairs, the proportion without a verdict. `None`: there are no pairs.
    pub fn undecided(&self) -> Option<Proportion> {
        Proportion::new(self.with_verdict(Verdict::Unknown), self.count())
    }

    fn rows(&self) -> [[u32; 4]; 4] {
        [self.shared, self.disjoint, self.cap, self.uncongested]
    }

    fn with_verdict(&self, verdict: Verdict) -> u32 {
        self.rows().iter().map(|row| row[verdict as usize]).sum()
    }

    fn wrongly_shared(&self) -> u32 {
        self.rows()[1..].iter().map(|row| row[Verdict::Shared as usize]).sum()
    }
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        for (row, others) in [&mut self.shared, &mut self.disjoint, &mut self.cap, &mut self.uncongested]
            .into_iter()
            .zip(other.rows())
        {
            for (count, other) in row.iter_mut().zip(others) {
                *count += other;
            }
        }
    }
}

/// Score of a method on one or more cells.
#[derive(Clone, Debug, Default)]
pub struct Score {
    /// Counts at each of [`CHECKPOINTS`].
    pub at: [Tally; 4],
    /// Seconds from each onset of congestion to the first right verdict, for onsets with a right verdict.
    pub times: Vec<f64>,
    /// Number of onsets of congestion.
    pub onsets: u32,
}

impl AddAssign<&Score> for Score {
    fn add_assign(&mut self, other: &Score) {
        for (tally, other) in self.at.iter_mut().zip(other.at) {
            *tally += other;
        }
        self.times.extend(&other.times);
        self.onsets += other.onsets;
    }
}

impl Score {
    /// Seconds until the share `part` of the onsets had a right verdict. `None`: fewer onsets had a right verdict.
    pub fn time(&self, part: f64) -> Option<f64> {
        let mut sorted = self.times.clone();
        sorted.sort_by(f64::total_cmp);
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "an index")]
        let rank = (part * f64::from(self.onsets)).ceil().max(1.0) as usize;
        sorted.get(rank - 1).copied()
    }
}

/// Scores of all methods on one cell.
pub fn score(labels: &Labels, verdicts: &Verdicts) -> BTreeMap<String, Score> {
    let mut scores: BTreeMap<String, Score> = BTreeMap::new();
    let pairs = labelled_pairs(labels, verdicts);
    for method in verdicts.methods() {
        let score = scores.entry(method.to_owned()).or_default();
        for pair in &pairs {
            let evaluations = verdicts.evaluations(method, pair.connection);
            for onset in labels.onsets(pair.paths[0], pair.paths[1], pair.since) {
                score_onset(score, labels, pair, evaluations, onset);
            }
        }
    }
    scores
}

/// A pair of subflows whose queues are known.
struct LabelledPair {
    /// Indices of the two paths in the cell.
    paths: [usize; 2],
    ids: [SubflowId; 2],
    connection: SocketCookie,
    /// Time since which both subflows are established.
    since: Time,
}

fn labelled_pairs(labels: &Labels, verdicts: &Verdicts) -> Vec<LabelledPair> {
    let labelled = |(a, b): (SubflowId, SubflowId)| {
        let subflows = [&verdicts.subflows[&a], &verdicts.subflows[&b]];
        let path = |address| labels.addresses.iter().position(|known| *known == address);
        let paths = [path(subflows[0].address)?, path(subflows[1].address)?];
        let since = subflows[0].established?.max(subflows[1].established?);
        Some(LabelledPair { paths, ids: [a, b], connection: subflows[0].connection, since })
    };
    verdicts.pairs().into_iter().filter_map(labelled).collect()
}

fn score_onset(
    score: &mut Score,
    labels: &Labels,
    pair: &LabelledPair,
    evaluations: &[Evaluation],
    onset: Time,
) {
    let end = labels.end(onset);
    let ([a, b], [id_a, id_b]) = (pair.paths, pair.ids);
    let verdict = |evaluation: &Evaluation| evaluation.verdict(id_a, id_b);
    for (tally, seconds) in score.at.iter_mut().zip(CHECKPOINTS) {
        let time = onset + seconds * SECOND;
        if time <= end {
            let known = evaluations.iter().rev().find(|evaluation| evaluation.at + DETECTION_DELAY <= time);
            tally.add(labels.truth(a, b, onset, time), known.map_or(Verdict::Unknown, verdict));
        }
    }
    let right = match labels.truth(a, b, onset, end) {
        Truth::Shared => Verdict::Shared,
        Truth::Disjoint => Verdict::Disjoint,
        Truth::Cap | Truth::Uncongested => return,
    };
    score.onsets += 1;
    let mut after = evaluations
        .iter()
        .map(|evaluation| (evaluation.at + DETECTION_DELAY, evaluation))
        .filter(|(known_at, _)| (onset..=end).contains(known_at));
    let first = after.find(|(_, evaluation)| verdict(evaluation) == right);
    score.times.extend(first.map(|(known_at, _)| (known_at - onset) as f64 / SECOND as f64));
}

/// The evidence on a pair and the truth, for fitting weights.
#[derive(Clone, Debug)]
pub struct Example {
    /// Evidence for a shared bottleneck (above 0) or against it (below 0).
    pub terms: BTreeMap<&'static str, f64>,
    /// Whether the pair shares a bottleneck.
    pub shared: bool,
}

/// Examples from all evaluations of a method during congestion.
pub fn examples(labels: &Labels, verdicts: &Verdicts, method: &str) -> Vec<Example> {
    let mut examples = Vec::new();
    for pair in labelled_pairs(labels, verdicts) {
        let ([a, b], [id_a, id_b]) = (pair.paths, pair.ids);
        for onset in labels.onsets(a, b, pair.since) {
            let congested = onset + SECOND..=labels.end(onset);
            let evaluations = verdicts.evaluations(method, pair.connection).iter();
            for evaluation in evaluations.filter(|evaluation| congested.contains(&evaluation.at)) {
                let truth = labels.truth(a, b, onset, evaluation.at);
                let terms = evaluation.pair(id_a, id_b).and_then(|pair| pair.terms.clone());
                if let (Some(terms), Truth::Shared | Truth::Disjoint) = (terms, truth) {
                    examples.push(Example { terms, shared: truth == Truth::Shared });
                }
            }
        }
    }
    examples
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bottleneck::truth::QueueSample;
    use crate::bottleneck::verdict::{Pair, Subflow};
    use mpwatch_lab::bottleneck::cell::{Cell, Layout, Set};

    const CONNECTION: SocketCookie = SocketCookie(9);

    /// Two subflows whose queues are not empty from 1 s to 7 s.
    fn labels(layout: Layout) -> Labels {
        let sample = |tenth: u64| QueueSample {
            at: tenth * SECOND / 10,
            backlog: vec![u64::from(tenth >= 10) * 1500; 2],
            drops: vec![0; 2],
        };
        Labels {
            cell: Cell::new(Set::Evaluation, layout, 20),
            addresses: vec!["10.1.1.2".parse().unwrap(), "10.2.1.2".parse().unwrap()],
            switched: None,
            queues: (0..70).map(sample).collect(),
            late: 0.0,
            busy: 0.0,
            overflowed: 0,
        }
    }

    fn id(number: u64) -> SubflowId {
        SubflowId { cookie: SocketCookie(number), generation: 0 }
    }

    /// Evaluations of a method that reaches this verdict at `from` seconds.
    fn verdicts(from: u64, verdict: Verdict, terms: Option<f64>) -> Verdicts {
        let subflow = |number: u64| {
            let address = format!("10.{number}.1.2").parse().unwrap();
            (id(number), Subflow { connection: CONNECTION, address, established: Some(5) })
        };
        let mut verdicts = Verdicts::new(BTreeMap::from([subflow(1), subflow(2)]));
        for quarter in 0..28 {
            let verdict = if quarter >= 4 * from { verdict } else { Verdict::Unknown };
            let terms = terms.map(|value| BTreeMap::from([("alike", value)]));
            let pairs = vec![Pair { a: id(1), b: id(2), verdict, terms }];
            let evaluation = Evaluation { at: quarter * SECOND / 4, pairs, extra: Vec::new() };
            verdicts.push("m", CONNECTION, evaluation);
        }
        verdicts
    }

    fn only(labels: &Labels, verdicts: &Verdicts) -> Score {
        score(labels, verdicts).remove("m").unwrap()
    }

    #[test]
    fn a_verdict_counts_from_the_time_at_which_it_is_known() {
        let score = only(&labels(Layout::Shared), &verdicts(3, Verdict::Shared, None));
        // Congestion begins at 1 s; the verdict uses samples up to 3 s and is known at 3.3 s.
        assert_eq!(score.times, [2.3]);
        let recalls: Vec<_> = score.at.iter().map(|tally| tally.recall().unwrap().counts).collect();
        assert_eq!(recalls, [(0, 1), (0, 1), (1, 1), (1, 1)]);
        assert_eq!(score.at[1].undecided().unwrap().counts, (1, 1));
        assert_eq!(score.at[1].recall_of_decided(), None, "no pair had a verdict");
        assert_eq!((score.time(0.5), score.time(0.95)), (Some(2.3), Some(2.3)));
    }

    #[test]
    fn the_verdict_shared_on_disjoint_subflows_is_a_false_positive() {
        let score = only(&labels(Layout::Disjoint), &verdicts(0, Verdict::Shared, None));
        assert_eq!(score.at[2].precision().unwrap().counts, (0, 1));
        assert_eq!(score.at[2].false_positives().unwrap().counts, (1, 1));
        assert_eq!((score.times.as_slice(), score.onsets, score.time(0.5)), (&[][..], 1, None));
    }

    #[test]
    fn wilsons_interval_matches_published_values() {
        let proportion = Proportion::new(9, 10).unwrap();
        let (low, high) = proportion.interval;
        assert!((low - 0.596).abs() < 1e-3 && (high - 0.982).abs() < 1e-3, "{proportion:?}");
        assert_eq!(Proportion::new(0, 0), None);
        assert!((Proportion::new(5, 5).unwrap().interval.1 - 1.0).abs() < f64::EPSILON);
    }

    #[test]
    fn examples_are_taken_during_congestion_only() {
        let labels = labels(Layout::Shared);
        let without_evidence = verdicts(3, Verdict::Shared, None);
        assert!(examples(&labels, &without_evidence, "m").is_empty());
        let examples = examples(&labels, &verdicts(3, Verdict::Shared, Some(0.5)), "m");
        // Four evaluations per second, from 2 s (a second after the onset) to the last sample of the queues at 6.9 s.
        assert_eq!(examples.len(), 20);
        assert!(
            examples
                .iter()
                .all(|example| example.shared && (example.terms["alike"] - 0.5).abs() < f64::EPSILON)
        );
    }
}
