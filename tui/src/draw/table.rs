// SPDX-License-Identifier: MIT OR Apache-2.0
//! Draws the table. Only the visible rows are built.

use ratatui::Frame;
use ratatui::layout::Rect;

use super::areas::areas;
use super::frame::{put, scrollbar};
use crate::aggregate::ShownAggregate;
use crate::columns::{Row, Subject, Table, search_text};
use crate::state::app::{App, Rows};
use crate::text::Text;
use crate::theme::Ink;

/// The aggregates on the screen.
fn aggregates(app: &App, area: Rect) -> Vec<ShownAggregate> {
    let Rows::Aggregates(all) = &app.rows else { return Vec::new() };
    on_screen(app, area).map_while(|row| all.shown(app.context(), row)).collect()
}

fn on_screen(app: &App, area: Rect) -> std::ops::Range<usize> {
    let offset = app.table().offset;
    offset..offset + usize::from(area.height.saturating_sub(1))
}

/// The rows on the screen. `aggregates`: the result of the function [`aggregates`].
fn visible<'a>(app: &'a App, area: Rect, aggregates: &'a [ShownAggregate]) -> Vec<Row<'a>> {
    if let Rows::Flows(flows) = &app.rows {
        let rows = on_screen(app, area).map_while(|row| flows.get(row));
        return rows.filter_map(|row| app.flow(*row)).collect();
    }
    let subject = |shown: &'a ShownAggregate| Subject::Aggregate {
        sums: &shown.sums,
        rates: &shown.rates,
        recent: 0.0,
    };
    aggregates.iter().map(|shown| Row { context: app.context(), subject: subject(shown) }).collect()
}

fn table(app: &App, area: Rect, rows: &[Row<'_>]) -> Table {
    Table::new(&app.columns(), usize::from(area.width).saturating_sub(2), rows)
}

pub(super) fn draw(app: &App, frame: &mut Frame<'_>, area: Rect) {
    let aggregates = aggregates(app, area);
    let rows = visible(app, area, &aggregates);
    let table = table(app, area, &rows);
    let state = app.table();
    let titles = table.titles(Some((state.sort.unwrap_or(app.default_sort()), state.reverse)));
    put(app, frame, Rect { x: area.x + 1, width: area.width - 1, ..area }, titles);
    for ((number, row), y) in rows.iter().enumerate().zip(area.top() + 1..area.bottom()) {
        let line = Rect { y, height: 1, ..area };
        let is_selected = state.offset + number == state.index;
        let mark = if is_selected { Text::new("▌", Ink::Accent) } else { Text::plain(" ") };
        put(app, frame, line, mark.join(table.row(row)));
        if is_selected {
            let cells = Rect { x: line.x + 1, width: line.width - 1, ..line };
            frame.buffer_mut().set_style(cells, app.settings.theme.selected());
        }
    }
    let below = Rect { y: area.y + 1, height: area.height.saturating_sub(1), ..area };
    scrollbar(app, frame, below, (app.rows.len(), state.offset));
}

/// The names of a row, for the search.
pub(crate) fn row_text(app: &App, row: usize) -> String {
    match &app.rows {
        Rows::None => String::new(),
        Rows::Flows(rows) => {
            let row = rows.get(row).and_then(|row| app.flow(*row));
            row.map(|row| search_text(&row)).unwrap_or_default()
        }
        Rows::Aggregates(all) => {
            let sums = all.empty(row);
            sums.map(|sums| search_text(&Row::aggregate(app.context(), &sums, 0.0))).unwrap_or_default()
        }
    }
}

/// The table column whose title is at the screen column `x`.
pub(crate) fn column_at(app: &App, x: u16) -> Option<&'static str> {
    let area = areas(app).body;
    table(app, area, &visible(app, area, &aggregates(app, area))).column_at(usize::from(x).checked_sub(1)?)
}
