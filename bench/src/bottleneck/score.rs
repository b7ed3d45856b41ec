// SPDX-License-Identifier: MIT OR Apache-2.0
//! Verdicts against the truth: what was said when, and whether it was right. Pure.

use std::collections::BTreeMap;
use std::ops::AddAssign;

use super::truth::{Labels, SECOND, Time, Truth};
use super::verdict::{Look, Said, Verdicts};

/// Seconds after the onset of congestion at which is asked.
pub const ASKED: [u64; 4] = [1, 2, 3, 5];
/// The detector lets samples be this late, so that is when a look can be known at the earliest.
const LATE: Time = 300_000_000;

/// How often what was said of what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    shared: [u32; 4],
    disjoint: [u32; 4],
    uncongested: [u32; 4],
}

/// A part of something, with the interval in which the true part lies (Wilson, 95 %).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Share {
    /// Count of the part, and of all.
    pub of: (u32, u32),
    /// The part itself.
    pub value: f64,
    /// Lower and upper end.
    pub interval: (f64, f64),
}

impl Share {
    /// `None` of nothing.
    pub fn new(part: u32, all: u32) -> Option<Self> {
        const Z: f64 = 1.96;
        if all == 0 {
            return None;
        }
        let (n, p) = (f64::from(all), f64::from(part) / f64::from(all));
        let scale = 1.0 + Z * Z / n;
        let middle = (p + Z * Z / (2.0 * n)) / scale;
        let half = Z / scale * (p * (1.0 - p) / n + Z * Z / (4.0 * n * n)).sqrt();
        Some(Self {
            of: (part, all),
            value: p,
            interval: ((middle - half).max(0.0), (middle + half).min(1.0)),
        })
    }
}

impl Tally {
    /// Takes in a verdict.
    pub fn add(&mut self, truth: Truth, said: Said) {
        let row = match truth {
            Truth::Shared => &mut self.shared,
            Truth::Disjoint => &mut self.disjoint,
            Truth::Uncongested => &mut self.uncongested,
        };
        row[said as usize] += 1;
    }

    fn said_of(row: &[u32; 4], said: Said) -> u32 {
        row[said as usize]
    }

    fn said(&self, said: Said) -> u32 {
        [self.shared, self.disjoint, self.uncongested].iter().map(|row| Self::said_of(row, said)).sum()
    }

    /// All verdicts, and those that are none.
    pub fn count(&self) -> u32 {
        [self.shared, self.disjoint, self.uncongested].iter().flatten().sum()
    }

    /// Of what was called shared, what was.
    pub fn precision(&self) -> Option<Share> {
        Share::new(Self::said_of(&self.shared, Said::Shared), self.said(Said::Shared))
    }

    /// Of what was shared and judged, what was called so.
    pub fn recall(&self) -> Option<Share> {
        let judged: u32 = self.shared.iter().sum::<u32>() - Self::said_of(&self.shared, Said::Unknown);
        Share::new(Self::said_of(&self.shared, Said::Shared), judged)
    }

    /// Of what was shared, judged or not, what was called so.
    pub fn found(&self) -> Option<Share> {
        Share::new(Self::said_of(&self.shared, Said::Shared), self.shared.iter().sum())
    }

    /// Of what was not shared, what was called so.
    pub fn false_alarms(&self) -> Option<Share> {
        let wrong =
            Self::said_of(&self.disjoint, Said::Shared) + Self::said_of(&self.uncongested, Said::Shared);
        Share::new(wrong, self.disjoint.iter().chain(&self.uncongested).sum())
    }

    /// Verdicts that were wrong: `disjoint` or `no bottleneck` of what was shared, `shared` of what was not.
    pub fn wrong(&self) -> u32 {
        let of =
            |row: &[u32; 4], said: &[Said]| said.iter().map(|said| Self::said_of(row, *said)).sum::<u32>();
        of(&self.shared, &[Said::Disjoint, Said::NoBottleneck])
            + of(&self.disjoint, &[Said::Shared])
            + of(&self.uncongested, &[Said::Shared])
    }

    /// Of all, what was not decided.
    pub fn unknown(&self) -> Option<Share> {
        Share::new(self.said(Said::Unknown), self.count())
    }
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        for (mine, others) in [
            (&mut self.shared, other.shared),
            (&mut self.disjoint, other.disjoint),
            (&mut self.uncongested, other.uncongested),
        ] {
            for (mine, other) in mine.iter_mut().zip(others) {
                *mine += other;
            }
        }
    }
}

