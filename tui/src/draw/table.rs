// SPDX-License-Identifier: MIT OR Apache-2.0
//! The table. Only the rows on the screen are made.

use ratatui::Frame;
use ratatui::layout::Rect;

use super::areas::areas;
use super::frame::{put, scrollbar};
use crate::columns::{Row, Table, search_text};
use crate::state::app::{App, Rows};
use crate::text::Text;
use crate::theme::Ink;

/// The rows on the screen.
fn visible(app: &App, area: Rect) -> Vec<Row<'_>> {
    let page = usize::from(area.height.saturating_sub(1));
    let offset = app.table().offset;
    let rows = offset..offset + page;
    match &app.rows {
        Rows::None => Vec::new(),
        Rows::Flows(flows) => rows.map_while(|row| flows.get(row)).filter_map(|row| app.flow(row)).collect(),
        Rows::Aggregates(all) => rows.map_while(|row| all.row(app.context(), row)).collect(),
    }
}

fn table(app: &App, area: Rect, rows: &[Row<'_>]) -> Table {
    Table::new(&app.columns(), usize::from(area.width).saturating_sub(2), rows)
}

pub(super) fn draw(app: &App, frame: &mut Frame<'_>, area: Rect) {
    let rows = visible(app, area);
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
            let row = rows.get(row).and_then(|row| app.flow(row));
            row.map(|row| search_text(&row)).unwrap_or_default()
        }
        Rows::Aggregates(all) => {
            let sums = all.empty(row);
            sums.map(|sums| search_text(&Row::aggregate(app.context(), &sums, 0.0))).unwrap_or_default()
        }
    }
}

/// The column whose title is at a column of the screen.
pub(crate) fn column_at(app: &App, x: u16) -> Option<&'static str> {
    let area = areas(app).body;
    table(app, area, &visible(app, area)).column_at(usize::from(x).checked_sub(1)?)
}
