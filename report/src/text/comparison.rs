// SPDX-License-Identifier: MIT OR Apache-2.0
//! A comparison as text: the differences whose intervals exclude 0, the origin of both sets, a table and sentences for each flow class.

use std::fmt::Write as _;

use mpwatch_model::metric::count;

use super::fit::wrapped;
use super::grid::Align::{Left, Right};
use super::grid::{Column, Grid};
use super::report::provenance;
use super::summary::summary;
use super::words::{Fact, capital, or_dash};
use crate::comparison::{Comparison, Judgement, Row, Side};

/// How the intervals are computed, and what they do not cover.
pub(crate) const METHOD: &str = "A and B: medians over all connections. difference: between the means over units, with the 95 % confidence interval of Student's t (Welch). A unit \
     is a run, with the median of its connections as its value; if a set has only one run, a tenth of its connections. With fewer than 20 connections: \
     the median of the differences between all pairs of connections (Hodges-Lehmann), with the interval of the Mann-Whitney test. The last column has the \
     units. One run per set cannot show differences between runs: repeat runs in alternation";

/// The comparison as text in lines of at most `width` columns where words allow it. Ends with a newline.
pub fn comparison(a: Side<'_>, b: Side<'_>, found: &Comparison, width: usize) -> String {
    let mut text = format!("mpwatch: {}\n", title(found));
    for (_, sentence) in answer(found) {
        let _ = writeln!(text, "  {sentence}");
    }
    for (letter, side) in [("A", a), ("B", b)] {
        let _ = write!(text, "\n{letter}: {}\n", side.name);
        for (label, fact) in origin(side) {
            let _ = writeln!(text, "  {label:<11}  {fact}");
        }
    }
    for rows in found.classes() {
        let _ = writeln!(text, "\n{}", class_title(rows));
        text.extend(Grid::from_rows(COLUMNS, rows).map(|grid| grid.text_within("  ", width)));
        for (_, sentence) in sentences(rows) {
            let _ = writeln!(text, "  {sentence}");
        }
    }
    let _ = writeln!(text, "\n{METHOD}.");
    wrapped(&text, width)
}

/// The result: each difference whose interval excludes 0.
pub(crate) fn answer(found: &Comparison) -> Vec<(Judgement, String)> {
    let rows = found.classes().flatten().filter(|row| row.judgement() != Judgement::Undecided);
    let sentence = |row: &Row| (row.judgement(), format!("{} flows: {}", row.class.as_str(), row.verdict()));
    let shown: Vec<_> = rows.map(sentence).collect();
    if shown.is_empty() {
        return vec![(Judgement::Undecided, "no quantity shows a difference".to_owned())];
    }
    shown
}

/// The sentences of a class: one per quantity, or a single sentence if no quantity has enough connections.
pub(crate) fn sentences(rows: &[Row]) -> Vec<(Judgement, String)> {
    match rows {
        [row, ..] if rows.iter().all(|row| row.difference.is_none()) => {
            let (a, b) = (row.a_connections, row.b_connections);
            vec![(Judgement::Undecided, format!("too few connections to compare: {a} in A, {b} in B"))]
        }
        _ => rows.iter().map(|row| (row.judgement(), row.verdict())).collect(),
    }
}

pub(crate) fn title(found: &Comparison) -> String {
    format!("B ({}) compared with A ({})", found.b, found.a)
}

/// The origin of a set.
pub(crate) fn origin(side: Side<'_>) -> Vec<Fact> {
    std::iter::once(("connections", summary(side.report))).chain(provenance(&side.report.run)).collect()
}

/// A class with the numbers of its connections in both sets.
pub(crate) fn class_title(rows: &[Row]) -> String {
    let Some(row) = rows.first() else { return String::new() };
    format!(
        "{} flows ({}): {} in A, {} in B",
        capital(row.class.as_str()),
        row.class.range(),
        count(row.a_connections, "connection"),
        row.b_connections
    )
}

/// The values of both sets and their difference.
pub(crate) const COLUMNS: &[Column<Row>] = &[
    ("median of", Left, |row| row.quantity.name.to_owned()),
    ("A", Right, |row| or_dash(row.a.median.map(|value| row.quantity.show(value)))),
    ("of", Right, |row| row.a.count.to_string()),
    ("B", Right, |row| or_dash(row.b.median.map(|value| row.quantity.show(value)))),
    ("of", Right, |row| row.b.count.to_string()),
    ("difference", Right, |row| or_dash(row.difference.map(|difference| row.estimate(difference)))),
    ("95 % interval", Right, |row| or_dash(row.difference.map(|difference| row.interval(difference)))),
    ("from", Left, |row| or_dash(row.difference.map(|difference| difference.units()))),
];
