// SPDX-License-Identifier: MIT OR Apache-2.0
//! Below the table: what is to be said of the selected connection, in plain words.

use ratatui::Frame;
use ratatui::layout::Rect;

use super::super::app::App;
use super::super::finding::{self, Finding};
use super::super::text::{Text, wrapped};
use super::super::theme::Ink;
use super::{put_lines, rule};

pub(super) fn draw(app: &App, frame: &mut Frame<'_>, area: Rect) {
    let Some(connection) = app.selected().filter(|_| area.height > 1) else { return };
    let title = Text::new(format!("{} ", connection.id.short()), Ink::Strong)
        .and("what is to be said of it", Ink::Faint);
    rule(app, frame, area, title);
    let below = Rect { y: area.y + 1, height: area.height - 1, ..area };
    let joules = |value| app.settings.units.energy(value);
    let found = finding::of(connection, &joules);
    let lines = if found.is_empty() {
        vec![Text::new(" ✓ nothing out of the ordinary", Ink::Good)]
    } else {
        lines(&found, area.width.into())
    };
    put_lines(app, frame, below, lines);
}

/// Findings as lines of at most this width.
pub(crate) fn lines(found: &[Finding], width: usize) -> Vec<Text> {
    let mut lines = Vec::new();
    for one in found {
        for (number, line) in wrapped(&one.text, width.saturating_sub(4)).into_iter().enumerate() {
            let mark = if number == 0 { one.mark() } else { " " };
            lines.push(Text::new(format!(" {mark} {line}"), one.ink));
        }
    }
    lines
}
