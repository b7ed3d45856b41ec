// SPDX-License-Identifier: MIT OR Apache-2.0
//! The table: only the rows that are on the screen are made. Columns go by their rank when there is no room for all.

use ratatui::Frame;
use ratatui::layout::Rect;

use super::super::app::App;
use super::super::areas::areas;
use super::super::columns::{Choice, Column, shown, usual_sort, wish};
use super::super::flows::{FLOW_COLUMNS, FlowColumn};
use super::super::rows::{Rows, find};
use super::super::sums::{SUM_COLUMNS, SumColumn, SumView};
use super::super::text::Text;
use super::super::theme::{Ink, Theme};
use super::{put, scrollbar};
use crate::layout::{GAP, Wish, fit};

/// A column with its width.
pub(crate) struct Fitted<'a, T: ?Sized, O: ?Sized> {
    pub(crate) column: &'a Column<T, O>,
    pub(crate) width: usize,
}

/// The columns that there is room for. `natural` says how wide a column's cells are.
fn fitted<'a, T: ?Sized, O: ?Sized>(
    columns: &'a [Column<T, O>],
    choices: &[Choice],
    room: usize,
    natural: impl Fn(&Column<T, O>) -> usize,
) -> Vec<Fitted<'a, T, O>> {
    let chosen: Vec<(&Column<T, O>, Choice)> =
        choices.iter().filter_map(|choice| Some((find(columns, choice.key)?, *choice))).collect();
    let wishes: Vec<Wish> =
        chosen.iter().map(|(column, choice)| wish(column, *choice, natural(column))).collect();
    let widths = fit(&wishes, room);
    let pairs = chosen.into_iter().zip(widths).filter(|(_, width)| *width > 0);
    pairs.map(|((column, _), width)| Fitted { column, width }).collect()
}

/// As wide as text can be asked to be.
const UNLIMITED: usize = 120;

/// Some rows of flows as lines, and their titles: also for a connection's detail.
pub(crate) struct FlowTable<'a> {
    columns: Vec<Fitted<'a, super::super::flows::TextFn, super::super::flows::OrderFn>>,
}

impl<'a> FlowTable<'a> {
    pub(crate) fn new(choices: &[Choice], room: usize, views: &[super::super::flows::FlowView<'_>]) -> Self {
        let columns: &'a [FlowColumn] = &FLOW_COLUMNS;
        let natural = |column: &FlowColumn| {
            views.iter().map(|view| (column.text)(view, UNLIMITED).width()).max().unwrap_or(0)
        };
        Self { columns: fitted(columns, choices, room, natural) }
    }

    pub(crate) fn titles(&self, sort: Option<(&str, bool)>) -> Text {
        titles(&self.columns, sort)
    }

    pub(crate) fn row(&self, view: &super::super::flows::FlowView<'_>) -> Text {
        let cells = self.columns.iter().map(|one| {
            let text = (one.column.text)(view, one.width);
            let kept = matches!(one.column.key, "flow" | "rates" | "share");
            let text = if view.is_over() && !kept { text.all(Ink::Faint) } else { text };
            text.fitted(one.width, one.column.number)
        });
        joined(cells)
    }
}

fn joined(cells: impl Iterator<Item = Text>) -> Text {
    let mut line = Text::default();
    for cell in cells {
        if !line.0.is_empty() {
            line = line.and(" ".repeat(GAP), Ink::Normal);
        }
        line.0.extend(cell.0);
    }
    line
}

fn titles<T: ?Sized, O: ?Sized>(columns: &[Fitted<'_, T, O>], sort: Option<(&str, bool)>) -> Text {
    let cells = columns.iter().map(|one| {
        let (mark, ink) = match sort {
            Some((key, reverse)) if key == one.column.key => (if reverse { "▲" } else { "▼" }, Ink::Accent),
            _ => ("", Ink::Strong),
        };
        let title = one.column.title;
        let forms = [format!("{title}{mark}"), title.to_owned()];
        Text::first_that_fits(forms.map(|form| Text::new(form, ink)), one.width)
            .fitted(one.width, one.column.number)
    });
    joined(cells)
}

/// What is sorted by, for the titles.
fn sort_of(app: &App) -> (&'static str, bool) {
    let state = app.table();
    (state.sort.unwrap_or(usual_sort(app)), state.reverse)
}

/// The table as lines: titles, then the rows that are on the screen.
fn lines(app: &App, area: Rect) -> (Text, Vec<Text>) {
    let page = usize::from(area.height.saturating_sub(1));
    let (room, offset) = (usize::from(area.width).saturating_sub(2), app.table().offset);
    let choices = shown(app, app.tab);
    let sort = Some(sort_of(app));
    match &app.rows {
        Rows::None => (Text::default(), Vec::new()),
        Rows::Flows(rows) => {
            let visible = (offset..offset + page).map_while(|row| rows.get(row));
            let views: Vec<_> = visible.filter_map(|row| row.view(app)).collect();
            let table = FlowTable::new(&choices, room, &views);
            (table.titles(sort), views.iter().map(|view| table.row(view)).collect())
        }
        Rows::Sums(sums) => {
            let columns: &[SumColumn] = &SUM_COLUMNS;
            let views: Vec<SumView<'_>> =
                (offset..offset + page).map_while(|row| sums.view(app, row)).collect();
            let natural = |column: &SumColumn| {
                views.iter().map(|view| (column.text)(view, UNLIMITED).width()).max().unwrap_or(0)
            };
            let fitted = fitted(columns, &choices, room, natural);
            let row = |view: &SumView<'_>| {
                let cell = |one: &Fitted<'_, _, _>| {
                    let column: &SumColumn = one.column;
                    (column.text)(view, one.width).fitted(one.width, column.number)
                };
                joined(fitted.iter().map(cell))
            };
            (titles(&fitted, sort), views.iter().map(row).collect())
        }
    }
}

