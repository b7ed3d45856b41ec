// SPDX-License-Identifier: MIT OR Apache-2.0
//! Formats scores of the corpus as Markdown tables. No I/O.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::bottleneck::score::Proportion;
use crate::corpus::score::{CHECKPOINTS, LEVELS, Score};

/// Scores by name of the row.
pub(crate) type Rows = BTreeMap<String, Score>;

/// A table with precision, recall, share of `unknown` verdicts, and time to the first right verdict of each row.
pub(crate) fn scores(heading: &str, rows: &Rows) -> String {
    let mut text = format!(
        "| {heading} | runs | pairs | at | precision of `shared` | precision of `disjoint` | recall of all | `unknown` | wrong | time to verdict: 50 %, 90 % |\n|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n"
    );
    for (name, score) in rows {
        // Most runs end before the last checkpoint.
        let scored = score.at.iter().zip(CHECKPOINTS).filter(|(tally, _)| tally.count() > 0);
        for (tally, seconds) in scored {
            let [precision, disjoint, recall, unknown] =
                [tally.precision(), tally.precision_of_disjoint(), tally.recall_of_all(), tally.undecided()]
                    .map(share);
            let [half, most] = [0.5, 0.9]
                .map(|part| score.time(part).map_or("never".to_owned(), |time| format!("{time:.1} s")));
            let (runs, count, wrong) = (score.runs, tally.count(), tally.wrong());
            let _ = writeln!(
                text,
                "| {name} | {runs} | {count} | {seconds} s | {precision} | {disjoint} | {recall} | {unknown} | {wrong} | {half}, {most} |"
            );
        }
    }
    text
}

fn share(proportion: Option<Proportion>) -> String {
    proportion.map_or("-".to_owned(), |Proportion { counts: (part, all), value, .. }| {
        format!("{value:.3} ({part}/{all})")
    })
}

/// The subflows that a method would close, by row.
pub(crate) fn closing(heading: &str, rows: &Rows) -> String {
    let mut text = format!(
        "| {heading} | extra subflows that would be closed | links that would lose all subflows |\n|---|---:|---:|\n"
    );
    for (name, Score { closing, .. }) in rows {
        let found = share(Proportion::new(closing.found, closing.extra));
        let lost = share(Proportion::new(closing.lost, closing.links));
        let _ = writeln!(text, "| {name} | {found} | {lost} |");
    }
    text
}

/// Rate caps: of the pairs that share only a rate, and of all others, how many the method reports as capped 3 s and 5 s after their start.
pub(crate) fn caps(heading: &str, rows: &Rows) -> String {
    let mut text = format!(
        "| {heading} | caps found at 3 s | caps found at 5 s | false caps at 3 s | false caps at 5 s |\n|---|---:|---:|---:|---:|\n"
    );
    for (name, Score { caps, at, .. }) in rows {
        let part = |checkpoint: usize, kind: usize| {
            share(Proportion::new(caps[checkpoint][kind], at[checkpoint].by_cap()[kind]))
        };
        let _ =
            writeln!(text, "| {name} | {} | {} | {} | {} |", part(1, 0), part(2, 0), part(1, 1), part(2, 1));
    }
    text
}

/// The reliability table: of the verdicts at 5 s with a probability in a range, how many are right.
pub(crate) fn reliability(score: &Score) -> String {
    let mut text =
        "| probability of the verdict | verdicts | mean probability | right |\n|---|---:|---:|---:|\n"
            .to_owned();
    for (row, level) in score.reliability.iter().zip(LEVELS) {
        let mean = row.sum / f64::from(row.count.max(1));
        let right = share(Proportion::new(row.right, row.count));
        let _ = writeln!(text, "| from {level} | {} | {mean:.3} | {right} |", row.count);
    }
    text
}
