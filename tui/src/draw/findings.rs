// SPDX-License-Identifier: MIT OR Apache-2.0
//! The findings of a connection, most important first.

use mpwatch_model::finding::{self, Severity};
use mpwatch_model::flow::connection::Connection;
use ratatui::Frame;
use ratatui::layout::Rect;

use super::frame::{put_lines, rule};
use crate::state::app::App;
use crate::text::{Text, truncated, wrapped};
use crate::theme::Ink;

/// Draws the findings of the selected connection below the table.
pub(super) fn draw(app: &App, frame: &mut Frame<'_>, area: Rect) {
    let Some(connection) = app.selected().filter(|_| area.height > 1) else { return };
    let title = Text::new("Findings ", Ink::Strong).and(connection.id.short(), Ink::Faint);
    let below = rule(app, frame, area, title);
    put_lines(app, frame, below, fitting(app, connection, below));
}

/// The findings that fit into an area. If some do not fit, the last line ends in `…`.
pub(super) fn fitting(app: &App, connection: &Connection, area: Rect) -> Vec<Text> {
    let (width, height) = (usize::from(area.width), usize::from(area.height));
    truncated(lines(app, connection, width), (width, height), Ink::Faint)
}

/// The findings of a connection, wrapped to lines of `width` characters.
pub(super) fn lines(app: &App, connection: &Connection, width: usize) -> Vec<Text> {
    let findings = finding::of_connection(connection);
    let mut lines = Vec::new();
    if findings.iter().all(|finding| finding.severity() == Severity::Note) {
        lines.push(Text::new(" ✓ no problem found", Ink::Good));
    }
    for finding in findings {
        let mark = match finding.severity() {
            Severity::Failure => ("✗", Ink::Alarm),
            Severity::Warning => ("!", Ink::Warning),
            Severity::Good => ("✓", Ink::Good),
            Severity::Note => ("·", Ink::Faint),
        };
        let sentence = app.context().with_format(|format| finding.sentence(format));
        lines.extend(marked(mark, &sentence, width));
    }
    let unmeasured = finding::unmeasured(connection).join("; ");
    if !unmeasured.is_empty() {
        lines.extend(marked(("·", Ink::Faint), &format!("not measured: {unmeasured}"), width));
    }
    lines
}

/// A sentence wrapped to lines of `width` characters. The first line begins with the mark.
fn marked((mark, ink): (&str, Ink), sentence: &str, width: usize) -> Vec<Text> {
    let lines = wrapped(sentence, width.saturating_sub(4)).into_iter().enumerate();
    lines
        .map(|(number, line)| Text::new(format!(" {} {line}", if number == 0 { mark } else { " " }), ink))
        .collect()
}
