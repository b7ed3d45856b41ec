// SPDX-License-Identifier: MIT OR Apache-2.0
//! The section of a connection: lanes, facts, plots, tables and timeline of one end, and of the other end if it was observed too.

use std::fmt::Write as _;

use mpwatch_model::flow::connection::Connection;
use mpwatch_model::flow::pairing::Flow;
use mpwatch_model::flow::series::CounterSeries;

use super::intervals;
use super::lanes;
use super::markup::{escape, facts, list, table};
use super::over_time;
use crate::text::connection::{facts as facts_of, heading, payload, tables};
use crate::text::report::OTHER_END;
use crate::text::summary::problems_of;
use crate::text::timeline;
use crate::text::words::capital;

/// Facts that directly follow the lanes. All other facts follow the small drawings.
const FIRST: [&str; 5] = ["2nd path", "bottleneck", "goodput", "energy", "joined"];

/// The section of an important connection, with plots.
pub(super) fn open(flow: Flow<'_>, samples: &CounterSeries, above: &[String]) -> String {
    let plots = over_time::plots(flow, samples);
    let plots = if plots.is_empty() {
        plots
    } else {
        format!(
            "<details open><summary>Plots over time</summary>\n<div class=\"plots\">{plots}</div></details>\n"
        )
    };
    format!("<section>\n<h2>{}</h2>\n{}</section>\n", title(flow.end), body(flow, samples, above, &plots))
}

/// The section of a less important connection: a line until the reader opens it.
pub(super) fn folded(flow: Flow<'_>, samples: &CounterSeries, above: &[String]) -> String {
    format!(
        "<section class=\"folded\">\n<details><summary>{} · {}</summary>\n{}</details>\n</section>\n",
        title(flow.end),
        escape(&payload(flow.end)),
        body(flow, samples, above, "")
    )
}

fn title(connection: &Connection) -> String {
    escape(&heading(connection)).replace("  ", " · ")
}

/// The content of a section. `above`: the problems at the top of the page.
fn body(flow: Flow<'_>, samples: &CounterSeries, above: &[String], plots: &str) -> String {
    let connection = flow.end;
    let problems = problems_of(connection);
    let is_above = problems.iter().all(|problem| above.iter().any(|line| line.ends_with(problem)));
    let mut text = list(if is_above { "problems repeated" } else { "problems" }, &problems);
    text.push_str(&lanes::lanes(connection, samples));
    // A fact that is one of the problems is not repeated.
    let facts_left = facts_of(connection).into_iter().filter(|(_, fact)| !problems.contains(fact));
    let (first, others): (Vec<_>, Vec<_>) = facts_left.partition(|(word, _)| FIRST.contains(word));
    text.push_str(&facts(&first));
    text.push_str(plots);
    let _ = writeln!(
        text,
        "<div class=\"pair\">\n{}{}</div>",
        intervals::rtts(connection),
        intervals::energies(connection)
    );
    text.push_str(&facts(&others));
    text.push_str(&details(connection));
    text.extend(flow.other.map(other_end));
    text
}

/// Tables of the subflows, and the timeline.
fn details(connection: &Connection) -> String {
    let mut text: String = tables(connection).iter().map(table).collect();
    if let Some(grid) = timeline::grid(connection) {
        let (title, table) = (capital(&timeline::title(connection)), table(&grid));
        let _ = writeln!(text, "<details open><summary>{}</summary>\n{table}</details>", escape(&title));
    }
    text
}

fn other_end(connection: &Connection) -> String {
    format!(
        "<details class=\"end\"><summary>{}: {} · {}</summary>\n{}{}{}</details>\n",
        capital(OTHER_END),
        title(connection),
        escape(&payload(connection)),
        list("problems", &problems_of(connection)),
        facts(&facts_of(connection)),
        details(connection)
    )
}
