// SPDX-License-Identifier: MIT OR Apache-2.0
//! A comparison as one HTML file: the differences whose intervals exclude 0, then tables, intervals and distributions for each flow class.

use std::fmt::Write as _;

use mpwatch_model::flow::class::FlowClass;
use mpwatch_model::flow::class_totals::completion_times;
use mpwatch_model::flow::pairing::flows;

use super::distributions::{completion_plot, distribution};
use super::intervals::differences;
use super::markup::{each, escape, facts, table};
use super::page::frame;
use crate::comparison::{Comparison, Judgement, Row, Side, of_class};
use crate::text::comparison::{COLUMNS, METHOD, answer, class_title, origin, sentences, title};
use crate::text::grid::Grid;
use crate::text::words::capital;

/// The comparison as a page.
pub fn comparison(a: Side<'_>, b: Side<'_>, found: &Comparison) -> String {
    let title = title(found);
    let mut text = frame(&format!("mpwatch: {title}"), &title);
    text.push_str(&verdicts(&answer(found)));
    for rows in found.classes() {
        text.push_str(&section(a, b, rows));
    }
    let _ = writeln!(text, "<p>{}.</p>\n<div class=\"origin\">", escape(&capital(METHOD)));
    for (letter, side) in [("A", a), ("B", b)] {
        let _ = write!(text, "<h2>{letter}: {}</h2>\n{}", escape(side.name), facts(&origin(side)));
    }
    text.push_str("</div>\n</main>\n</body>\n</html>\n");
    text
}

fn section(a: Side<'_>, b: Side<'_>, rows: &[Row]) -> String {
    let Some(class) = rows.first().map(|row| row.class) else { return String::new() };
    let file = format!("differences-{}", class.as_str());
    let caption = "Difference of B from A with its 95 % confidence interval; filled: the interval excludes 0";
    format!(
        "<section>\n<h2>{}</h2>\n{}<div class=\"plots\">{}{}</div>\n{}</section>\n",
        escape(&class_title(rows)),
        verdicts(&sentences(rows)),
        differences(&file, caption, rows),
        completion(class, a, b),
        Grid::from_rows(COLUMNS, rows).as_ref().map(table).unwrap_or_default()
    )
}

/// A list of sentences, each marked with its judgement.
fn verdicts(sentences: &[(Judgement, String)]) -> String {
    let items = each(sentences, |(judgement, sentence)| {
        format!("<li class=\"{}\">{}</li>\n", judgement.as_str(), escape(sentence))
    });
    format!("<ul class=\"verdicts\">\n{items}</ul>\n")
}

/// The distributions of the completion times of a class on both sides. Empty: too few times are known.
fn completion(class: FlowClass, a: Side<'_>, b: Side<'_>) -> String {
    let curve = |letter: &str, side: Side<'_>| {
        let flows = of_class(&flows(&side.report.connections), class);
        distribution(format!("{letter}: {}", side.name), &completion_times(&flows))
    };
    let file = format!("completion-times-{}", class.as_str());
    let caption = "Completion times: share of the connections that took at most this long";
    completion_plot(&file, caption, "set", [curve("A", a), curve("B", b)].into_iter().flatten().collect())
}
