// SPDX-License-Identifier: MIT OR Apache-2.0
//! One connection in full: who and where, its subflows, rate and RTT of each over time, what happened, and what is to be said of it.

use mpwatch_model::connection::Connection;
use mpwatch_model::lifecycle::Role;
use mpwatch_model::metric::{Unit, display};
use mpwatch_model::timeline::{ObservedBy, TimelineEvent};
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::symbols::Marker;
use ratatui::widgets::{Axis, Chart, Dataset, GraphType};

use super::super::app::App;
use super::super::areas::areas;
use super::super::finding;
use super::super::flows::{DETAIL, FlowView};
use super::super::history::{SAMPLES, Series};
use super::super::text::Text;
use super::super::theme::Ink;
use super::pane;
use super::table::FlowTable;
use super::{put, put_lines, rule};

/// The parts of it, from above.
struct Parts {
    facts: Rect,
    subflows: Rect,
    findings: Rect,
    charts: Rect,
    timeline: Rect,
}

fn parts(app: &App, area: Rect, connection: &Connection) -> Parts {
    let mut top = area.y;
    let mut take = |height: usize| {
        let left = area.bottom().saturating_sub(top);
        let height = u16::try_from(height).unwrap_or(left).min(left);
        let part = Rect { y: top, height, ..area };
        top += height;
        part
    };
    let rows = usize::from(area.height);
    let facts = take(2);
    let subflows = take((connection.subflows.len() + 1).min(rows / 3).max(2));
    let found = found(app, connection, area.width).len();
    let findings = take((found + 1).min((rows / 5).max(3)));
    let left = usize::from(area.bottom().saturating_sub(findings.bottom()));
    let charts = take(if left >= 11 { (left / 2).clamp(6, 14) } else { 0 });
    let timeline = take(usize::MAX);
    Parts { facts, subflows, findings, charts, timeline }
}

fn found(app: &App, connection: &Connection, width: u16) -> Vec<Text> {
    let joules = |value| app.settings.units.energy(value);
    let found = finding::of(connection, &joules);
    if found.is_empty() {
        return vec![Text::new(" ✓ nothing out of the ordinary", Ink::Good)];
    }
    pane::lines(&found, width.into())
}

/// How far its timeline can be scrolled.
pub(crate) fn most_scroll(app: &App) -> usize {
    let Some(connection) = app.selected() else { return 0 };
    let parts = parts(app, areas(app).body, connection);
    connection.timeline.len().saturating_sub(usize::from(parts.timeline.height.saturating_sub(1)))
}

pub(super) fn draw(app: &App, frame: &mut Frame<'_>, area: Rect) {
    let Some(connection) = app.selected() else {
        let line = Text::new("  This connection is not remembered any more; esc goes back.", Ink::Faint);
        put_lines(app, frame, area, [Text::default(), line]);
        return;
    };
    let parts = parts(app, area, connection);
    put_lines(app, frame, parts.facts, facts(app, connection));
    subflows(app, frame, parts.subflows, connection);
    rule(app, frame, parts.findings, Text::new("what is to be said", Ink::Strong));
    let below =
        Rect { y: parts.findings.y + 1, height: parts.findings.height.saturating_sub(1), ..parts.findings };
    put_lines(app, frame, below, found(app, connection, area.width));
    charts(app, frame, parts.charts, connection);
    timeline(app, frame, parts.timeline, connection);
}

