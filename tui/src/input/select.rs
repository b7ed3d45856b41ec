// SPDX-License-Identifier: MIT OR Apache-2.0
//! Selects rows and scrolls the table.

use std::mem;

use crate::draw::areas::areas;
use crate::draw::table::row_text;
use crate::draw::{detail, health};
use crate::state::app::App;
use crate::state::view::Tab;

impl App {
    /// Builds the rows again and finds the previously selected row among them.
    pub(super) fn rebuild(&mut self) {
        let before = mem::take(&mut self.rows);
        self.rows = self.build_rows(before);
        let found = self.table().selected.and_then(|key| self.row_of(&key));
        let last = self.rows.len().saturating_sub(1);
        let index = match found {
            // Until the user selects a row, the selection follows the top of the table.
            _ if !self.table().is_chosen => 0,
            Some(row) => row,
            None => self.table().index.min(last),
        };
        let key = self.key(index);
        let table = self.table_mut();
        table.index = index;
        table.selected = key;
        self.keep_in_view();
    }

    pub(super) fn page(&self) -> isize {
        isize::try_from(areas(self).page().max(2) - 1).unwrap_or(1)
    }

    /// Moves the selection by `rows`, or scrolls a view without a selection.
    pub(super) fn step(&mut self, rows: isize) {
        if let Some(mut shown) = self.detail {
            let scroll = shown.scroll.saturating_add_signed(rows.saturating_neg());
            shown.scroll = scroll.min(detail::max_scroll(self));
            self.detail = Some(shown);
        } else if self.tab == Tab::Health {
            let max = health::max_scroll(self);
            let table = self.table_mut();
            table.offset = table.offset.saturating_add_signed(rows).min(max);
        } else {
            let last = self.rows.len().saturating_sub(1);
            self.select(self.table().index.saturating_add_signed(rows).min(last));
        }
    }

    pub(super) fn select(&mut self, index: usize) {
        let key = self.key(index);
        let table = self.table_mut();
        table.index = index;
        table.selected = key;
        table.is_chosen = true;
        self.keep_in_view();
    }

    /// Scrolls the table so that the selected row is on the screen.
    pub(super) fn keep_in_view(&mut self) {
        if self.tab == Tab::Health {
            return;
        }
        let page = areas(self).page().max(1);
        let rows = self.rows.len();
        let table = self.table_mut();
        table.offset = table.offset.clamp((table.index + 1).saturating_sub(page), table.index);
        table.offset = table.offset.min(rows.saturating_sub(page));
    }

    /// Selects the next or previous row whose names contain the search text. `from_here`: the selected row is tried first.
    pub(super) fn find_row(&mut self, forward: bool, from_here: bool) {
        if self.search.is_empty() || self.detail.is_some() {
            return;
        }
        let rows = self.rows.len();
        let wanted = self.search.to_lowercase();
        let start = self.table().index;
        let mut candidates = (0..rows).map(|step| {
            let step = step + usize::from(!from_here);
            if forward { (start + step) % rows } else { (start + rows - step % rows) % rows }
        });
        match candidates.find(|&row| row_text(self, row).to_lowercase().contains(&wanted)) {
            Some(row) => self.select(row),
            None => self.notify(&format!("no row contains `{}`", self.search)),
        }
    }
}
