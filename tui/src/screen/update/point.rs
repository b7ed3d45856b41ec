// SPDX-License-Identifier: MIT OR Apache-2.0
//! Getting at a row: with the mouse, or by its text.

use ratatui::crossterm::event::{MouseButton, MouseEvent, MouseEventKind};

use super::super::app::{App, Mode, Request};
use super::super::areas::areas;
use super::super::draw::{header, popup, table};
use super::super::key::Action;

impl App {
    pub(super) fn mouse(&mut self, event: MouseEvent) -> Option<Request> {
        let (column, row) = (event.column, event.row);
        match (event.kind, &self.mode) {
            (MouseEventKind::ScrollDown, Mode::Table) => self.step(3),
            (MouseEventKind::ScrollUp, Mode::Table) => self.step(-3),
            (MouseEventKind::ScrollDown, Mode::Help(_) | Mode::Pick(..)) => {
                return self.act_in_mode(Action::Down);
            }
            (MouseEventKind::ScrollUp, Mode::Help(_) | Mode::Pick(..)) => {
                return self.act_in_mode(Action::Up);
            }
            (MouseEventKind::Down(MouseButton::Left), Mode::Table) => self.click(column, row),
            (MouseEventKind::Down(MouseButton::Left), &Mode::Pick(pick, place)) => {
                match popup::choice_at(self, pick, place, (column, row)) {
                    Some(line) => {
                        self.mode = Mode::Pick(pick, line);
                        return self.in_list(pick, line, Action::Open);
                    }
                    None => self.mode = Mode::Table,
                }
            }
            (MouseEventKind::Down(MouseButton::Left), Mode::Help(_)) => self.mode = Mode::Table,
            _ => {}
        }
        None
    }

    fn act_in_mode(&mut self, action: Action) -> Option<Request> {
        match self.mode {
            Mode::Help(scroll) => self.in_help(scroll, action),
            Mode::Pick(pick, place) => self.in_list(pick, place, action),
            _ => self.act(action),
        }
    }

    fn click(&mut self, column: u16, row: u16) {
        let areas = areas(self);
        if row == areas.tabs.y {
            if let Some(tab) = header::tab_at(column) {
                self.go(tab);
            }
        } else if self.detail.is_none() && row == areas.body.y {
            if let Some(key) = table::column_at(self, column) {
                self.sort_by(Some(key));
            }
        } else if self.detail.is_none() && row > areas.body.y && row < areas.body.bottom() {
            let index = self.table().offset + usize::from(row - areas.body.y - 1);
            if index < self.rows.len() {
                // Once more on the same row opens it.
                if index == self.table().index {
                    self.open();
                } else {
                    self.select(index);
                }
            }
        }
    }

    /// The next row, or the one before, that has the text that is searched for.
    pub(super) fn hit(&mut self, forward: bool, from_here: bool) {
        if self.search.is_empty() || self.detail.is_some() {
            return;
        }
        let rows = self.rows.len();
        let wanted = self.search.to_lowercase();
        let start = self.table().index;
        let candidates = (0..rows).map(|step| {
            let step = step + usize::from(!from_here);
            if forward { (start + step) % rows } else { (start + rows - step % rows) % rows }
        });
        let found =
            candidates.into_iter().find(|&row| table::row_text(self, row).to_lowercase().contains(&wanted));
        match found {
            Some(row) => self.select(row),
            None => self.say(&format!("`{}` is in no row", self.search)),
        }
    }
}
