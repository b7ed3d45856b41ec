// SPDX-License-Identifier: MIT OR Apache-2.0
//! The effect of mouse events.

use ratatui::crossterm::event::{MouseButton, MouseEvent, MouseEventKind};

use crate::draw::areas::areas;
use crate::draw::header::tab_at;
use crate::draw::popup::line_at;
use crate::draw::table::column_at;
use crate::state::app::App;
use crate::state::key::Action;
use crate::state::message::Request;
use crate::state::view::Mode;

/// Number of rows by which a step of the wheel scrolls.
const WHEEL: isize = 3;

impl App {
    pub(super) fn mouse(&mut self, event: MouseEvent) -> Option<Request> {
        let at = (event.column, event.row);
        let is_down = event.kind == MouseEventKind::ScrollDown;
        match (event.kind, &self.mode) {
            (MouseEventKind::ScrollDown | MouseEventKind::ScrollUp, Mode::Table) => {
                self.step(if is_down { WHEEL } else { -WHEEL });
            }
            (MouseEventKind::ScrollDown | MouseEventKind::ScrollUp, Mode::Help(_) | Mode::Pick(..)) => {
                return self.act_in_mode(if is_down { Action::Down } else { Action::Up });
            }
            (MouseEventKind::Down(MouseButton::Left), Mode::Table) => self.click(at),
            (MouseEventKind::Down(MouseButton::Left), &Mode::Pick(pick, line)) => {
                match line_at(self, pick, line, at) {
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

    fn click(&mut self, (column, row): (u16, u16)) {
        let areas = areas(self);
        if row == areas.tabs.y {
            if let Some(tab) = tab_at(column) {
                self.show_tab(tab);
            }
        } else if self.detail.is_none() && row == areas.body.y {
            if let Some(key) = column_at(self, column) {
                self.sort_by(Some(key));
            }
        } else if self.detail.is_none() && row > areas.body.y && row < areas.body.bottom() {
            let index = self.table().offset + usize::from(row - areas.body.y - 1);
            if index < self.rows.len() {
                // A click on the selected row opens it.
                if index == self.table().index {
                    self.open();
                } else {
                    self.select(index);
                }
            }
        }
    }
}