fn facts(app: &App, c: &Connection) -> [Text; 2] {
    let mask = &app.mask;
    let arrow = if c.role == Some(Role::Server) { "←" } else { "→" };
    let [local, remote] =
        [c.local, c.remote].map(|end| end.map_or_else(|| "-".to_owned(), |at| mask.address(at)));
    let process = c.process.map_or_else(
        || "process not known".to_owned(),
        |process| {
            let pid = if mask.is_on() { String::new() } else { format!("/{}", process.pid) };
            format!("{}{pid}", mask.name("process", &process.comm.text()))
        },
    );
    let state = if c.is_open() { c.state.as_str() } else { "closed" };
    let role = c.role.map_or("role not known", Role::as_str);
    let age = display(Unit::Seconds, Some(c.age_s));
    let bytes =
        |value: Option<mpwatch_model::unit::Bytes>| display(Unit::Bytes, value.map(|bytes| bytes.0 as f64));
    let energy = c.energy.and_then(|energy| {
        let tilde = if energy.source.is_measured() { "" } else { "~" };
        let units = app.settings.units;
        let [active, lo, hi] =
            [energy.active?, energy.lo?, energy.hi?].map(|part| units.energy(part.joules()));
        let ratio = energy.j_per_gb.map(|ratio| format!(", {tilde}{ratio:.1} J/GB")).unwrap_or_default();
        let full = format!("  energy {tilde}{active} [{lo} to {hi}]{ratio}, {}", energy.source.as_str());
        Some([full, format!("  energy {tilde}{active}{ratio}")])
    });
    let head = |ends: String| {
        Text::new(c.id.short(), Ink::Strong)
            .and(format!("  {process}  {ends}  "), Ink::Normal)
            .and(format!("{} {state}, {role}, {age}", c.protocol.as_str()), Ink::Faint)
    };
    let numbers = |more: String, energy: String| {
        let sent = format!(
            "sent {}  received {}  sent again {}",
            bytes(c.bytes_sent),
            bytes(c.bytes_received),
            bytes(Some(c.bytes_retransmitted))
        );
        Text::plain(format!("{sent}{more}{energy}"))
    };
    let reinjected = format!("  reinjected {}", bytes(c.bytes_reinjected));
    let [full, short] = energy.unwrap_or_default();
    let remote_only = format!("{arrow} {remote}");
    let width = app.size.0.into();
    [
        Text::first_that_fits([head(format!("{local} {arrow} {remote}")), head(remote_only)], width),
        Text::first_that_fits(
            [
                numbers(reinjected.clone(), full),
                numbers(reinjected, short.clone()),
                numbers(String::new(), short),
            ],
            width,
        ),
    ]
}

fn subflows(app: &App, frame: &mut Frame<'_>, area: Rect, connection: &Connection) {
    let rows = connection.subflows.iter().enumerate();
    let views: Vec<FlowView<'_>> = rows
        .take(usize::from(area.height.saturating_sub(1)))
        .map(|(at, subflow)| {
            let last = at + 1 == connection.subflows.len();
            FlowView { app, connection, subflow: Some((at, subflow)), last, folded: false }
        })
        .collect();
    let table = FlowTable::new(DETAIL, area.width.into(), &views);
    let lines = std::iter::once(table.titles(None)).chain(views.iter().map(|view| table.row(view)));
    put_lines(app, frame, area, lines);
}

/// Rate at the left, RTT at the right; a line for each subflow, in its colour.
fn charts(app: &App, frame: &mut Frame<'_>, area: Rect, connection: &Connection) {
    if area.height < 4 {
        return;
    }
    let half = area.width / 2;
    let left = Rect { width: half.saturating_sub(1), ..area };
    let right = Rect { x: area.x + half, width: area.width - half, ..area };
    let units = app.settings.units;
    chart(app, frame, left, connection, (Series::Rate, "rate", &|value| units.rate(value)));
    chart(app, frame, right, connection, (Series::Rtt, "RTT", &|value| display(Unit::Seconds, Some(value))));
}

type Words<'a> = (Series, &'a str, &'a dyn Fn(f64) -> String);

