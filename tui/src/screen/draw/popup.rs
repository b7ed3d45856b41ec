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
use super::super::update::Chosen;
use super::{put, put_lines, scrollbar};

/// Where a box for so much text is, in the middle of the screen.
fn place_of_box(app: &App, (width, height): (usize, usize)) -> Rect {
    let (columns, rows) = app.size;
    let width = u16::try_from(width + 4).unwrap_or(u16::MAX).min(columns);
    let height = u16::try_from(height + 2).unwrap_or(u16::MAX).min(rows);
    Rect { x: (columns - width) / 2, y: (rows - height) / 2, width, height }
}

/// An empty box; its inside.
fn boxed(app: &App, frame: &mut Frame<'_>, area: Rect, title: &str) -> Rect {
    let area = area.intersection(frame.area());
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
    let rows = lines.len();
    let outer = place_of_box(app, (width, rows));
    let area = boxed(app, frame, outer, title);
    put_lines(app, frame, area, lines.into_iter().skip(scroll));
    scrollbar(app, frame, Rect { width: area.width + 1, ..area }, (rows, scroll));
}

fn title_of_list(pick: Pick) -> &'static str {
    match pick {
        Pick::Sort => "sort by (enter; once more turns it round)",
        Pick::Columns => "columns (enter shows or hides; · if there is room)",
        Pick::Export => "export the selection as",
    }
}

/// A list's box, and its first line that is in view.
fn place_of_list(app: &App, pick: Pick, place: usize, choices: &[(String, String, Chosen)]) -> (Rect, usize) {
    let names = width_of_names(choices);
    let lines = choices.iter().map(|(_, help, _)| names + help.width() + 6);
    let width = lines.max().unwrap_or(0).max(title_of_list(pick).len() + 2);
    let outer = place_of_box(app, (width.min(72), choices.len()));
    let page = usize::from(outer.height.saturating_sub(2));
    (outer, (place + 1).saturating_sub(page))
}

fn width_of_names(choices: &[(String, String, Chosen)]) -> usize {
    choices.iter().map(|(name, ..)| name.width()).max().unwrap_or(0)
}

/// The line of a list that stands at a place of the screen.
pub(crate) fn choice_at(app: &App, pick: Pick, place: usize, (column, row): (u16, u16)) -> Option<usize> {
    let choices = app.choices(pick);
    let (outer, offset) = place_of_list(app, pick, place, &choices);
    let is_inside = (outer.left() + 1..outer.right().saturating_sub(1)).contains(&column)
        && (outer.top() + 1..outer.bottom().saturating_sub(1)).contains(&row);
    let line = offset + usize::from(row.checked_sub(outer.top() + 1)?);
    Some(line).filter(|line| is_inside && *line < choices.len())
}

pub(super) fn list(app: &App, frame: &mut Frame<'_>, pick: Pick, place: usize) {
    let choices = app.choices(pick);
    let (names, rows) = (width_of_names(&choices), choices.len());
    let (outer, offset) = place_of_list(app, pick, place, &choices);
    let area = boxed(app, frame, outer, title_of_list(pick));
    for ((index, (name, help, chosen)), y) in
        choices.into_iter().enumerate().skip(offset).zip(area.top()..area.bottom())
    {
        let name = crate::cell::pad(&name, names, false);
        let text =
            Text::new(chosen.mark(), Ink::Good).and(format!("{name}  "), Ink::Strong).and(help, Ink::Faint);
        let line = Rect { y, height: 1, ..area };
        put(app, frame, line, text);
        if index == place {
            frame.buffer_mut().set_style(line, Theme::selected());
        }
    }
    scrollbar(app, frame, Rect { width: area.width + 1, ..area }, (rows, offset));
}
