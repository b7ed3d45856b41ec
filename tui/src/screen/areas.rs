// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where everything stands on a screen of a size. Drawing and the mouse share it.

use ratatui::layout::Rect;

use super::app::{App, Tab};
use super::draw::{energy, header};

/// The smallest screen that is of use.
pub(crate) const SMALLEST: (u16, u16) = (60, 10);

/// The parts of the screen, from above; those without height are not there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Areas {
    pub(crate) header: Rect,
    pub(crate) tabs: Rect,
    /// What is missing from the picture.
    pub(crate) alarms: Rect,
    /// Zones, in the energy view.
    pub(crate) head: Rect,
    /// The table, its titles in the first line; or what stands in its place.
    pub(crate) body: Rect,
    /// Findings on the selected connection.
    pub(crate) pane: Rect,
    pub(crate) footer: Rect,
}

impl Areas {
    /// Rows of the table that fit.
    pub(crate) fn page(&self) -> usize {
        usize::from(self.body.height.saturating_sub(1))
    }
}

/// Whether there is room for anything.
pub(crate) fn is_too_small((columns, rows): (u16, u16)) -> bool {
    columns < SMALLEST.0 || rows < SMALLEST.1
}

/// The parts of the screen at present.
pub(crate) fn areas(app: &App) -> Areas {
    let (columns, rows) = app.size;
    let mut top = 0;
    let mut take = |height: u16| {
        let height = height.min(rows.saturating_sub(top));
        let area = Rect { x: 0, y: top, width: columns, height };
        top += height;
        area
    };
    let header = take(1);
    let tabs = take(1);
    let alarms = take(height_of(header::alarms(app).len(), 3));
    let left = rows.saturating_sub(alarms.bottom() + 1);
    let head_wanted = if app.tab == Tab::Energy && app.detail.is_none() { energy::height(app) } else { 0 };
    let head = take(head_wanted.min(left.saturating_sub(6)));
    let left = left - head.height;
    let has_pane = app.detail.is_none() && matches!(app.tab, Tab::Connections | Tab::Energy) && left >= 10;
    let pane_height = match (has_pane, app.tab) {
        (true, Tab::Connections) if left >= 30 => 9,
        (true, Tab::Connections) => 5,
        (true, _) if left >= 20 => 5,
        _ => 0,
    };
    let body = take(left - pane_height);
    let pane = take(pane_height);
    let footer = take(1);
    Areas { header, tabs, alarms, head, body, pane, footer }
}

fn height_of(lines: usize, most: u16) -> u16 {
    u16::try_from(lines).unwrap_or(most).min(most)
}
