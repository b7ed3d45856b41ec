// SPDX-License-Identifier: MIT OR Apache-2.0
//! The last line: what is being typed, what there is to say, or the most useful keys, from the key table.

use ratatui::Frame;
use ratatui::layout::{Position, Rect};
use unicode_width::UnicodeWidthStr;

use super::super::app::{App, Mode, Typing};
use super::super::key::BINDINGS;
use super::super::rows::Rows;
use super::super::text::Text;
use super::super::theme::Ink;
use super::put;

pub(super) fn draw(app: &App, frame: &mut Frame<'_>, area: Rect) {
    if let Mode::Type(typing, edit) = &app.mode {
        let prompt = match typing {
            Typing::Filter => "filter: ",
            Typing::Search => "find: ",
        };
        let hint = match (&app.filter_error, typing) {
            (Some(error), Typing::Filter) => Text::new(format!("  ✗ {error}"), Ink::Alarm),
            (None, Typing::Filter) if edit.text().is_empty() => {
                Text::new("  peer:10.0/16 proc:nginx iface:eth1 rate>1M rtt>20ms shared", Ink::Faint)
            }
            (None, Typing::Filter) => {
                let rows = match &app.rows {
                    Rows::Flows(rows) => crate::header::count(rows.connections(), "connection"),
                    other => crate::header::count(other.len(), "row"),
                };
                Text::new(format!("  {rows}   enter keeps it, esc drops it"), Ink::Faint)
            }
            (_, Typing::Search) => Text::default(),
        };
        let mut line = Text::new(prompt, Ink::Accent).and(edit.text(), Ink::Strong);
        line.0.extend(hint.0);
        put(app, frame, area, line);
        let x = prompt.width() + edit.before().width();
        let x = u16::try_from(x).unwrap_or(u16::MAX).min(area.width.saturating_sub(1));
        frame.set_cursor_position(Position { x: area.x + x, y: area.y });
        return;
    }
    if let Some(notice) = &app.notice {
        let ink = if notice.is_error { Ink::Alarm } else { Ink::Accent };
        put(app, frame, area, Text::new(notice.text.clone(), ink));
        return;
    }
    let keys = &app.settings.keys;
    let mut line = Text::default();
    for (action, word) in BINDINGS.iter().filter_map(|row| Some((row.action, row.footer?))) {
        let key = keys.key(action);
        if !key.is_empty() {
            line = line.and(key, Ink::Accent).and(format!(" {word}  "), Ink::Normal);
        }
    }
    put(app, frame, area, line);
}
