// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where each part of the screen is. Drawing and the mouse share it.

use ratatui::layout::Rect;

use super::{alarms, energy};
use crate::state::app::App;
use crate::state::view::Tab;

/// The smallest usable screen.
pub(crate) const SMALLEST: (u16, u16) = (60, 10);

/// Maximum number of lines of alarms.
const MAX_ALARMS: u16 = 3;

/// The parts of the screen from top to bottom; those without height are not shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Areas {
    pub(crate) header: Rect,
    pub(crate) tabs: Rect,
    pub(crate) alarms: Rect,
    /// The zones of the energy view.
    pub(crate) energy: Rect,
    /// The table with its titles in the first line, or what replaces it.
    pub(crate) body: Rect,
    /// Findings of the selected connection.
    pub(crate) findings: Rect,
    pub(crate) footer: Rect,
}

impl Areas {
    /// Rows of the table that fit.
    pub(crate) fn page(&self) -> usize {
        usize::from(self.body.height.saturating_sub(1))
    }
}

pub(super) fn is_too_small((columns, rows): (u16, u16)) -> bool {
    columns < SMALLEST.0 || rows < SMALLEST.1
}

pub(crate) fn areas(app: &App) -> Areas {
    let (columns, rows) = app.size;
    let mut top = 0;
    let mut take = |height: u16| {
        let height = height.min(rows.saturating_sub(top));
        let area = Rect { x: 0, y: top, width: columns, height };
        top += height;
        area
    };
    let height_of = |lines: usize| u16::try_from(lines).unwrap_or(u16::MAX);
    let header = take(1);
    let tabs = take(1);
    let alarms = take(height_of(alarms::lines(app).len()).min(MAX_ALARMS));
    let left = rows.saturating_sub(alarms.bottom() + 1);
    let has_energy = app.tab == Tab::Energy && app.detail.is_none();
    let wanted = if has_energy { height_of(energy::lines(app, columns.into()).len()) } else { 0 };
    let energy = take(wanted.min(left.saturating_sub(6)));
    let left = left - energy.height;
    let findings_height = match app.tab {
        _ if app.detail.is_some() => 0,
        Tab::Connections if left >= 30 => 9,
        Tab::Connections if left >= 20 => 7,
        Tab::Connections if left >= 10 => 5,
        Tab::Energy if left >= 20 => 5,
        _ => 0,
    };
    let body = take(left - findings_height);
    let findings = take(findings_height);
    let footer = take(1);
    Areas { header, tabs, alarms, energy, body, findings, footer }
}
