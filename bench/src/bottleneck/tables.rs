// SPDX-License-Identifier: MIT OR Apache-2.0
//! Scores as Markdown. Pure.

use std::collections::BTreeMap;

use super::score::{ASKED, Score, Share};
use crate::table::markdown;

/// The method that mpwatch uses.
pub const OURS: &str = "concordance";

/// How every method did, by cell.
pub type Scores = BTreeMap<String, BTreeMap<String, Score>>;

fn percent(share: Option<Share>) -> String {
    let Some(Share { value, interval: (low, high), .. }) = share else { return "-".to_owned() };
    format!("{:.1} % ({:.1} to {:.1})", value * 100.0, low * 100.0, high * 100.0)
}

fn short(share: Option<Share>) -> String {
    share.map_or("-".to_owned(), |Share { of: (part, all), .. }| format!("{part}/{all}"))
}

fn seconds(time: Option<f64>) -> String {
    time.map_or("-".to_owned(), |time| format!("{time:.1} s"))
}

/// All cells together: a row for each method and time.
pub fn pooled(scores: &Scores) -> String {
    let mut sums: BTreeMap<&str, Score> = BTreeMap::new();
    for (method, score) in scores.values().flatten() {
        *sums.entry(method).or_default() += score;
    }
    // Other thresholds have a table of their own.
    sums.retain(|method, _| !method.contains('@'));
    let mut rows = Vec::new();
    for (method, score) in &sums {
        for (tally, asked) in score.at.iter().zip(ASKED) {
            rows.push(vec![
                format!("`{method}` at {asked} s"),
                tally.count().to_string(),
                percent(tally.precision()),
                percent(tally.recall()),
                percent(tally.found()),
                percent(tally.false_alarms()),
                percent(tally.unknown()),
                seconds(score.time(0.5)),
                seconds(score.time(0.95)),
            ]);
        }
    }
    let header = [
        "method",
        "pairs",
        "precision",
        "recall of the judged",
        "recall of all",
        "false alarms",
        "unknown",
        "median time",
        "p95 time",
    ];
    markdown(&header, &rows)
}

/// A row for each cell: our own method at 3 s.
pub fn by_cell(scores: &Scores) -> String {
    let place = ASKED.iter().position(|asked| *asked == 3).unwrap_or(0);
    let mut rows = Vec::new();
    for (cell, methods) in scores {
        let Some(score) = methods.get(OURS) else { continue };
        let tally = score.at[place];
        rows.push(vec![
            format!("`{cell}`"),
            tally.count().to_string(),
            short(tally.precision()),
            short(tally.recall()),
            short(tally.false_alarms()),
            short(tally.unknown()),
            seconds(score.time(0.5)),
            seconds(score.time(0.95)),
        ]);
    }
    let header =
        ["cell", "pairs", "precision", "recall", "false alarms", "unknown", "median time", "p95 time"];
    markdown(&header, &rows)
}

#[cfg(test)]
mod tests {
    use super::super::truth::Truth;
    use super::super::verdict::Said;
    use super::*;

    #[test]
    fn a_row_says_how_often_it_was_right() {
        let mut score = Score::default();
        for said in [Said::Shared, Said::Shared, Said::Unknown] {
            score.at[2].add(Truth::Shared, said);
        }
        score.at[2].add(Truth::Disjoint, Said::Shared);
        (score.times, score.onsets) = (vec![1.25, 2.5], 4);
        let scores = Scores::from([("cell".to_owned(), BTreeMap::from([(OURS.to_owned(), score)]))]);
        assert!(by_cell(&scores).contains("| `cell` | 4 | 2/3 | 2/2 | 1/1 | 1/4 | 2.5 s | - |"));
        let pooled = pooled(&scores);
        assert!(pooled.contains("| `concordance` at 3 s | 4 | 66.7 % (20.8 to 93.9) |"), "{pooled}");
    }
}
