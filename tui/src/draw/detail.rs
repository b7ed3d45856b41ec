// SPDX-License-Identifier: MIT OR Apache-2.0
//! The detail view of one connection: its end points and totals, its subflows, findings, rate and RTT over time, and its timeline.

use mpwatch_model::flow::connection::Connection;
use mpwatch_model::flow::outage::{is_failure, outages};
use mpwatch_model::flow::timeline::{ObservedBy, TimelineEntry, TimelineEvent, clock_format};
use mpwatch_model::kernel::lifecycle::Role;
use mpwatch_model::metric::{Unit, display};
use mpwatch_model::unit::Bytes;
use ratatui::Frame;
use ratatui::layout::Rect;

use super::areas::areas;
use super::frame::{put_lines, rule, stack};
use super::{charts, findings};
use crate::columns::{Choice, DETAIL, Row, Subject, Table, full_names};
use crate::state::app::App;
use crate::text::{Text, pad};
use crate::theme::Ink;

struct Parts {
    facts: Rect,
    subflows: Rect,
    findings: Rect,
    charts: Rect,
    timeline: Rect,
}

fn parts(app: &App, area: Rect, connection: &Connection) -> Parts {
    let mut take = stack(area);
    let rows = usize::from(area.height);
    // On a screen of 24 rows, the charts need the row.
    let has_time = rows > 24 && connection.time_account().is_some();
    let facts = take(2 + usize::from(has_time));
    let subflows = take((connection.subflows.len() + 1).min(rows / 3).max(2));
    let found = findings::lines(app, connection, area.width.into()).len();
    let findings = take((found + 1).min((rows / 5).max(3)));
    let left = usize::from(area.bottom().saturating_sub(findings.bottom()));
    let unused = left.saturating_sub(connection.timeline.len() + 1);
    let charts = take(if left >= 11 { unused.max(left / 2) } else { 0 });
    let timeline = take(usize::MAX);
    Parts { facts, subflows, findings, charts, timeline }
}

/// Maximum scroll offset of the timeline.
pub(crate) fn max_scroll(app: &App) -> usize {
    let Some(connection) = app.selected() else { return 0 };
    let parts = parts(app, areas(app).body, connection);
    connection.timeline.len().saturating_sub(usize::from(parts.timeline.height.saturating_sub(1)))
}

pub(super) fn draw(app: &App, frame: &mut Frame<'_>, area: Rect) {
    let Some(connection) = app.selected() else {
        let line = Text::new("  This connection is no longer remembered; esc goes back.", Ink::Faint);
        put_lines(app, frame, area, [Text::default(), line]);
        return;
    };
    let parts = parts(app, area, connection);
    let time = connection.time_account().map(|account| Text::plain(format!("time: {account}")));
    let lines = [ends(app, connection), totals(app, connection)].into_iter().chain(time);
    put_lines(app, frame, parts.facts, lines);
    subflows(app, frame, parts.subflows, connection);
    let below = rule(app, frame, parts.findings, Text::new("Findings", Ink::Strong));
    put_lines(app, frame, below, findings::fitting(app, connection, below));
    charts::draw(app, frame, parts.charts, connection);
    timeline(app, frame, parts.timeline, connection);
}

fn ends(app: &App, c: &Connection) -> Text {
    let state = if c.is_open() { c.state.as_str() } else { "closed" };
    let role = c.role.map_or("role unknown", Role::as_str);
    let age = display(Unit::Seconds, Some(c.age_s));
    let state = format!("{} {state}, {role}, {age}", c.carried_by().as_str());
    let form =
        |names: String| Text::new(c.id.short(), Ink::Strong).and(format!("  {names}  {state}"), Ink::Normal);
    Text::first_that_fits(full_names(&app.mask, c).map(form), app.size.0.into())
}

