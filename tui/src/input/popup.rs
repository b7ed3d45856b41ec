// SPDX-License-Identifier: MIT OR Apache-2.0
//! Actions while the help, or a list from which the user chooses, is open.

use crate::draw::popup::help_lines;
use crate::state::app::App;
use crate::state::choices::{Mark, choices, columns_of, mark_of};
use crate::state::key::Action;
use crate::state::message::{ExportFormat, Request};
use crate::state::view::{Mode, Pick};

impl App {
    pub(super) fn in_help(&mut self, scroll: usize, action: Action) -> Option<Request> {
        let page = usize::from(self.size.1).saturating_sub(4).max(1);
        let max = help_lines(self).len().saturating_sub(page);
        if let Some(scroll) = moved(scroll, action, page, max) {
            self.mode = Mode::Help(scroll);
            return None;
        }
        self.mode = Mode::Table;
        if matches!(action, Action::Help | Action::Back | Action::Open) { None } else { self.act(action) }
    }

    pub(super) fn in_list(&mut self, pick: Pick, line: usize, action: Action) -> Option<Request> {
        let last = choices(self, pick).len().saturating_sub(1);
        match action {
            Action::Reverse if pick == Pick::Sort => {
                self.table_mut().reverse = !self.table().reverse;
                self.rebuild();
            }
            // The space bar (`Pause`) also chooses, as in other lists of check boxes.
            Action::Open | Action::Pause => return self.choose(pick, line),
            Action::Quit => return Some(Request::Quit { keep: false }),
            _ => self.mode = moved(line, action, 10, last).map_or(Mode::Table, |line| Mode::Pick(pick, line)),
        }
        None
    }

    fn choose(&mut self, pick: Pick, line: usize) -> Option<Request> {
        let columns = columns_of(self.tab);
        match pick {
            Pick::Sort => {
                let column = line.checked_sub(1).and_then(|line| columns.get(line));
                self.sort_by(column.map(|column| column.key));
                self.mode = Mode::Table;
            }
            Pick::Columns => {
                let key = columns.get(line)?.key;
                let is_shown = mark_of(self, key) == Mark::Chosen;
                let table = self.table_mut();
                table.columns.retain(|(other, _)| *other != key);
                table.columns.push((key, !is_shown));
            }
            Pick::Export => {
                self.mode = Mode::Table;
                return self.export(*ExportFormat::ALL.get(line)?);
            }
        }
        None
    }

    /// Sorts by a column. If the table is already sorted by this column, reverses the order.
    pub(super) fn sort_by(&mut self, key: Option<&'static str>) {
        let table = self.table_mut();
        table.reverse = table.sort == key && key.is_some() && !table.reverse;
        table.sort = key;
        self.rebuild();
    }
}

/// The position after an action that moves, at most `max`. `None`: the action is not a movement.
fn moved(at: usize, action: Action, page: usize, max: usize) -> Option<usize> {
    Some(match action {
        Action::Up => at.saturating_sub(1),
        Action::Down => (at + 1).min(max),
        Action::PageUp => at.saturating_sub(page),
        Action::PageDown => (at + page).min(max),
        Action::First => 0,
        Action::Last => max,
        _ => return None,
    })
}
