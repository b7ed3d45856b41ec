// SPDX-License-Identifier: MIT OR Apache-2.0
//! The report as one HTML file that needs nothing else: no script, no request, drawings as inline SVG, for screens light and dark
//! and for paper. The words and tables are those of [`crate::text`].

mod drawing;
mod lanes;

use std::fmt::Write as _;

use mpwatch_model::connection::Connection;
use mpwatch_model::snapshot::Report;

use crate::text::told::{self, Grid, Side, capital};
use mpwatch_model::series::CounterSeries;

const STYLE: &str = include_str!("style.css");
/// Facts of a connection that stand below its drawing; the others follow further down.
const FIRST: [&str; 4] = ["2nd path", "bottleneck", "energy", "joined"];

/// The report. `samples`: counters of long connections over time, for the drawings; may be empty.
pub fn report(report: &Report, samples: &CounterSeries) -> String {
    let host = escape(&mpwatch_model::endpoint::printable(&report.run.host.name));
    let mut text = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>mpwatch: {host}</title>\n\
         <style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n<h1>{}</h1>\n",
        escape(&told::verdict(report))
    );
    let anomalies = told::anomalies(report);
    text.push_str(&verdict_on(report, &anomalies));
    text.push_str("<div class=\"origin\">\n");
    text.push_str(&facts(&told::facts(report)));
    for overview in told::overviews(report) {
        let (title, note) = (capital(overview.title), escape(&capital(overview.note)));
        let _ = write!(text, "<h2>{title}</h2>\n<p>{note}.</p>\n{}", table(&overview.grid));
    }
    text.push_str("</div>\n");
    let (in_full, left_out) = told::selection(&report.connections);
    for one in in_full {
        text.push_str(&connection(one, samples, &anomalies));
    }
    if let Some(rest) = told::rest(&left_out) {
        let _ = writeln!(text, "<p>{}</p>", escape(&rest));
    }
    text.push_str("</main>\n</body>\n</html>\n");
    text
}

fn verdict_on(report: &Report, anomalies: &[String]) -> String {
    if anomalies.is_empty() {
        let well = if report.connections.is_empty() { "" } else { told::ALL_WELL };
        return format!("<p>{well}</p>\n");
    }
    list("trouble", anomalies)
}

/// What went wrong. Empty: nothing did.
fn list(class: &str, anomalies: &[String]) -> String {
    if anomalies.is_empty() {
        return String::new();
    }
    let items = anomalies.iter().fold(String::new(), |mut text, anomaly| {
        let _ = writeln!(text, "<li>{}</li>", escape(anomaly));
        text
    });
    format!("<ul class=\"{class}\">\n{items}</ul>\n")
}

/// `above`: what the page begins with.
fn connection(connection: &Connection, samples: &CounterSeries, above: &[String]) -> String {
    let mut text =
        format!("<section>\n<h2>{}</h2>\n", escape(&told::heading(connection)).replace("  ", " · "));
    let trouble = told::anomalies_of(connection);
    let is_above = trouble.iter().all(|one| above.iter().any(|line| line.ends_with(one)));
    text.push_str(&list(if is_above { "trouble again" } else { "trouble" }, &trouble));
    text.push_str(&lanes::lanes(connection, samples));
    // What a reader asks for first, unless it was said above.
    let (first, others): (Vec<_>, Vec<_>) = told::facts_of(connection)
        .into_iter()
        .filter(|(_, fact)| !trouble.contains(fact))
        .partition(|(word, _)| FIRST.contains(word));
    text.push_str(&facts(&first));
    text.push_str("<div class=\"pair\">\n");
    text.push_str(&drawing::rtts(connection));
    text.push_str(&drawing::energies(connection));
    text.push_str("</div>\n");
    text.push_str(&facts(&others));
    for grid in told::tables(connection) {
        text.push_str(&table(&grid));
    }
    text.push_str(&timeline(connection));
    text.push_str("</section>\n");
    text
}

fn timeline(connection: &Connection) -> String {
    let lines = told::lines(connection);
    if lines.is_empty() {
        return String::new();
    }
    let columns = &[("time", Side::Right), ("what happened", Side::Left), ("known by", Side::Left)];
    let row = |line: told::Line| {
        let mark = if line.is_trouble { "! " } else { "" };
        vec![line.offset, format!("{mark}{}", line.sentence), line.source.to_owned()]
    };
    let rows = lines.into_iter().map(row).collect();
    let since = told::since(connection);
    format!(
        "<details open><summary>Timeline, from {since}</summary>\n{}</details>\n",
        table(&Grid { columns, rows })
    )
}

fn facts<W: AsRef<str>>(facts: &[(W, String)]) -> String {
    let rows = facts.iter().fold(String::new(), |mut text, (word, fact)| {
        let _ = writeln!(text, "<dt>{}</dt><dd>{}</dd>", escape(word.as_ref()), escape(fact));
        text
    });
    format!("<dl>\n{rows}</dl>\n")
}

fn table(grid: &Grid<'_>) -> String {
    let cell = |tag: &str, text: &str, side: Side| {
        let class = if side == Side::Right { " class=\"n\"" } else { "" };
        format!("<{tag}{class}>{}</{tag}>", escape(text))
    };
    let titles: String = grid.columns.iter().map(|(title, side)| cell("th", title, *side)).collect();
    let rows = grid.rows.iter().fold(String::new(), |mut text, row| {
        let cells: String =
            row.iter().zip(grid.columns).map(|(text, (_, side))| cell("td", text, *side)).collect();
        let _ = writeln!(text, "<tr>{cells}</tr>");
        text
    });
    format!(
        "<div class=\"wide\"><table>\n<thead><tr>{titles}</tr></thead>\n<tbody>\n{rows}</tbody>\n</table></div>\n"
    )
}

/// Names come from outside (processes, interfaces, control groups): none of them may become a tag or end an attribute.
fn escape(text: &str) -> String {
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
