// SPDX-License-Identifier: MIT OR Apache-2.0
//! The area of each part of the screen, for drawing and for the mouse.

use ratatui::layout::Rect;

use super::frame::stack;
use super::{alarms, energy, footer};
use crate::state::app::App;
use crate::state::view::Tab;

/// The smallest usable screen, in columns and rows.
pub(crate) const SMALLEST: (u16, u16) = (60, 10);

/// Maximum number of lines of alarms.
const MAX_ALARMS: usize = 3;

/// Height of the charts below the table, in rows. It changes in steps, so that a new table row rarely moves the charts.
const CHARTS: std::ops::RangeInclusive<usize> = 8..=36;
const CHARTS_STEP: usize = 4;

/// The parts of the screen from top to bottom; a part without height is not shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Areas {
    pub(crate) header: Rect,
    pub(crate) tabs: Rect,
    pub(crate) alarms: Rect,
    /// The zones of the energy view.
    pub(crate) energy: Rect,
    /// The table with its titles in the first line, or the text that replaces it.
    pub(crate) body: Rect,
    /// Charts of the selected row, in the space that the table does not need.
    pub(crate) charts: Rect,
    pub(crate) findings: Rect,
    pub(crate) footer: Rect,
}

impl Areas {
    /// Number of table rows that fit.
    pub(crate) fn page(&self) -> usize {
        usize::from(self.body.height.saturating_sub(1))
    }
}

pub(crate) fn areas(app: &App) -> Areas {
    let (columns, rows) = app.size;
    let mut take = stack(Rect::new(0, 0, columns, rows));
    let header = take(1);
    let tabs = take(1);
    let alarms = take(alarms::lines(app).len().min(MAX_ALARMS));
    let footer_height = footer::lines(app).len();
    let left = usize::from(rows - alarms.bottom()).saturating_sub(footer_height);
    let has_energy = app.tab == Tab::Energy && app.detail.is_none();
    let wanted = if has_energy { energy::lines(app, columns.into()).len() } else { 0 };
    let energy = take(wanted.min(left.saturating_sub(6)));
    let left = left - usize::from(energy.height);
    let findings_height = match app.tab {
        _ if app.detail.is_some() => 0,
        Tab::Connections if left >= 30 => 9,
        Tab::Connections if left >= 20 => 7,
        Tab::Connections if left >= 10 => 5,
        Tab::Energy if left >= 20 => 5,
        _ => 0,
    };
    let charts_height = charts_height(app, left - findings_height);
    let body = take(left - findings_height - charts_height);
    let charts = take(charts_height);
    let findings = take(findings_height);
    let footer = take(footer_height);
    Areas { header, tabs, alarms, energy, body, charts, findings, footer }
}

/// Height of the charts if table and charts together have `left` rows.
fn charts_height(app: &App, left: usize) -> usize {
    let rows = app.rows.len();
    let spare = left.saturating_sub(rows.saturating_add(1)) / CHARTS_STEP * CHARTS_STEP;
    if app.detail.is_some() || rows == 0 || spare < *CHARTS.start() { 0 } else { spare.min(*CHARTS.end()) }
}
