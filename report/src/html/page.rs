// SPDX-License-Identifier: MIT OR Apache-2.0
//! The page: summary, problems, overviews, and a section for each connection.

use std::fmt::Write as _;

use mpwatch_model::flow::series::CounterSeries;
use mpwatch_model::kernel::endpoint::printable;
use mpwatch_model::snapshot::Report;

use super::card;
use super::distributions;
use super::markup::{DRAWINGS, STYLE, escape, facts, list, table};
use crate::text::report::{facts as facts_of_report, in_brief, overviews, pairs};
use crate::text::selection::Selection;
use crate::text::summary::{NO_PROBLEM, headline, problems, summary};
use crate::text::words::capital;

/// Number of connections that are shown in full. Other connections are lines that the reader can open.
const MAX_OPEN: usize = 6;

/// The report as a page. `samples`: counters of long connections over time, for lanes and plots; may be empty.
pub fn report(report: &Report, samples: &CounterSeries) -> String {
    let run = &report.run;
    let labels = pairs(&run.setup.labels).map(|labels| format!(", {labels}")).unwrap_or_default();
    let (host, date) = (printable(&run.host.name), run.from.strftime("%Y-%m-%d %H:%M"));
    let title = format!("{}: {host}, {date} UTC{labels}", headline(report));
    let mut text = frame(&format!("mpwatch: {title}"), &title);
    let _ = writeln!(text, "<p>{}</p>", escape(&summary(report)));
    let problems = problems(report);
    if problems.is_empty() {
        let all_well = if report.connections.is_empty() { "" } else { NO_PROBLEM };
        let _ = writeln!(text, "<p>{all_well}</p>");
    }
    text.push_str(&list("problems", &problems));
    text.push_str("<div class=\"origin\">\n");
    text.push_str(&facts(&facts_of_report(report)));
    for overview in overviews(report) {
        let (title, notes) = (capital(overview.title), escape(&overview.paragraph()));
        let _ = write!(text, "<h2>{title}</h2>\n<p>{notes}</p>\n{}", table(&overview.grid));
    }
    text.push_str(&distributions::plots(report));
    text.push_str("</div>\n");
    let selection = Selection::from_report(report);
    for (nth, flow) in selection.in_full.iter().enumerate() {
        let section = if nth < MAX_OPEN { card::open } else { card::folded };
        text.push_str(&section(*flow, samples, &problems));
    }
    if let Some((title, grid)) = in_brief(&selection) {
        let (title, table) = (escape(&capital(&title)), table(&grid));
        let _ = writeln!(
            text,
            "<section class=\"folded\"><details><summary>{title}</summary>\n{table}</details></section>"
        );
    }
    if let Some(others) = selection.others() {
        let _ = writeln!(text, "<p>{}</p>", escape(&others));
    }
    text.push_str("</main>\n</body>\n</html>\n");
    text
}

/// The beginning of a page up to its first heading.
pub fn frame(title: &str, heading: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>{}</title>\n\
         <style>\n{STYLE}{DRAWINGS}</style>\n</head>\n<body>\n<main>\n<h1>{}</h1>\n",
        escape(title),
        escape(heading)
    )
}
