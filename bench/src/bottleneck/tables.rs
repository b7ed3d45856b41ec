// SPDX-License-Identifier: MIT OR Apache-2.0
//! Formats scores as Markdown. No I/O.

use std::collections::BTreeMap;

use crate::bottleneck::score::{CHECKPOINTS, Proportion, Score};
use crate::table::markdown;

/// The method that mpwatch uses by default.
pub const OURS: &str = "concordance";

/// Scores by cell and method.
pub type Scores = BTreeMap<String, BTreeMap<String, Score>>;

/// A table over all cells, with a row for each method and checkpoint.
pub fn pooled(scores: &Scores) -> String {
    let mut sums: BTreeMap<&str, Score> = BTreeMap::new();
    for (method, score) in scores.values().flatten() {
        *sums.entry(method).or_default() += score;
    }
    // Methods with other thresholds, such as `ese@1.1`, appear only in Table III.
    sums.retain(|method, _| !method.contains('@'));
    let mut rows = Vec::new();
    for (method, score) in &sums {
        for (tally, checkpoint) in score.at.iter().zip(CHECKPOINTS) {
            rows.push(vec![
                format!("`{method}` at {checkpoint} s"),
                tally.count().to_string(),
                percent(tally.precision()),
                percent(tally.recall_of_decided()),
                percent(tally.recall()),
                percent(tally.false_positives()),
                percent(tally.undecided()),
                seconds(score.time(0.5)),
                seconds(score.time(0.95)),
            ]);
        }
    }
    let header = [
        "method",
        "pairs",
        "precision",
        "recall of decided pairs",
        "recall of all pairs",
        "false positives",
        "undecided",
        "median time",
        "p95 time",
    ];
    markdown(&header, &rows)
}

/// A table with a row for each cell, for the method of mpwatch at 3 s.
pub fn by_cell(scores: &Scores) -> String {
    let index = CHECKPOINTS.iter().position(|checkpoint| *checkpoint == 3).unwrap_or(0);
    let mut rows = Vec::new();
    for (cell, methods) in scores {
        let Some(score) = methods.get(OURS) else { continue };
        let tally = score.at[index];
        rows.push(vec![
            format!("`{cell}`"),
            tally.count().to_string(),
            fraction(tally.precision()),
            fraction(tally.recall_of_decided()),
            fraction(tally.false_positives()),
            fraction(tally.undecided()),
            seconds(score.time(0.5)),
            seconds(score.time(0.95)),
        ]);
    }
    let header = [
        "cell",
        "pairs",
        "precision",
        "recall of decided pairs",
        "false positives",
        "undecided",
        "median time",
        "p95 time",
    ];
    markdown(&header, &rows)
}

fn percent(proportion: Option<Proportion>) -> String {
    let Some(Proportion { value, interval: (low, high), .. }) = proportion else { return "-".to_owned() };
    format!("{:.1} % ({:.1} to {:.1})", value * 100.0, low * 100.0, high * 100.0)
}

fn fraction(proportion: Option<Proportion>) -> String {
    proportion.map_or("-".to_owned(), |Proportion { counts: (part, all), .. }| format!("{part}/{all}"))
}

fn seconds(time: Option<f64>) -> String {
    time.map_or("-".to_owned(), |time| format!("{time:.1} s"))
}

#[cfg(test)]
mod tests {
    use mpwatch_model::flow::bottleneck::Verdict;

    use super::*;
    use crate::bottleneck::truth::Truth;

    #[test]
    fn a_row_shows_how_many_verdicts_were_right() {
        let mut score = Score::default();
        for verdict in [Verdict::Shared, Verdict::Shared, Verdict::Unknown] {
            score.at[2].add(Truth::Shared, verdict);
        }
        score.at[2].add(Truth::Disjoint, Verdict::Shared);
        (score.times, score.onsets) = (vec![1.25, 2.5], 4);
        let scores = Scores::from([("cell".to_owned(), BTreeMap::from([(OURS.to_owned(), score)]))]);
        assert!(by_cell(&scores).contains("| `cell` | 4 | 2/3 | 2/2 | 1/1 | 1/4 | 2.5 s | - |"));
        let pooled = pooled(&scores);
        assert!(pooled.contains("| `concordance` at 3 s | 4 | 66.7 % (20.8 to 93.9) |"), "{pooled}");
    }
}
