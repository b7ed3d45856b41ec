// SPDX-License-Identifier: MIT OR Apache-2.0
//! The whole screen.

use ratatui::Frame;

use super::areas::{Areas, SMALLEST, areas};
use super::frame::put_lines;
use super::{charts, detail, energy, findings, footer, header, health, placeholder, popup, table};
use crate::ascii;
use crate::state::app::App;
use crate::state::key::Action;
use crate::state::message::Link;
use crate::state::view::{Mode, Tab};
use crate::text::Text;

/// Draws the whole screen. Draws nothing if the terminal was resized and `app` has not processed the event yet.
pub fn draw(app: &App, frame: &mut Frame<'_>) {
    if app.size != (frame.area().width, frame.area().height) {
        return;
    }
    parts(app, frame);
    if app.settings.ascii {
        ascii::replace(frame.buffer_mut());
    }
}

fn parts(app: &App, frame: &mut Frame<'_>) {
    if app.size.0 < SMALLEST.0 || app.size.1 < SMALLEST.1 {
        too_small(app, frame);
        return;
    }
    let areas = areas(app);
    header::draw(app, frame, &areas);
    let below_tabs = areas.body.union(areas.charts).union(areas.findings);
    if let Link::Blocked(why) = &app.link {
        placeholder::blocked(app, frame, below_tabs, why);
    } else if app.snapshot().is_none() {
        placeholder::waiting(app, frame, areas.body);
    } else if app.detail.is_some() {
        detail::draw(app, frame, areas.body);
    } else {
        view(app, frame, &areas);
    }
    footer::draw(app, frame, areas.footer);
    match &app.mode {
        Mode::Help(scroll) => popup::help(app, frame, *scroll),
        Mode::Pick(pick, line) => popup::list(app, frame, *pick, *line),
        Mode::Table | Mode::Type(..) => {}
    }
}

fn view(app: &App, frame: &mut Frame<'_>, areas: &Areas) {
    if app.tab == Tab::Energy {
        put_lines(app, frame, areas.energy, energy::lines(app, areas.energy.width.into()));
    }
    if app.tab == Tab::Health {
        health::draw(app, frame, areas.body);
    } else if app.rows.len() == 0 {
        placeholder::no_rows(app, frame, areas.body.union(areas.charts).union(areas.findings));
    } else {
        table::draw(app, frame, areas.body);
        charts::draw_selection(app, frame, areas.charts);
        findings::draw(app, frame, areas.findings);
    }
}

fn too_small(app: &App, frame: &mut Frame<'_>) {
    let (columns, rows) = app.size;
    let lines = [
        format!("This terminal is {columns}x{rows}."),
        format!("mpwatch needs {}x{}.", SMALLEST.0, SMALLEST.1),
        format!("{} quits.", app.settings.keys.key(Action::Quit)),
    ];
    put_lines(app, frame, frame.area(), lines.map(Text::plain));
}
