// SPDX-License-Identifier: MIT OR Apache-2.0
//! Text, lists and tables as HTML, and drawings as SVG in a figure.

use std::fmt::Write as _;

use crate::text::grid::{Align, Grid};

/// Rules for the page, beginning with the colours as variables.
pub(super) const STYLE: &str = include_str!("style.css");
/// Rules for drawings, which a saved drawing contains too.
pub(super) const DRAWINGS: &str = include_str!("drawings.css");

/// Names of processes, interfaces and control groups come from outside: none may become a tag or end an attribute.
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '&' => escaped.push_str("&amp;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            _ => escaped.push(letter),
        }
    }
    escaped
}

/// Maximum number of columns of a table that a phone shows as a table.
const MAX_NARROW: usize = 5;

/// Attributes of a label that is centred at its position.
pub(super) const MIDDLE: &str = "class=\"mid\"";

/// A line of text in a drawing.
pub(super) fn text(attributes: &str, (x, y): (f64, f64), text: &str) -> String {
    format!("<text {attributes} x=\"{x:.1}\" y=\"{y:.1}\">{text}</text>\n")
}

/// A list of problems. Empty: there are none.
pub fn list(class: &str, problems: &[String]) -> String {
    if problems.is_empty() {
        return String::new();
    }
    let items = problems.iter().fold(String::new(), |mut text, problem| {
        let _ = writeln!(text, "<li>{}</li>", escape(problem));
        text
    });
    format!("<ul class=\"{class}\">\n{items}</ul>\n")
}

/// Labels with their text.
pub fn facts<W: AsRef<str>>(facts: &[(W, String)]) -> String {
    let rows = facts.iter().fold(String::new(), |mut text, (word, fact)| {
        let _ = writeln!(text, "<dt>{}</dt><dd>{}</dd>", escape(word.as_ref()), escape(fact));
        text
    });
    format!("<dl>\n{rows}</dl>\n")
}

/// A table. If it has many columns, a narrow screen shows each cell below the title of its column.
pub fn table(grid: &Grid) -> String {
    let is_wide = grid.columns.len() > MAX_NARROW;
    let cell = |tag: &str, text: &str, (title, align): (&str, Align)| {
        let class = if align == Align::Right { " class=\"n\"" } else { "" };
        let title = if is_wide && tag == "td" { format!(" data-t=\"{title}\"") } else { String::new() };
        format!("<{tag}{class}{title}>{}</{tag}>", escape(text))
    };
    let titles: String = grid.columns.iter().map(|column| cell("th", column.0, *column)).collect();
    let rows = grid.rows.iter().fold(String::new(), |mut text, row| {
        let cells: String =
            row.iter().zip(&grid.columns).map(|(text, column)| cell("td", text, *column)).collect();
        let _ = writeln!(text, "<tr>{cells}</tr>");
        text
    });
    format!(
        "<div class=\"{}\"><table>\n<thead><tr>{titles}</tr></thead>\n<tbody>\n{rows}</tbody>\n</table></div>\n",
        if is_wide { "wide" } else { "slim" }
    )
}
