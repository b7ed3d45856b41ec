// SPDX-License-Identifier: MIT OR Apache-2.0
//! Boxes drawn over the screen: the help, and lists from which the user chooses.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::widgets::{Block, BorderType, Clear};
use unicode_width::UnicodeWidthStr;

use super::frame::{put, put_lines, scrollbar, styled};
use crate::state::app::App;
use crate::state::choices::{ListItem, Mark, choices};
use crate::state::key::BINDINGS;
use crate::state::view::Pick;
use crate::text::{Text, clip, pad, wrapped};
use crate::theme::Ink;

/// Width of the column of keys in the help, in characters.
const KEYS: usize = 19;
/// Minimum width at which the help has two columns, and the gap between them, in characters.
const TWO_COLUMNS: usize = 110;
const COLUMN_GAP: usize = 3;
/// Width of the mark before a choice, in characters.
const MARK: usize = 2;
/// Maximum width of the text of a list, in characters.
const MAX_LIST_WIDTH: usize = 80;

/// The area of a centred box for text of this width and height.
fn centred(app: &App, (width, height): (usize, usize)) -> Rect {
    let (columns, rows) = app.size;
    let width = u16::try_from(width + 4).unwrap_or(u16::MAX).min(columns);
    let height = u16::try_from(height + 2).unwrap_or(u16::MAX).min(rows);
    Rect { x: (columns - width) / 2, y: (rows - height) / 2, width, height }
}

/// Draws an empty box; returns its inside.
fn boxed(app: &App, frame: &mut Frame<'_>, area: Rect, title: &str) -> Rect {
    let area = area.intersection(frame.area());
    frame.render_widget(Clear, area);
    let theme = app.settings.theme;
    let block = Block::bordered()
        .border_type(BorderType::Rounded)
        .border_style(theme.style(Ink::Faint))
        .title(styled(Text::new(format!(" {title} "), Ink::Strong), theme));
    let inner = block.inner(area);
    frame.render_widget(block, area);
    Rect { x: inner.x + 1, width: inner.width.saturating_sub(2), ..inner }
}

/// The sections of the help, each as lines wrapped to `width` characters.
fn help_sections(app: &App, width: usize) -> Vec<Vec<Text>> {
    let mut sections = Vec::new();
    for section in BINDINGS.chunk_by(|a, b| a.section == b.section) {
        let mut lines = vec![Text::new(section[0].section, Ink::Strong)];
        for row in section {
            let keys = app.settings.keys.keys(row.action).join(" ");
            for (number, line) in wrapped(row.help, width.saturating_sub(KEYS)).into_iter().enumerate() {
                let keys = if number == 0 { &*keys } else { "" };
                lines.push(Text::new(format!("  {keys:<16} "), Ink::Accent).and(line, Ink::Normal));
            }
        }
        sections.push(lines);
    }
    let mut filter = vec![Text::new("Filter", Ink::Strong)];
    let help = mpwatch_model::filter::HELP.lines().flat_map(|line| hanging(line, width.saturating_sub(2)));
    filter.extend(help.map(|line| Text::plain(format!("  {line}"))));
    sections.push(filter);
    let mouse =
        "click a title to sort, a row to select it and again to open it, a tab to show it; the wheel scrolls";
    let lines = wrapped(mouse, width.saturating_sub(2)).into_iter();
    let title = std::iter::once(Text::new("Mouse", Ink::Strong));
    sections.push(title.chain(lines.map(|line| Text::plain(format!("  {line}")))).collect());
    sections
}

/// Wraps a line of terms with their meaning. If the line is too wide, the meaning follows below the terms.
fn hanging(line: &str, width: usize) -> Vec<String> {
    const INDENT: &str = "      ";
    if line.width() <= width {
        return vec![line.to_owned()];
    }
    let Some((terms, meaning)) = line.rsplit_once("  ").filter(|(terms, _)| !terms.trim().is_empty()) else {
        return wrapped(line.trim_start(), width);
    };
    let below = wrapped(meaning, width.saturating_sub(INDENT.len()));
    let terms = std::iter::once(clip(terms.trim_end(), width));
    terms.chain(below.into_iter().map(|line| format!("{INDENT}{line}"))).collect()
}

/// All lines of the help, on a wide screen in two columns.
pub(crate) fn help_lines(app: &App) -> Vec<Text> {
    let width = usize::from(app.size.0).saturating_sub(4);
    if width < TWO_COLUMNS {
        return below_each_other(help_sections(app, width));
    }
    let column = (width - COLUMN_GAP) / 2;
    let mut left = help_sections(app, column);
    let all: usize = left.iter().map(|section| section.len() + 1).sum();
    let mut height = 0;
    let first = left.iter().take_while(|section| {
        height += section.len() + 1;
        height <= all.div_ceil(2) + 2
    });
    let right = left.split_off(first.count());
    let (left, right) = (below_each_other(left), below_each_other(right));
    let rows = left.len().max(right.len());
    let line = |lines: &[Text], row: usize| lines.get(row).cloned().unwrap_or_default();
    (0..rows)
        .map(|row| {
            line(&left, row).fitted(width - column, false).join(line(&right, row).fitted(column, false))
        })
        .collect()
}

