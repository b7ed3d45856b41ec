// SPDX-License-Identifier: MIT OR Apache-2.0
//! The report as Markdown, to be pasted into an issue: the same words and tables as in [`crate::text`].

use std::fmt::Write as _;

use mpwatch_model::connection::Connection;
use mpwatch_model::snapshot::Report;

use crate::text::told::{self, Grid, Side, capital};

/// The report. Ends with a newline.
pub fn report(report: &Report) -> String {
    let mut text = format!("# mpwatch: {}\n\n", escape(&told::verdict(report)));
    let anomalies = told::anomalies(report);
    if anomalies.is_empty() && !report.connections.is_empty() {
        let _ = writeln!(text, "{}", told::ALL_WELL);
    }
    for anomaly in anomalies {
        let _ = writeln!(text, "- **!** {}", escape(&anomaly));
    }
    text.push_str("\n## Provenance and cost\n\n");
    text.push_str(&facts(&told::facts(report)));
    for overview in told::overviews(report) {
        let (title, note) = (capital(overview.title), capital(overview.note));
        let _ = write!(text, "\n## {title}\n\n{note}.\n\n{}", table(&overview.grid));
    }
    let (in_full, left_out) = told::selection(&report.connections);
    for one in in_full {
        text.push_str(&connection(one));
    }
    if let Some(rest) = told::rest(&left_out) {
        let _ = writeln!(text, "\n{rest}");
    }
    text
}

fn connection(connection: &Connection) -> String {
    let mut text = format!("\n## {}\n\n", escape(&told::heading(connection)));
    text.push_str(&facts(&told::facts_of(connection)));
    for grid in told::tables(connection) {
        let _ = write!(text, "\n{}", table(&grid));
    }
    let lines = told::lines(connection);
    if !lines.is_empty() {
        let _ = write!(text, "\nTimeline, from {}:\n\n", told::since(connection));
        let columns = &[("time", Side::Right), ("what happened", Side::Left), ("known by", Side::Left)];
        let row = |line: told::Line| {
            let mark = if line.is_trouble { "**!** " } else { "" };
            vec![line.offset, format!("{mark}{}", escape(&line.sentence)), line.source.to_owned()]
        };
        text.push_str(&table_of(columns, lines.into_iter().map(row)));
    }
    text
}

fn facts<W: AsRef<str>>(facts: &[(W, String)]) -> String {
    facts.iter().fold(String::new(), |mut text, (word, fact)| {
        let (word, fact) = (word.as_ref(), escape(fact));
        // What goes on from the line above has no word of its own.
        let _ =
            if word.is_empty() { writeln!(text, "  {fact}") } else { writeln!(text, "- **{word}** {fact}") };
        text
    })
}

fn table(grid: &Grid<'_>) -> String {
    table_of(grid.columns, grid.rows.iter().map(|row| row.iter().map(|cell| escape(cell)).collect()))
}

fn table_of(columns: &[(&str, Side)], rows: impl Iterator<Item = Vec<String>>) -> String {
    let titles: Vec<&str> = columns.iter().map(|(title, _)| *title).collect();
    let sides: Vec<&str> =
        columns.iter().map(|(_, side)| if *side == Side::Right { "---:" } else { "---" }).collect();
    let mut text = format!("| {} |\n|{}|\n", titles.join(" | "), sides.join("|"));
    for row in rows {
        let _ = writeln!(text, "| {} |", row.join(" | "));
    }
    text
}

/// Names come from outside: nothing in them may become a link, a picture, HTML or the end of a cell.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '<' => escaped.push_str("&lt;"),
            '&' => escaped.push_str("&amp;"),
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '#' | '~' => escaped.extend(['\\', letter]),
            _ => escaped.push(letter),
        }
    }
    escaped
}