fn chart(
    app: &App,
    frame: &mut Frame<'_>,
    area: Rect,
    connection: &Connection,
    (series, name, words): Words<'_>,
) {
    let lines: Vec<(usize, Vec<(f64, f64)>)> = connection
        .subflows
        .iter()
        .enumerate()
        .map(|(place, subflow)| {
            let track = app.history.subflow(subflow.id);
            let values = track.map(|track| track.values(series, app.turn())).unwrap_or_default();
            let from = SAMPLES - values.len().min(SAMPLES);
            let points = values.iter().zip(from..).filter(|(value, _)| !value.is_nan());
            (place, points.map(|(value, at)| (at as f64, f64::from(*value))).collect())
        })
        .collect();
    let most = lines.iter().flat_map(|(_, points)| points).map(|(_, value)| *value).fold(0.0, f64::max);
    let first = lines
        .iter()
        .filter_map(|(_, points)| points.first())
        .map(|(at, _)| *at)
        .fold(SAMPLES as f64, f64::min);
    let seconds = (SAMPLES as f64 - first) * app.snapshot().map_or(1.0, |snapshot| snapshot.interval_s);
    let scale = format!("up to {}", words(most));
    let over = format!(", over {}", display(Unit::Seconds, Some(seconds)));
    let title = |by: &str, over: &str| {
        let head = Text::new(format!("{name} "), Ink::Strong).and(by, Ink::Faint);
        let numbered = lines
            .iter()
            .fold(head, |text, (place, _)| text.and(format!("{} ", place + 1), Ink::Path(*place)));
        numbered.and(format!("{scale}{over}"), Ink::Faint)
    };
    let titles = [title("by subflow ", &over), title("by subflow ", ""), title("", "")];
    let room = usize::from(area.width).saturating_sub(4);
    rule(app, frame, Rect { height: 1, ..area }, Text::first_that_fits(titles, room));
    let inside = Rect { y: area.y + 1, height: area.height - 1, ..area };
    if most <= 0.0 {
        put(app, frame, inside, Text::new("  nothing to draw yet", Ink::Faint));
        return;
    }
    let theme = app.settings.theme;
    // Where there are no colours, each line has another mark.
    let marker = |place: usize| match (theme, place % 3) {
        (super::super::theme::Theme::Mono, 1) => Marker::Dot,
        (super::super::theme::Theme::Mono, 2) => Marker::Block,
        _ => Marker::Braille,
    };
    let datasets = lines.iter().map(|(place, points)| {
        Dataset::default()
            .data(points)
            .marker(marker(*place))
            .graph_type(GraphType::Line)
            .style(theme.style(Ink::Path(*place)))
    });
    let chart = Chart::new(datasets.collect())
        .x_axis(Axis::default().bounds([first.min(SAMPLES as f64 - 10.0), SAMPLES as f64 - 1.0]))
        .y_axis(Axis::default().bounds([0.0, most * 1.05]));
    frame.render_widget(chart, inside);
}

fn is_trouble(what: &TimelineEvent) -> bool {
    match what {
        TimelineEvent::SubflowStale { stale, .. } => *stale,
        TimelineEvent::SubflowClosed { reason, .. } => reason.is_failure(),
        TimelineEvent::Stalled { .. } | TimelineEvent::FellBack { .. } => true,
        _ => false,
    }
}

/// The latest at the bottom, in view at first.
fn timeline(app: &App, frame: &mut Frame<'_>, area: Rect, connection: &Connection) {
    if area.height < 2 {
        return;
    }
    let page = usize::from(area.height - 1);
    let entries = &connection.timeline;
    let most = entries.len().saturating_sub(page);
    let scroll = most - app.detail.map_or(0, |detail| detail.scroll).min(most);
    let from = if connection.opened_at.is_some() { "its opening" } else { "when mpwatch first saw it" };
    let where_in = if most > 0 {
        format!("  ({} to {} of {})", scroll + 1, scroll + page, entries.len())
    } else {
        String::new()
    };
    rule(
        app,
        frame,
        area,
        Text::new("what happened", Ink::Strong).and(format!(", from {from}{where_in}"), Ink::Faint),
    );
    let lines = entries.iter().skip(scroll).take(page).map(|entry| {
        let place =
            |id| connection.subflow_number(id).map_or_else(|| "?".to_owned(), |place| place.to_string());
        let sentence = match (&entry.event, app.mask.is_on()) {
            (TimelineEvent::PeerAddressAnnounced { address_id, .. }, true) => {
                format!("peer announced an address (id {address_id})")
            }
            (what, _) => what.sentence(place),
        };
        let (mark, ink) = if is_trouble(&entry.event) { ("✗", Ink::Alarm) } else { (" ", Ink::Normal) };
        let when = crate::cell::pad(&finding::offset(connection, entry.at), 11, true);
        let known =
            if entry.source == ObservedBy::Sampled { "  (by sampling: up to one interval late)" } else { "" };
        Text::new(format!(" {mark} {when}  "), ink).and(sentence, ink).and(known, Ink::Faint)
    });
    let below = Rect { y: area.y + 1, height: area.height - 1, ..area };
    put_lines(app, frame, below, lines);
}