fn below_each_other(sections: Vec<Vec<Text>>) -> Vec<Text> {
    let lines = sections.into_iter().flat_map(|section| section.into_iter().chain([Text::default()]));
    let mut lines: Vec<Text> = lines.collect();
    lines.pop();
    lines
}

pub(super) fn help(app: &App, frame: &mut Frame<'_>, scroll: usize) {
    let lines = help_lines(app);
    let (width, rows) = (usize::from(app.size.0), lines.len());
    let is_cut = rows + 2 > frame.area().height.into();
    let title = if is_cut { "Help (scroll: ↑ ↓ PgUp PgDn)" } else { "Help" };
    let area = boxed(app, frame, centred(app, (width, rows)), title);
    put_lines(app, frame, area, lines.into_iter().skip(scroll));
    scrollbar(app, frame, Rect { width: area.width + 1, ..area }, (rows, scroll));
}

/// The layout of a list.
struct List {
    outer: Rect,
    /// Width of the names.
    names: usize,
    /// For each line: the index of its choice, and the part of the choice's help text on this line.
    lines: Vec<(usize, String)>,
    /// Index of the first visible line.
    offset: usize,
}

/// Lays out a list so that the choice `selected` is visible. Long help texts are wrapped.
fn list_of(app: &App, pick: Pick, selected: usize, choices: &[ListItem]) -> List {
    let names = choices.iter().map(|choice| choice.name.width()).max().unwrap_or(0);
    let before_help = names + MARK + 2;
    let wanted = choices.iter().map(|choice| before_help + choice.help.width()).max().unwrap_or(0);
    let wanted = wanted.max(pick.as_str().len() + 2);
    let width = wanted.min(MAX_LIST_WIDTH).min(usize::from(app.size.0).saturating_sub(4));
    let helps = choices.iter().map(|choice| wrapped(choice.help, width.saturating_sub(before_help)));
    let lines: Vec<(usize, String)> =
        helps.enumerate().flat_map(|(index, help)| help.into_iter().map(move |line| (index, line))).collect();
    let outer = centred(app, (width, lines.len()));
    let page = usize::from(outer.height.saturating_sub(2));
    let offset = lines.partition_point(|(index, _)| *index <= selected).saturating_sub(page);
    List { outer, names, lines, offset }
}

/// The index of the choice at a position of the screen. `None`: the position is outside the choices.
pub(crate) fn line_at(app: &App, pick: Pick, line: usize, (column, row): (u16, u16)) -> Option<usize> {
    let List { outer, lines, offset, .. } = list_of(app, pick, line, &choices(app, pick));
    let is_inside = (outer.left() + 1..outer.right().saturating_sub(1)).contains(&column)
        && (outer.top() + 1..outer.bottom().saturating_sub(1)).contains(&row);
    let line = offset + usize::from(row.checked_sub(outer.top() + 1)?);
    lines.get(line).filter(|_| is_inside).map(|(index, _)| *index)
}

pub(super) fn list(app: &App, frame: &mut Frame<'_>, pick: Pick, line: usize) {
    let choices = choices(app, pick);
    let List { outer, names, lines, offset } = list_of(app, pick, line, &choices);
    let area = boxed(app, frame, outer, pick.as_str());
    let rows = lines.len();
    let mut above = offset.checked_sub(1).map(|last| lines[last].0);
    for ((index, help), y) in lines.into_iter().skip(offset).zip(area.top()..area.bottom()) {
        let choice = &choices[index];
        // Only the first line of a help text has a mark and a name.
        let (mark, name) = match choice.mark {
            _ if above == Some(index) => ("  ", ""),
            Mark::Chosen => ("✓ ", choice.name),
            Mark::IfRoom => ("· ", choice.name),
            Mark::None => ("  ", choice.name),
        };
        above = Some(index);
        let name = format!("{}  ", pad(name, names, false));
        let text = Text::new(mark, Ink::Good).and(name, Ink::Strong).and(help, Ink::Faint);
        let line_area = Rect { y, height: 1, ..area };
        put(app, frame, line_area, text);
        if index == line {
            frame.buffer_mut().set_style(line_area, app.settings.theme.selected());
        }
    }
    scrollbar(app, frame, Rect { width: area.width + 1, ..area }, (rows, offset));
}
