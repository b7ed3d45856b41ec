// SPDX-License-Identifier: MIT OR Apache-2.0
//! Draws the state: reads it and changes nothing. One file a part of the screen.

pub(crate) mod detail;
pub(crate) mod energy;
mod footer;
pub(crate) mod header;
pub(crate) mod health;
mod pane;
pub(crate) mod popup;
pub(crate) mod table;
mod words;

use ratatui::Frame;
use ratatui::layout::Rect;

use super::app::{App, Link, Mode, Tab};
use super::areas::{SMALLEST, areas, is_too_small};
use super::key::Action;
use super::text::Text;
use super::theme::Ink;

/// Draws everything.
pub fn draw(app: &App, frame: &mut Frame<'_>) {
    if is_too_small(app.size) {
        too_small(app, frame);
        return;
    }
    let areas = areas(app);
    header::draw(app, frame, &areas);
    if let Link::Blocked(why) = &app.link {
        words::blocked(app, frame, areas.body.union(areas.pane), why);
    } else if app.snapshot().is_none() {
        words::waiting(app, frame, areas.body);
    } else if app.detail.is_some() {
        detail::draw(app, frame, areas.body);
    } else {
        view(app, frame, &areas);
    }
    footer::draw(app, frame, areas.footer);
    match &app.mode {
        Mode::Help(scroll) => popup::help(app, frame, *scroll),
        Mode::Pick(pick, place) => popup::list(app, frame, *pick, *place),
        Mode::Table | Mode::Type(..) => {}
    }
}

fn view(app: &App, frame: &mut Frame<'_>, areas: &super::areas::Areas) {
    if app.tab == Tab::Energy {
        energy::draw(app, frame, areas.head);
    }
    if app.tab == Tab::Health {
        health::draw(app, frame, areas.body);
    } else if app.rows.len() == 0 {
        words::no_rows(app, frame, areas.body.union(areas.pane));
    } else {
        table::draw(app, frame, areas.body);
        pane::draw(app, frame, areas.pane);
    }
}

fn too_small(app: &App, frame: &mut Frame<'_>) {
    let (columns, rows) = app.size;
    let lines = [
        format!("This terminal is {columns}x{rows}."),
        format!("mpwatch needs {}x{}.", SMALLEST.0, SMALLEST.1),
        format!("{} quits.", app.settings.keys.key(Action::Quit)),
    ];
    let area = frame.area();
    for (line, y) in lines.iter().zip(area.top()..area.bottom()) {
        put(app, frame, Rect { y, height: 1, ..area }, Text::plain(line.clone()));
    }
}

/// Writes a line of text into the first line of an area.
fn put(app: &App, frame: &mut Frame<'_>, area: Rect, text: Text) {
    let area = Rect { height: area.height.min(1), ..area }.intersection(frame.area());
    let line = text.clipped(area.width.into()).line(app.settings.theme);
    frame.render_widget(line, area);
}

/// Writes lines from the top of an area on; what does not fit is left out.
fn put_lines(app: &App, frame: &mut Frame<'_>, area: Rect, lines: impl IntoIterator<Item = Text>) {
    for (line, y) in lines.into_iter().zip(area.top()..area.bottom()) {
        put(app, frame, Rect { y, height: 1, ..area }, line);
    }
}

/// A line with a title in it, to part what is above from what is below.
fn rule(app: &App, frame: &mut Frame<'_>, area: Rect, title: Text) {
    let width = usize::from(area.width);
    let title = title.clipped(width.saturating_sub(4));
    let rest = width.saturating_sub(title.width() + 3);
    let mut line = Text::new("─ ", Ink::Faint);
    line.0.extend(title.0);
    put(app, frame, area, line.and(format!(" {}", "─".repeat(rest)), Ink::Faint));
}

/// Where in all rows an area is whose first row is `offset`; only where not all fit.
fn scrollbar(app: &App, frame: &mut Frame<'_>, area: Rect, (rows, offset): (usize, usize)) {
    let page = usize::from(area.height);
    if rows <= page || page == 0 {
        return;
    }
    let thumb = (page * page / rows).max(1);
    let top = offset * (page - thumb) / (rows - page);
    for (line, y) in (area.top()..area.bottom()).enumerate() {
        let inside = (top..top + thumb).contains(&line);
        let text = if inside { Text::new("┃", Ink::Normal) } else { Text::new("│", Ink::Faint) };
        put(app, frame, Rect { x: area.right() - 1, y, width: 1, height: 1 }, text);
    }
}
