// SPDX-License-Identifier: MIT OR Apache-2.0
//! The last lines of the screen: the text that the user types and its error, or a notice, or the most useful keys.

use ratatui::Frame;
use ratatui::layout::{Position, Rect};
use unicode_width::UnicodeWidthStr;

use super::frame::put_lines;
use crate::state::app::{App, Rows};
use crate::state::edit::Edit;
use crate::state::key::BINDINGS;
use crate::state::view::{Mode, Prompt};
use crate::text::{Text, count, truncated, wrapped};
use crate::theme::Ink;

/// Maximum height of the footer, in lines. A longer message is cut.
const MAX_HEIGHT: usize = 4;

pub(super) fn draw(app: &App, frame: &mut Frame<'_>, area: Rect) {
    put_lines(app, frame, area, lines(app));
    if let Mode::Type(prompt, edit) = &app.mode {
        let x = prompt.as_str().width() + edit.before().width();
        let x = u16::try_from(x).unwrap_or(u16::MAX).min(area.width.saturating_sub(1));
        frame.set_cursor_position(Position { x: area.x + x, y: area.y });
    }
}

/// The lines of the footer, wrapped to the width of the screen; at least one line.
pub(super) fn lines(app: &App) -> Vec<Text> {
    if let Mode::Type(prompt, edit) = &app.mode {
        input(app, *prompt, edit)
    } else if let Some(notice) = &app.notice {
        below(app, &notice.text, if notice.is_error { Ink::Alarm } else { Ink::Accent }, MAX_HEIGHT)
    } else {
        vec![keys(app)]
    }
}

fn below(app: &App, message: &str, ink: Ink, height: usize) -> Vec<Text> {
    let width = usize::from(app.size.0);
    let lines = wrapped(message, width).into_iter().map(|line| Text::new(line, ink));
    truncated(lines.collect(), (width, height), ink)
}

/// The line that the user types. An error follows on the same line if it fits, otherwise on the lines below.
fn input(app: &App, prompt: Prompt, edit: &Edit) -> Vec<Text> {
    let typed = Text::new(prompt.as_str(), Ink::Accent).and(edit.text(), Ink::Strong);
    let suggestions = if prompt == Prompt::Filter { edit.suggestions() } else { Vec::new() };
    match &app.filter_error {
        Some(error) if prompt == Prompt::Filter && suggestions.is_empty() => {
            let message = format!("✗ {error}");
            if typed.width() + 2 + message.width() <= usize::from(app.size.0) {
                return vec![typed.and(format!("  {message}"), Ink::Alarm)];
            }
            std::iter::once(typed).chain(below(app, &message, Ink::Alarm, MAX_HEIGHT - 1)).collect()
        }
        _ => vec![typed.and(hint(app, prompt, edit, &suggestions), Ink::Faint)],
    }
}

fn hint(app: &App, prompt: Prompt, edit: &Edit, suggestions: &[String]) -> String {
    if prompt == Prompt::Search {
        return String::new();
    }
    if !suggestions.is_empty() {
        return format!("   tab: {}", suggestions.join(" "));
    }
    if edit.text().is_empty() {
        return "  peer:10.0/16 proc:nginx iface:eth1 rate>1M rtt>20ms shared".to_owned();
    }
    let rows = match &app.rows {
        Rows::Flows(rows) => count(rows.iter().filter(|row| row.subflow.is_none()).count(), "connection"),
        other => count(other.len(), "row"),
    };
    format!("  {rows}   enter keeps the filter, esc clears it")
}

fn keys(app: &App) -> Text {
    let shown = BINDINGS.iter().filter_map(|row| Some((app.settings.keys.key(row.action), row.footer?)));
    shown.filter(|(key, _)| !key.is_empty()).fold(Text::default(), |line, (key, word)| {
        let gap = if line.0.is_empty() { "" } else { "  " };
        line.and(gap, Ink::Normal).and(key, Ink::Accent).and(format!(" {word}"), Ink::Normal)
    })
}