/// How one method did on some cells.
#[derive(Clone, Debug, Default)]
pub struct Score {
    /// At each of [`ASKED`].
    pub at: [Tally; 4],
    /// Seconds from the onset to the first right verdict, where there was one; and how many there could have been.
    pub times: Vec<f64>,
    /// Onsets with a bottleneck.
    pub onsets: u32,
}

impl AddAssign<&Score> for Score {
    fn add_assign(&mut self, other: &Score) {
        for (mine, other) in self.at.iter_mut().zip(other.at) {
            *mine += other;
        }
        self.times.extend(&other.times);
        self.onsets += other.onsets;
    }
}

impl Score {
    /// The time by which so large a part of the onsets was judged rightly. `None`: never.
    pub fn time(&self, part: f64) -> Option<f64> {
        let mut sorted = self.times.clone();
        sorted.sort_by(f64::total_cmp);
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a place in a list")]
        let place = (part * f64::from(self.onsets)).ceil().max(1.0) as usize;
        sorted.get(place - 1).copied()
    }
}

/// Two subflows of a cell: which of its subflows they are, their ids, and from when on both are there.
struct Two<'a> {
    places: [usize; 2],
    ids: (&'a str, &'a str),
    connection: u64,
    both: Time,
}

fn twos<'a>(labels: &Labels, verdicts: &'a Verdicts) -> Vec<Two<'a>> {
    let of = |ids: (&'a str, &'a str)| {
        let subflows = [&verdicts.subflows[ids.0], &verdicts.subflows[ids.1]];
        let place = |address| labels.addresses.iter().position(|known| *known == address);
        let places = [place(subflows[0].address())?, place(subflows[1].address())?];
        let both = subflows[0].established?.max(subflows[1].established?);
        Some(Two { places, ids, connection: subflows[0].connection, both })
    };
    verdicts.pairs().into_iter().filter_map(of).collect()
}

fn last_before(looks: &[Look], time: Time) -> Option<&Look> {
    looks.iter().rev().find(|look| look.at + LATE <= time)
}

/// How every method did on one cell.
pub fn score(labels: &Labels, verdicts: &Verdicts) -> BTreeMap<String, Score> {
    let mut scores: BTreeMap<String, Score> = BTreeMap::new();
    let twos = twos(labels, verdicts);
    for method in verdicts.methods() {
        let score = scores.entry(method.to_owned()).or_default();
        for two in &twos {
            let looks = verdicts.looks(method, two.connection);
            for onset in labels.onsets(two.places[0], two.places[1], two.both) {
                ask(score, labels, two, looks, onset);
            }
        }
    }
    scores
}

fn ask(score: &mut Score, labels: &Labels, two: &Two<'_>, looks: &[Look], onset: Time) {
    let end = labels.end(onset);
    let [a, b] = two.places;
    let said = |look: &Look| look.of(two.ids.0, two.ids.1).map_or(Said::Unknown, |pair| pair.verdict);
    for (tally, seconds) in score.at.iter_mut().zip(ASKED) {
        let time = onset + seconds * SECOND;
        if time <= end {
            tally.add(labels.truth(a, b, onset, time), last_before(looks, time).map_or(Said::Unknown, said));
        }
    }
    let right = match labels.truth(a, b, onset, end) {
        Truth::Shared => Said::Shared,
        Truth::Disjoint => Said::Disjoint,
        Truth::Uncongested => return,
    };
    score.onsets += 1;
    let first = looks.iter().find(|look| (onset..=end).contains(&(look.at + LATE)) && said(look) == right);
    score.times.extend(first.map(|look| (look.at + LATE - onset) as f64 / SECOND as f64));
}

/// What a verdict rests on, and whether the two shared: what weights are fitted on.
#[derive(Clone, Debug)]
pub struct Example {
    /// What speaks for sharing (above 0) and against it.
    pub terms: BTreeMap<String, f64>,
    /// The truth.
    pub shared: bool,
}