pub(super) fn draw(app: &App, frame: &mut Frame<'_>, area: Rect) {
    let (titles, rows) = lines(app, area);
    put(app, frame, Rect { x: area.x + 1, width: area.width - 1, ..area }, titles);
    for ((row, text), y) in rows.into_iter().enumerate().zip(area.top() + 1..area.bottom()) {
        let line = Rect { y, height: 1, ..area };
        let selected = app.table().offset + row == app.table().index;
        let mark = if selected { Text::new("▌", Ink::Accent) } else { Text::plain(" ") };
        let mut whole = mark;
        whole.0.extend(text.0);
        put(app, frame, line, whole);
        if selected {
            let cells = Rect { x: line.x + 1, width: line.width - 1, ..line };
            frame.buffer_mut().set_style(cells, Theme::selected());
        }
    }
    let below = Rect { y: area.y + 1, height: area.height.saturating_sub(1), ..area };
    scrollbar(app, frame, below, (app.rows.len(), app.table().offset));
}

/// All of a row's text, for the search.
pub(crate) fn row_text(app: &App, row: usize) -> String {
    match &app.rows {
        Rows::None => String::new(),
        Rows::Flows(rows) => {
            let view = rows.get(row).and_then(|row| row.view(app));
            let text = |view| {
                let cells = ["flow", "netns", "state", "cgroup", "bottleneck"];
                let columns = cells.iter().filter_map(|key| find(&FLOW_COLUMNS, key));
                columns.map(|column| (column.text)(&view, UNLIMITED).string()).collect::<Vec<_>>().join(" ")
            };
            view.map(text).unwrap_or_default()
        }
        Rows::Sums(sums) => sums.names(app, row).join(" "),
    }
}

/// The column whose title stands in a column of the screen.
pub(crate) fn column_at(app: &App, x: u16) -> Option<&'static str> {
    let area = areas(app).body;
    let (titles, _) = lines(app, area);
    let mut left = 1;
    for (text, _) in titles.0 {
        let width = unicode_width::UnicodeWidthStr::width(text.as_str());
        if (left..left + width).contains(&usize::from(x)) {
            let title = text.trim().trim_end_matches(['▼', '▲']).to_owned();
            return super::super::columns::of_tab(app.tab)
                .into_iter()
                .find(|c| c.title == title)
                .map(|c| c.key);
        }
        left += width;
    }
    None
}
