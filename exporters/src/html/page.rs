// SPDX-License-Identifier: MIT OR Apache-2.0
//! The page: summary, problems, overviews, and a section for each connection.

use std::fmt::Write as _;

use mpwatch_model::connection::Connection;
use mpwatch_model::snapshot::Report;

use super::drawing;
use super::lanes;
use super::markup::escape;
use crate::text::connection::{facts as facts_of, heading, tables};
use crate::text::grid::{Align, Grid};
use crate::text::report::{facts as facts_of_report, other_connections, overviews, selection};
use crate::text::summary::{NO_PROBLEM, problems, problems_of, summary};
use crate::text::timeline;
use crate::text::words::capital;
use mpwatch_model::series::CounterSeries;

const STYLE: &str = include_str!("style.css");
/// Facts of a connection that follow its lanes; the others come after the small drawings.
const FIRST: [&str; 4] = ["2nd path", "bottleneck", "energy", "joined"];

/// The report as a page. `samples`: counters of long connections over time, for the lanes; may be empty.
pub fn report(report: &Report, samples: &CounterSeries) -> String {
    let host = escape(&mpwatch_model::endpoint::printable(&report.run.host.name));
    let mut text = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>mpwatch: {host}</title>\n\
         <style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n<h1>{}</h1>\n",
        escape(&summary(report))
    );
    let problems = problems(report);
    if problems.is_empty() {
        let all_well = if report.connections.is_empty() { "" } else { NO_PROBLEM };
        let _ = writeln!(text, "<p>{all_well}</p>");
    }
    text.push_str(&list("problems", &problems));
    text.push_str("<div class=\"origin\">\n");
    text.push_str(&facts(&facts_of_report(report)));
    for (title, notes, grid) in overviews(report) {
        let notes: Vec<String> = notes.iter().map(|note| format!("{}.", escape(&capital(note)))).collect();
        let (title, notes) = (capital(title), notes.join(" "));
        let _ = write!(text, "<h2>{title}</h2>\n<p>{notes}</p>\n{}", table(&grid));
    }
    text.push_str("</div>\n");
    let (in_full, others) = selection(&report.connections);
    for one in in_full {
        text.push_str(&connection(one, samples, &problems));
    }
    if let Some(others) = other_connections(&others) {
        let _ = writeln!(text, "<p>{}</p>", escape(&others));
    }
    text.push_str("</main>\n</body>\n</html>\n");
    text
}

/// A list of problems. Empty: there are none.
fn list(class: &str, problems: &[String]) -> String {
    if problems.is_empty() {
        return String::new();
    }
    let items = problems.iter().fold(String::new(), |mut text, problem| {
        let _ = writeln!(text, "<li>{}</li>", escape(problem));
        text
    });
    format!("<ul class=\"{class}\">\n{items}</ul>\n")
}

/// `above`: the problems that the page begins with.
fn connection(connection: &Connection, samples: &CounterSeries, above: &[String]) -> String {
    let mut text = format!("<section>\n<h2>{}</h2>\n", escape(&heading(connection)).replace("  ", " · "));
    let problems = problems_of(connection);
    let is_above = problems.iter().all(|one| above.iter().any(|line| line.ends_with(one)));
    text.push_str(&list(if is_above { "problems repeated" } else { "problems" }, &problems));
    text.push_str(&lanes::lanes(connection, samples));
    // A fact that is one of the problems is not repeated.
    let facts_left = facts_of(connection).into_iter().filter(|(_, fact)| !problems.contains(fact));
    let (first, others): (Vec<_>, Vec<_>) = facts_left.partition(|(word, _)| FIRST.contains(word));
    text.push_str(&facts(&first));
    text.push_str("<div class=\"pair\">\n");
    text.push_str(&drawing::rtts(connection));
    text.push_str(&drawing::energies(connection));
    text.push_str("</div>\n");
    text.push_str(&facts(&others));
    for grid in tables(connection) {
        text.push_str(&table(&grid));
    }
    if let Some(grid) = timeline::grid(connection) {
        let (title, table) = (capital(&timeline::title(connection)), table(&grid));
        let _ = writeln!(text, "<details open><summary>{}</summary>\n{table}</details>", escape(&title));
    }
    text.push_str("</section>\n");
    text
}

fn facts<W: AsRef<str>>(facts: &[(W, String)]) -> String {
    let rows = facts.iter().fold(String::new(), |mut text, (word, fact)| {
        let _ = writeln!(text, "<dt>{}</dt><dd>{}</dd>", escape(word.as_ref()), escape(fact));
        text
    });
    format!("<dl>\n{rows}</dl>\n")
}

fn table(grid: &Grid) -> String {
    let cell = |tag: &str, text: &str, align: Align| {
        let class = if align == Align::Right { " class=\"n\"" } else { "" };
        format!("<{tag}{class}>{}</{tag}>", escape(text))
    };
    let titles: String = grid.columns.iter().map(|(title, align)| cell("th", title, *align)).collect();
    let rows = grid.rows.iter().fold(String::new(), |mut text, row| {
        let cells: String =
            row.iter().zip(&grid.columns).map(|(text, (_, align))| cell("td", text, *align)).collect();
        let _ = writeln!(text, "<tr>{cells}</tr>");
        text
    });
    format!(
        "<div class=\"wide\"><table>\n<thead><tr>{titles}</tr></thead>\n<tbody>\n{rows}</tbody>\n</table></div>\n"
    )
}
