// SPDX-License-Identifier: MIT OR Apache-2.0
//! The lines above the view: where and when, how much in all, the tabs, and what is missing from the picture.

use mpwatch_model::endpoint::printable;
use mpwatch_model::energy::{EnergySource, SnapshotEnergy};
use mpwatch_model::metric::watts;
use mpwatch_model::snapshot::Snapshot;
use ratatui::Frame;
use unicode_width::UnicodeWidthStr as _;

use super::super::app::{App, Link, Origin, Tab};
use super::super::areas::Areas;
use super::super::digest::Totals;
use super::super::key::Action;
use super::super::text::Text;
use super::super::theme::Ink;
use super::put;
use crate::cell::clip;
use crate::header::count;

/// Writes them.
pub(crate) fn draw(app: &App, frame: &mut Frame<'_>, areas: &Areas) {
    let width = usize::from(areas.header.width);
    let badge = badge(app);
    let room = width.saturating_sub(badge.width() + 1);
    let title = app.snapshot().map_or_else(
        || Text::new("mpwatch", Ink::Strong),
        |snapshot| Text::first_that_fits(titles(app, snapshot), room),
    );
    put(app, frame, areas.header, title);
    let right = areas.header.right().saturating_sub(u16::try_from(badge.width()).unwrap_or(0));
    put(
        app,
        frame,
        ratatui::layout::Rect { x: right, width: areas.header.right() - right, ..areas.header },
        badge,
    );
    tabs(app, frame, areas);
    super::put_lines(app, frame, areas.alarms, alarms(app));
}

/// What is special about the moment.
fn badge(app: &App) -> Text {
    match (&app.link, app.frozen) {
        (Link::Gone(_), _) => Text::new(" DAEMON GONE ", Ink::Alarm),
        (_, Some(turn)) => {
            let behind = app.history.latest().saturating_sub(turn);
            let text = if behind == 0 { " FROZEN ".to_owned() } else { format!(" FROZEN, {behind} back ") };
            Text::new(text, Ink::Warning)
        }
        (Link::Ended, _) if app.is_replay() => Text::new(" END OF THE RECORDING ", Ink::Warning),
        (Link::Ended, _) => Text::new(" OVER ", Ink::Warning),
        _ if app.is_replay() => Text::new(" REPLAY ", Ink::Warning),
        _ => Text::default(),
    }
}

fn titles(app: &App, snapshot: &Snapshot) -> Vec<Text> {
    let name = if app.mask.is_on() { "host".into() } else { printable(&snapshot.host.name) };
    let host = clip(&name, 24);
    let Totals { connections, subflows, send, receive, .. } = app.totals();
    let units = app.settings.units;
    let rates = format!("↑ {}  ↓ {}", units.rate(send as f64), units.rate(receive as f64));
    let counts = format!("{}, {}", count(connections, "connection"), count(subflows, "subflow"));
    let power = power(snapshot.energy.as_ref());
    let (date, time) = (snapshot.at.strftime("%Y-%m-%d"), snapshot.at.strftime("%H:%M:%S"));
    let form = |where_and_when: String, counts: &str, power: &str| {
        let head = Text::new("mpwatch", Ink::Strong).and(where_and_when, Ink::Normal);
        head.and(format!("  {counts}"), Ink::Normal)
            .and(format!("  {rates}"), Ink::Strong)
            .and(power, Ink::Normal)
    };
    let short = format!("{connections} conn {subflows} subfl");
    let long_power = power.as_ref().map(|(watts, source)| format!("  {watts} {source}")).unwrap_or_default();
    let short_power = power.as_ref().map(|(watts, _)| format!("  {watts}")).unwrap_or_default();
    vec![
        form(format!(" on {host}  {date} {time} UTC"), &counts, &long_power),
        form(format!(" {host}  {time}"), &counts, &long_power),
        form(format!(" {host}  {time}"), &short, &long_power),
        form(format!(" {time}"), &short, &long_power),
        form(format!(" {time}"), &short, &short_power),
        form(String::new(), &short, &short_power),
        form(String::new(), &short, ""),
    ]
}

/// What the machine draws now, and what stands behind the figure.
fn power(energy: Option<&SnapshotEnergy>) -> Option<(String, &'static str)> {
    let energy = energy?;
    let known = energy.zones.iter().map(|zone| zone.power_uw).reduce(|all, one| Some(all? + one?)).flatten();
    let (mark, source) = match energy.source {
        EnergySource::Absent => return Some(("no energy counter".to_owned(), "")),
        EnergySource::Simulated => ("~", "simulated"),
        EnergySource::Model | EnergySource::VmShare => ("~", "estimated"),
        EnergySource::RaplPerf | EnergySource::RaplPowercap => ("", "RAPL"),
    };
    Some((format!("{mark}{}", watts(known? as f64 / 1e6)), source))
}