/// All looks of a method at a cell that had evidence, while there was a bottleneck.
pub fn examples(labels: &Labels, verdicts: &Verdicts, method: &str) -> Vec<Example> {
    let mut rows = Vec::new();
    for two in twos(labels, verdicts) {
        let [a, b] = two.places;
        for onset in labels.onsets(a, b, two.both) {
            let inside = onset + SECOND..=labels.end(onset);
            for look in verdicts.looks(method, two.connection).iter().filter(|look| inside.contains(&look.at))
            {
                let truth = labels.truth(a, b, onset, look.at);
                let terms = look.of(two.ids.0, two.ids.1).and_then(|pair| pair.terms.clone());
                if let (Some(terms), Truth::Shared | Truth::Disjoint) = (terms, truth) {
                    rows.push(Example { terms, shared: truth == Truth::Shared });
                }
            }
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::super::cell::{Cell, Layout, Set};
    use super::super::truth::QueueSample;
    use super::*;

    /// Two subflows whose queues hold something from 1 s on, for 7 s.
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

    /// A method that says so from this second on, and before that nothing.
    fn said(from: u64, verdict: &str) -> Verdicts {
        let mut text = r#"{"subflows":[{"id":"1.0","connection":9,"local":"10.1.1.2:1","established_ns":5},
            {"id":"2.0","connection":9,"local":"10.2.1.2:1","established_ns":7}]}"#
            .replace('\n', "");
        for look in 0..28 {
            let verdict = if look >= 4 * from { verdict } else { "unknown" };
            let _ = write!(
                text,
                "\n{{\"method\":\"m\",\"connection\":9,\"at_ns\":{},\"extra\":[],\
                 \"pairs\":[{{\"a\":\"1.0\",\"b\":\"2.0\",\"verdict\":\"{verdict}\"}}]}}",
                look * SECOND / 4
            );
        }
        Verdicts::parse(&text).unwrap()
    }

    fn only(labels: &Labels, verdicts: &Verdicts) -> Score {
        score(labels, verdicts).remove("m").unwrap()
    }

    #[test]
    fn a_verdict_counts_from_when_it_can_be_known() {
        let score = only(&labels(Layout::Shared), &said(3, "shared"));
        // Congestion begins at 1 s; said at 3 s, known at 3.3 s.
        assert_eq!(score.times, [2.3]);
        let found: Vec<_> = score.at.iter().map(|tally| tally.found().unwrap().of).collect();
        assert_eq!(found, [(0, 1), (0, 1), (1, 1), (1, 1)]);
        assert_eq!(score.at[1].unknown().unwrap().of, (1, 1));
        assert_eq!(score.at[1].recall(), None, "nothing was judged");
        assert_eq!((score.time(0.5), score.time(0.95)), (Some(2.3), Some(2.3)));
    }

    #[test]
    fn a_false_alarm_is_one_wherever_nothing_is_shared() {
        let score = only(&labels(Layout::Disjoint), &said(0, "shared"));
        assert_eq!(score.at[2].precision().unwrap().of, (0, 1));
        assert_eq!(score.at[2].false_alarms().unwrap().of, (1, 1));
        assert_eq!((score.times.as_slice(), score.onsets, score.time(0.5)), (&[][..], 1, None));
    }

    #[test]
    fn wilsons_interval_is_that_of_the_tables() {
        let share = Share::new(9, 10).unwrap();
        assert!(
            (share.interval.0 - 0.596).abs() < 1e-3 && (share.interval.1 - 0.982).abs() < 1e-3,
            "{share:?}"
        );
        assert_eq!(Share::new(0, 0), None);
        assert!((Share::new(5, 5).unwrap().interval.1 - 1.0).abs() < f64::EPSILON);
    }

    #[test]
    fn examples_are_gathered_where_there_was_a_bottleneck() {
        let mut verdicts = said(3, "shared");
        assert!(examples(&labels(Layout::Shared), &verdicts, "m").is_empty(), "it showed no evidence");
        for look in verdicts.looks.values_mut().flatten() {
            look.pairs[0].terms = Some(BTreeMap::from([("alike".to_owned(), 0.5)]));
        }
        let examples = examples(&labels(Layout::Shared), &verdicts, "m");
        // From a second after the onset (at 2 s) to the last sample of the queues (at 6.9 s), four looks a second.
        assert_eq!(examples.len(), 20);
        assert!(
            examples
                .iter()
                .all(|example| example.shared && (example.terms["alike"] - 0.5).abs() < f64::EPSILON)
        );
    }
}
