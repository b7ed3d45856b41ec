// SPDX-License-Identifier: MIT OR Apache-2.0
//! What opens above everything: the help, from the key table, and lists to choose from.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::widgets::{Block, BorderType, Clear};
use unicode_width::UnicodeWidthStr;

use super::super::app::{App, Pick};
use super::super::key::{BINDINGS, SECTIONS};
use super::super::text::Text;
use super::super::theme::{Ink, Theme};
use super::{put, put_lines};

/// An empty box in the middle of the screen; its inside.
fn boxed(app: &App, frame: &mut Frame<'_>, (width, height): (usize, usize), title: &str) -> Rect {
    let all = frame.area();
    let width = u16::try_from(width + 4).unwrap_or(u16::MAX).min(all.width);
    let height = u16::try_from(height + 2).unwrap_or(u16::MAX).min(all.height);
    let area = Rect { x: (all.width - width) / 2, y: (all.height - height) / 2, width, height };
    frame.render_widget(Clear, area);
    let theme = app.settings.theme;
    let block = Block::bordered()
        .border_type(BorderType::Rounded)
        .border_style(theme.style(Ink::Faint))
        .title(Text::new(format!(" {title} "), Ink::Strong).line(theme));
    let inner = block.inner(area);
    frame.render_widget(block, area);
    Rect { x: inner.x + 1, width: inner.width.saturating_sub(2), ..inner }
}

fn help_lines(app: Option<&App>) -> Vec<Text> {
    let mut lines = Vec::new();
    let mut rows = BINDINGS.iter();
    for (title, count) in SECTIONS {
        if !lines.is_empty() {
            lines.push(Text::default());
        }
        lines.push(Text::new(*title, Ink::Strong));
        for row in rows.by_ref().take(*count) {
            let keys = app.map(|app| app.settings.keys.keys(row.action)).unwrap_or_default().join(" ");
            lines.push(Text::new(format!("  {keys:<16} "), Ink::Accent).and(row.help, Ink::Normal));
        }
    }
    lines.push(Text::default());
    lines.push(Text::new("Filter", Ink::Strong));
    lines.extend(mpwatch_model::filter::HELP.lines().map(|line| Text::plain(format!("  {line}"))));
    lines.push(Text::default());
    lines.push(Text::new("Mouse", Ink::Strong));
    lines.push(Text::plain(
        "  click a title to sort, a row to select and again to open, a tab; the wheel scrolls",
    ));
    lines
}

/// Lines of the help that do not depend on the keys.
pub(crate) fn help_height(_: (u16, u16)) -> usize {
    help_lines(None).len()
}

pub(super) fn help(app: &App, frame: &mut Frame<'_>, scroll: usize) {
    let lines = help_lines(Some(app));
    let width = lines.iter().map(Text::width).max().unwrap_or(0);
    let title = if lines.len() + 2 > frame.area().height.into() {
        "help (scroll: ↑ ↓ PgUp PgDn)"
    } else {
        "help"
    };
    let area = boxed(app, frame, (width, lines.len()), title);
    put_lines(app, frame, area, lines.into_iter().skip(scroll));
}

pub(super) fn list(app: &App, frame: &mut Frame<'_>, pick: Pick, place: usize) {
    let choices = app.choices(pick);
    let title = match pick {
        Pick::Sort => "sort by (enter; once more turns it round)",
        Pick::Columns => "columns (enter shows or hides)",
        Pick::Export => "export the selection as",
    };
    let names = choices.iter().map(|(name, ..)| name.width()).max().unwrap_or(0);
    let width =
        choices.iter().map(|(_, help, _)| names + help.width() + 6).max().unwrap_or(0).max(title.len() + 2);
    let area = boxed(app, frame, (width.min(72), choices.len()), title);
    let page = usize::from(area.height);
    let offset = (place + 1).saturating_sub(page);
    for ((index, (name, help, chosen)), y) in
        choices.into_iter().enumerate().skip(offset).zip(area.top()..area.bottom())
    {
        let mark = if chosen { "✓ " } else { "  " };
        let name = crate::cell::pad(&name, names, false);
        let text = Text::new(mark, Ink::Good).and(format!("{name}  "), Ink::Strong).and(help, Ink::Faint);
        let line = Rect { y, height: 1, ..area };
        put(app, frame, line, text);
        if index == place {
            frame.buffer_mut().set_style(line, Theme::selected());
        }
    }
}