/// Tabs as they are written, with their first column and their width.
fn tab_texts() -> impl Iterator<Item = (Tab, String, u16)> {
    Tab::ALL.into_iter().zip(1..).scan(0, |left, (tab, number)| {
        let text = format!(" {number} {} ", tab.title());
        let at = *left;
        *left += u16::try_from(text.len()).unwrap_or(0) + 1;
        Some((tab, text, at))
    })
}

/// The tab that stands in a column.
pub(crate) fn tab_at(column: u16) -> Option<Tab> {
    let hit = |(_, text, left): &(Tab, String, u16)| {
        (*left..*left + u16::try_from(text.len()).unwrap_or(0)).contains(&column)
    };
    tab_texts().find(hit).map(|(tab, ..)| tab)
}

fn tabs(app: &App, frame: &mut Frame<'_>, areas: &Areas) {
    let mut line = Text::default();
    for (tab, text, _) in tab_texts() {
        let here = tab == app.tab;
        let text = if here { format!("[{}]", text.trim()) } else { text };
        line = line.and(text, if here { Ink::Accent } else { Ink::Faint }).and(" ", Ink::Normal);
    }
    let used = u16::try_from(line.width()).unwrap_or(u16::MAX).min(areas.tabs.width);
    put(app, frame, areas.tabs, line);
    let rest = ratatui::layout::Rect { x: used, width: areas.tabs.width - used, ..areas.tabs };
    let filter = (!app.filter_text.is_empty()).then(|| {
        let shown = app.rows.len();
        // It may name what the mask hides.
        let text = if app.mask.is_on() { "(masked)" } else { &app.filter_text };
        Text::new(format!("filter: {text} "), Ink::Accent)
            .and(if shown == 0 { "(nothing matches)" } else { "" }, Ink::Warning)
    });
    let origin = match &app.settings.origin {
        Origin::Tracer => "",
        Origin::Daemon(_) => "from the daemon",
        Origin::Replay(_) => "from a recording",
    };
    let usual = match app.tab {
        Tab::Peers => {
            format!("by {} ({}: another)", app.grouping.as_str(), app.settings.keys.key(Action::Grouping))
        }
        _ => origin.to_owned(),
    };
    let text = filter.unwrap_or_else(|| Text::new(usual, Ink::Faint)).clipped(rest.width.into());
    put(app, frame, rest, text.fitted(rest.width.into(), true));
}

/// What is missing from the picture, or is not what it seems; most serious first.
pub(crate) fn alarms(app: &App) -> Vec<Text> {
    let mut lines = Vec::new();
    if let Link::Gone(why) = &app.link {
        lines.push(Text::new(
            format!("THE DAEMON IS GONE, what is shown is old; trying again: {why}"),
            Ink::Alarm,
        ));
    }
    lines.extend(app.settings.banner.iter().map(|banner| match app.link {
        Link::Ended => {
            let key = app.settings.keys.key(Action::Quit);
            Text::new(
                format!("THE DEMO IS OVER: look around, or leave with {key} for its report"),
                Ink::Warning,
            )
        }
        _ => Text::new(banner.clone(), Ink::Accent),
    }));
    let Some(snapshot) = app.snapshot() else { return lines };
    // Where there is no room for all of it, the key that leads to all of it is still to be read.
    let more = format!(" ({}: more)", app.settings.keys.key(Action::Health));
    let room = usize::from(app.size.0).saturating_sub(more.width());
    let with_more = |text: &str, ink| Text::new(format!("{}{more}", clip(text, room)), ink);
    if snapshot.losses.any() {
        let what = snapshot.losses.phrases().join("; ");
        lines.push(with_more(&format!("INCOMPLETE: {what}"), Ink::Alarm));
    }
    if snapshot.energy.as_ref().is_some_and(|energy| energy.source == EnergySource::Simulated) {
        lines.push(Text::new("SIMULATED ENERGY: no counter of this machine was read", Ink::Alarm));
    }
    if !snapshot.host.missing.is_empty() {
        let costs: Vec<String> =
            snapshot.host.missing.iter().map(|one| printable(&one.costs).into_owned()).collect();
        lines.push(with_more(&format!("not known on this kernel: {}", costs.join("; ")), Ink::Warning));
    }
    lines
}
