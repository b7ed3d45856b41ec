// SPDX-License-Identifier: MIT OR Apache-2.0
//! Text, lists and tables as HTML, and lines of text in SVG drawings.

use crate::text::grid::{Align, Grid};
use crate::text::words::Fact;

/// Rules for the page, beginning with the colours as variables.
pub(super) const STYLE: &str = include_str!("style.css");
/// Rules for drawings, which a saved drawing contains too.
pub(super) const DRAWINGS: &str = include_str!("drawings.css");

/// Users choose the names of processes, interfaces and control groups: no name may become a tag or end an attribute.
pub fn escape(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    text.replace('"', "&quot;").replace('\'', "&#39;")
}

/// The markup of all items, one after another.
pub(super) fn each<T>(items: impl IntoIterator<Item = T>, markup: impl FnMut(T) -> String) -> String {
    items.into_iter().map(markup).collect()
}

/// A table with more columns becomes a list of cells on a phone.
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
    let items = each(problems, |problem| format!("<li>{}</li>\n", escape(problem)));
    format!("<ul class=\"{class}\">\n{items}</ul>\n")
}

/// Facts with their labels.
pub fn facts(facts: &[Fact]) -> String {
    let rows = each(facts, |(label, fact)| format!("<dt>{}</dt><dd>{}</dd>\n", escape(label), escape(fact)));
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
    let titles = each(&grid.columns, |column| cell("th", column.0, *column));
    let cells =
        |row: &Vec<String>| each(row.iter().zip(&grid.columns), |(text, column)| cell("td", text, *column));
    let rows = each(&grid.rows, |row| format!("<tr>{}</tr>\n", cells(row)));
    format!(
        "<div class=\"{}\"><table>\n<thead><tr>{titles}</tr></thead>\n<tbody>\n{rows}</tbody>\n</table></div>\n",
        if is_wide { "wide" } else { "slim" }
    )
}