fn totals(app: &App, c: &Connection) -> Text {
    let bytes = |value: Option<Bytes>| display(Unit::Bytes, value.map(|bytes| bytes.0 as f64));
    let energy = c.energy.and_then(|energy| {
        let mark = energy.source.mark();
        let [lo, hi] = [energy.lo?, energy.hi?].map(|part| app.settings.units.energy(part.joules()));
        let Some(active) = energy.active.map(|active| app.settings.units.energy(active.joules())) else {
            return Some([
                format!("  energy {mark}[{lo} to {hi}], {}", energy.source.as_str()),
                String::new(),
            ]);
        };
        let ratio = energy.j_per_gb.map(|ratio| format!(", {mark}{ratio:.1} J/GB")).unwrap_or_default();
        let full = format!("  energy {mark}{active} [{lo} to {hi}]{ratio}, {}", energy.source.as_str());
        Some([full, format!("  energy {mark}{active}{ratio}")])
    });
    let [full, short] = energy.unwrap_or_default();
    let (sent, received) = (bytes(c.bytes_sent), bytes(c.bytes_received));
    let retransmitted = bytes(Some(c.bytes_retransmitted));
    let traffic = format!("sent {sent}  received {received}  retransmitted {retransmitted}");
    let reinjected = format!("  reinjected {}", bytes(c.bytes_reinjected));
    let forms = [format!("{reinjected}{full}"), format!("{reinjected}{short}"), short];
    Text::first_that_fits(forms.map(|form| Text::plain(format!("{traffic}{form}"))), app.size.0.into())
}

fn subflows(app: &App, frame: &mut Frame<'_>, area: Rect, connection: &Connection) {
    let context = app.context();
    let row = |(index, subflow)| Row { context, subject: Subject::Subflow { connection, index, subflow } };
    let shown = connection.subflows.iter().enumerate().take(usize::from(area.height.saturating_sub(1)));
    let rows: Vec<Row<'_>> = shown.map(row).collect();
    let columns: Vec<Choice> = DETAIL.iter().copied().filter(|column| app.has_values(*column)).collect();
    let table = Table::new(&columns, area.width.into(), &rows).with_title("flow", "SUBFLOW");
    let lines = std::iter::once(table.titles(None)).chain(rows.iter().map(|row| table.row(row)));
    put_lines(app, frame, area, lines);
}

/// Draws the timeline. The latest event is the last line; it is visible until the user scrolls.
fn timeline(app: &App, frame: &mut Frame<'_>, area: Rect, connection: &Connection) {
    if area.height < 2 {
        return;
    }
    let page = usize::from(area.height - 1);
    let entries = &connection.timeline;
    let max = entries.len().saturating_sub(page);
    let first = max - app.detail.map_or(0, |detail| detail.scroll).min(max);
    let start = if connection.opened_at.is_some() { "its opening" } else { "when mpwatch first saw it" };
    let shown = if max > 0 {
        format!("  ({} to {} of {})", first + 1, first + page, entries.len())
    } else {
        String::new()
    };
    let title = Text::new("Timeline", Ink::Strong).and(format!(", UTC and from {start}{shown}"), Ink::Faint);
    let below = rule(app, frame, area, title);
    let outages = outages(connection);
    let lines = entries
        .iter()
        .skip(first)
        .take(page)
        .map(|entry| event(app, connection, entry, is_failure(&outages, entry)));
    put_lines(app, frame, below, lines);
}

fn event(app: &App, connection: &Connection, entry: &TimelineEntry, is_failure: bool) -> Text {
    let mut event = entry.event.clone();
    if let (TimelineEvent::PeerAddressAnnounced { address, .. }, true) = (&mut event, app.mask.is_on) {
        *address = None;
    }
    let sentence = event.sentence(|id| connection.subflow_name(id));
    let (mark, ink) = if is_failure { ("✗", Ink::Alarm) } else { (" ", Ink::Normal) };
    let clock = entry.at.strftime(clock_format(&connection.timeline));
    let at = format!("{clock} {}", pad(&format!("{:.2}", connection.offset(entry.at)), 11, true));
    let sources: &[&str] = match entry.source {
        ObservedBy::Sampled => &["  (sampled, up to one interval late)", "  (sampled)", ""],
        ObservedBy::Tracepoint | ObservedBy::Control => &[""],
    };
    let form = |source: &&str| Text::new(format!(" {mark} {at}  {sentence}"), ink).and(*source, Ink::Faint);
    Text::first_that_fits(sources.iter().map(form), app.size.0.into())
}
