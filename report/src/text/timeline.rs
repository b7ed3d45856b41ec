// SPDX-License-Identifier: MIT OR Apache-2.0
//! The timeline of a connection, with times from its opening.

use std::fmt::Write as _;

use mpwatch_model::flow::connection::Connection;
use mpwatch_model::flow::outage::{is_failure, outages};
use mpwatch_model::flow::timeline::{ObservedBy, TimelineEntry, clock_format};
use unicode_width::UnicodeWidthStr;

use super::grid::{Align, Grid};

/// The events: time of day and time since the opening, `!` for a failure, the event, and its source.
fn lines(connection: &Connection) -> Vec<(String, char, String, &'static str)> {
    let outages = outages(connection);
    let clock = clock_format(&connection.timeline);
    let line = |entry: &TimelineEntry| {
        let mark = if is_failure(&outages, entry) { '!' } else { ' ' };
        let sentence = entry.event.sentence(|subflow| connection.subflow_name(subflow));
        let time = format!("{} {}", entry.at.strftime(clock), connection.offset(entry.at));
        (time, mark, sentence, entry.source.as_str())
    };
    connection.timeline.iter().map(line).collect()
}

/// The title, with the origin and accuracy of the times.
pub(crate) fn title(connection: &Connection) -> String {
    let start = if connection.opened_at.is_some() { "its opening" } else { "when mpwatch first saw it" };
    format!("timeline, UTC and from {start}; {}", ObservedBy::legend())
}

/// The events as a table. `None`: there are none.
pub(crate) fn grid(connection: &Connection) -> Option<Grid> {
    let row = |(offset, mark, sentence, source): (String, char, String, &str)| {
        vec![offset, format!("{mark} {sentence}").trim_start().to_owned(), source.to_owned()]
    };
    let rows: Vec<Vec<String>> = lines(connection).into_iter().map(row).collect();
    let columns = vec![("time", Align::Right), ("event", Align::Left), ("source", Align::Left)];
    (!rows.is_empty()).then_some(Grid { columns, rows })
}

/// The events as text. Empty: there are none.
pub(super) fn section(connection: &Connection, width: usize) -> String {
    let lines = lines(connection);
    if lines.is_empty() {
        return String::new();
    }
    let mut text = format!("  {}\n", title(connection));
    let time_width = lines.iter().map(|(offset, ..)| offset.width()).max().unwrap_or(0);
    let sentence_width = lines.iter().map(|(_, _, sentence, _)| sentence.width()).max().unwrap_or(0);
    let source_width = lines.iter().map(|(.., source)| source.width()).max().unwrap_or(0);
    let sentence_width = sentence_width.min(width.saturating_sub(time_width + source_width + 10));
    for (offset, mark, sentence, source) in lines {
        let _ = writeln!(text, "  {mark} {offset:>time_width$}  {sentence:sentence_width$}  [{source}]");
    }
    text
}
