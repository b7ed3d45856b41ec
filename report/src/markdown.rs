// SPDX-License-Identifier: MIT OR Apache-2.0
//! The report as Markdown, to paste into an issue: the same sentences and tables as in [`crate::text`].

use std::fmt::Write as _;

use mpwatch_model::flow::connection::Connection;
use mpwatch_model::snapshot::Report;

use crate::text::connection::{facts as facts_of, heading, tables};
use crate::text::grid::{Align, Grid};
use crate::text::report::{OTHER_END, facts as facts_of_report, in_brief, overviews};
use crate::text::selection::Selection;
use crate::text::summary::{NO_PROBLEM, problems, summary};
use crate::text::timeline;
use crate::text::words::{Fact, capital};

/// The report. Ends with a newline.
pub fn report(report: &Report) -> String {
    let mut text = format!("# mpwatch: {}\n\n", escape(&summary(report)));
    let problems = problems(report);
    if problems.is_empty() && !report.connections.is_empty() {
        let _ = writeln!(text, "{NO_PROBLEM}");
    }
    for problem in problems {
        let _ = writeln!(text, "- **!** {}", escape(&problem));
    }
    text.push_str("\n## Host, period and cost\n\n");
    text.push_str(&facts(&facts_of_report(report)));
    for overview in overviews(report) {
        let (title, notes) = (capital(overview.title), overview.paragraph());
        let _ = write!(text, "\n## {title}\n\n{notes}\n\n{}", table(&overview.grid));
    }
    let selection = Selection::from_report(report);
    for flow in &selection.in_full {
        text.push_str(&connection(&format!("## {}", escape(&heading(flow.end))), flow.end));
        if let Some(other) = flow.other {
            let title = format!("### {}: {}", capital(OTHER_END), escape(&heading(other)));
            text.push_str(&connection(&title, other));
        }
    }
    if let Some((title, grid)) = in_brief(&selection) {
        let _ = write!(text, "\n## {}\n\n{}", capital(&title), table(&grid));
    }
    if let Some(others) = selection.others() {
        let _ = writeln!(text, "\n{others}");
    }
    text
}

fn connection(title: &str, connection: &Connection) -> String {
    let mut text = format!("\n{title}\n\n");
    text.push_str(&facts(&facts_of(connection)));
    for grid in tables(connection) {
        let _ = write!(text, "\n{}", table(&grid));
    }
    if let Some(grid) = timeline::grid(connection) {
        let _ = write!(text, "\n{}:\n\n{}", capital(&timeline::title(connection)), table(&grid));
    }
    text
}

fn facts(facts: &[Fact]) -> String {
    let line = |(label, fact): &Fact| match *label {
        "" => format!("  {}\n", escape(fact)),
        label => format!("- **{label}** {}\n", escape(fact)),
    };
    facts.iter().map(line).collect()
}

fn table(grid: &Grid) -> String {
    let titles: Vec<&str> = grid.columns.iter().map(|(title, _)| *title).collect();
    let rule = |align| if align == Align::Right { "---:" } else { "---" };
    let rules: Vec<&str> = grid.columns.iter().map(|(_, align)| rule(*align)).collect();
    let mut text = format!("| {} |\n|{}|\n", titles.join(" | "), rules.join("|"));
    for row in &grid.rows {
        let cells: Vec<String> = row.iter().map(|cell| escape(cell)).collect();
        let _ = writeln!(text, "| {} |", cells.join(" | "));
    }
    text
}

/// Users choose names: nothing in a name may become a link, a picture, HTML or the end of a cell.
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
