// SPDX-License-Identifier: MIT OR Apache-2.0
//! Helpers that draw text, rules and scroll bars on a frame, and divide areas.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Scrollbar, ScrollbarOrientation, ScrollbarState};

use crate::state::app::App;
use crate::text::Text;
use crate::theme::{Ink, Theme};

/// Text in the colours of a theme.
pub(super) fn styled(text: Text, theme: Theme) -> Line<'static> {
    let pieces = text.0.into_iter().map(|(text, ink)| Span::styled(text, theme.style(ink)));
    Line::from(pieces.collect::<Vec<Span<'static>>>())
}

/// Writes text into the first line of an area.
pub(super) fn put(app: &App, frame: &mut Frame<'_>, area: Rect, text: Text) {
    let area = Rect { height: area.height.min(1), ..area }.intersection(frame.area());
    frame.render_widget(styled(text.clipped(area.width.into()), app.settings.theme), area);
}

/// Writes lines from the top of an area; lines that do not fit are left out.
pub(super) fn put_lines(app: &App, frame: &mut Frame<'_>, area: Rect, lines: impl IntoIterator<Item = Text>) {
    for (line, y) in lines.into_iter().zip(area.top()..area.bottom()) {
        put(app, frame, Rect { y, height: 1, ..area }, line);
    }
}

/// Divides an area from top to bottom: each call returns the next part, of the requested height or, if less is left, the remainder.
pub(super) fn stack(area: Rect) -> impl FnMut(usize) -> Rect {
    let mut top = area.y;
    move |height| {
        let left = area.bottom().saturating_sub(top);
        let height = u16::try_from(height).unwrap_or(left).min(left);
        top += height;
        Rect { y: top - height, height, ..area }
    }
}

/// Draws a rule with a title; returns the area below it.
pub(super) fn rule(app: &App, frame: &mut Frame<'_>, area: Rect, title: Text) -> Rect {
    let width = usize::from(area.width);
    let title = title.clipped(width.saturating_sub(4));
    let rest = width.saturating_sub(title.width() + 3);
    let line = Text::new("─ ", Ink::Faint).join(title);
    put(app, frame, area, line.and(format!(" {}", "─".repeat(rest)), Ink::Faint));
    Rect { y: area.y + 1, height: area.height.saturating_sub(1), ..area }
}

/// Draws a scroll bar at the right edge of an area that shows `rows` from `offset` on, unless all rows fit.
pub(super) fn scrollbar(app: &App, frame: &mut Frame<'_>, area: Rect, (rows, offset): (usize, usize)) {
    let page = usize::from(area.height);
    if rows <= page || page == 0 {
        return;
    }
    let theme = app.settings.theme;
    let bar = Scrollbar::new(ScrollbarOrientation::VerticalRight)
        .begin_symbol(None)
        .end_symbol(None)
        .track_symbol(Some("│"))
        .track_style(theme.style(Ink::Faint))
        .thumb_symbol("┃")
        .thumb_style(theme.style(Ink::Normal));
    // `ScrollbarState` counts scroll positions, not rows.
    let mut state = ScrollbarState::new(rows - page + 1).viewport_content_length(page).position(offset);
    frame.render_stateful_widget(bar, area.intersection(frame.area()), &mut state);
}
