// SPDX-License-Identifier: MIT OR Apache-2.0
//! The last line: the text that the user types, a notice, or the most useful keys.

use ratatui::Frame;
use ratatui::layout::{Position, Rect};
use unicode_width::UnicodeWidthStr;

use super::frame::put;
use crate::state::app::{App, Rows};
use crate::state::edit::Edit;
use crate::state::key::BINDINGS;
use crate::state::view::{Mode, Prompt};
use crate::text::{Text, count};
use crate::theme::Ink;

pub(super) fn draw(app: &App, frame: &mut Frame<'_>, area: Rect) {
    if let Mode::Type(prompt, edit) = &app.mode {
        input(app, frame, area, (*prompt, edit));
    } else if let Some(notice) = &app.notice {
        let ink = if notice.is_error { Ink::Alarm } else { Ink::Accent };
        put(app, frame, area, Text::new(notice.text.clone(), ink));
    } else {
        put(app, frame, area, keys(app));
    }
}

fn input(app: &App, frame: &mut Frame<'_>, area: Rect, (prompt, edit): (Prompt, &Edit)) {
    let (word, hint) = match prompt {
        Prompt::Filter => ("filter: ", filter_hint(app, edit)),
        Prompt::Search => ("find: ", Text::default()),
    };
    put(app, frame, area, Text::new(word, Ink::Accent).and(edit.text(), Ink::Strong).join(hint));
    let x = word.width() + edit.before().width();
    let x = u16::try_from(x).unwrap_or(u16::MAX).min(area.width.saturating_sub(1));
    frame.set_cursor_position(Position { x: area.x + x, y: area.y });
}

fn filter_hint(app: &App, edit: &Edit) -> Text {
    if let Some(error) = &app.filter_error {
        return Text::new(format!("  ✗ {error}"), Ink::Alarm);
    }
    if edit.text().is_empty() {
        return Text::new("  peer:10.0/16 proc:nginx iface:eth1 rate>1M rtt>20ms shared", Ink::Faint);
    }
    let rows = match &app.rows {
        Rows::Flows(rows) => count(rows.connections(), "connection"),
        other => count(other.len(), "row"),
    };
    Text::new(format!("  {rows}   enter keeps the filter, esc clears it"), Ink::Faint)
}

fn keys(app: &App) -> Text {
    let shown = BINDINGS.iter().filter_map(|row| Some((app.settings.keys.key(row.action), row.footer?)));
    shown.filter(|(key, _)| !key.is_empty()).fold(Text::default(), |line, (key, word)| {
        line.and(key, Ink::Accent).and(format!(" {word}  "), Ink::Normal)
    })
}
