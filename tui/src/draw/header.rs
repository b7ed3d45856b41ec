// SPDX-License-Identifier: MIT OR Apache-2.0
//! The first lines: host and time, totals, and the tabs.

use mpwatch_model::finding::Severity;
use mpwatch_model::host::energy::EnergySource;
use mpwatch_model::kernel::endpoint::printable;
use mpwatch_model::metric::watts;
use mpwatch_model::snapshot::Snapshot;
use mpwatch_model::unit::sum_if_all_known;
use ratatui::Frame;
use ratatui::layout::Rect;

use super::alarms;
use super::areas::Areas;
use super::frame::{put, put_lines};
use crate::digest::Totals;
use crate::state::app::App;
use crate::state::key::Action;
use crate::state::message::Link;
use crate::state::settings::Origin;
use crate::state::view::Tab;
use crate::text::{Text, clip, count};
use crate::theme::Ink;
use crate::units::Units;

/// The power in the title is the mean over this time in nanoseconds, so that it does not jump between snapshots.
const POWER_WINDOW: i128 = 5_000_000_000;

pub(super) fn draw(app: &App, frame: &mut Frame<'_>, areas: &Areas) {
    let width = usize::from(areas.header.width);
    let badge = badge(app);
    let room = width.saturating_sub(badge.width() + 1);
    let title = app.snapshot().map_or_else(
        || Text::new("mpwatch", Ink::Strong),
        |snapshot| {
            let name = if app.mask.is_on { "host".into() } else { printable(&snapshot.host.name) };
            let titles = titles(snapshot, &name, app.totals(), app.settings.units, &recent(app));
            Text::first_that_fits(titles, room)
        },
    );
    put(app, frame, areas.header, title.fitted(width.saturating_sub(badge.width()), false).join(badge));
    tabs(app, frame, areas.tabs);
    put_lines(app, frame, areas.alarms, alarms::lines(app));
}

/// Text that marks a snapshot as old, as recorded, or as the last one. Empty for a current snapshot.
fn badge(app: &App) -> Text {
    match (&app.link, app.frozen) {
        (Link::Gone(_), _) => Text::new(" DAEMON GONE ", Ink::Alarm),
        (_, Some(tick)) => {
            let behind = app.history.latest().saturating_sub(tick);
            let text = if behind == 0 { " PAUSED ".to_owned() } else { format!(" PAUSED, {behind} back ") };
            Text::new(text, Ink::Warning)
        }
        (Link::Ended, _) if app.is_replay() => Text::new(" END OF THE RECORDING ", Ink::Warning),
        (Link::Ended, _) => Text::new(" OVER ", Ink::Warning),
        _ if app.is_replay() => Text::new(" REPLAY ", Ink::Warning),
        _ => Text::default(),
    }
}

/// Host, time, totals and the mean power over `recent`, from the longest form to the shortest.
pub(crate) fn titles(
    snapshot: &Snapshot,
    host: &str,
    totals: Totals,
    units: Units,
    recent: &[&Snapshot],
) -> Vec<Text> {
    let host = clip(host, 24);
    let Totals { connections, subflows, send, receive, .. } = totals;
    let [send, receive] = [send, receive].map(|rate| units.rate(rate.map(|rate| rate.0 as f64)));
    let rates = format!("  ↑ {send}  ↓ {receive}");
    let counts = format!("  {}, {}", count(connections, "connection"), count(subflows, "subflow"));
    let short = format!("  {connections} conn {subflows} subfl");
    let power = power(recent);
    let long_power = power.as_ref().map(|(watts, source)| format!("  {watts} {source}")).unwrap_or_default();
    let short_power = power.as_ref().map(|(watts, _)| format!("  {watts}")).unwrap_or_default();
    let (date, time) = (snapshot.at.strftime("%Y-%m-%d"), snapshot.at.strftime("%H:%M:%S"));
    let form = |origin: String, counts: &str, power: &str| {
        let head = Text::new("mpwatch", Ink::Strong).and(format!("{origin}{counts}"), Ink::Normal);
        head.and(rates.clone(), Ink::Strong).and(power, Ink::Normal)
    };
    vec![
        form(format!(" on {host}  {date} {time} UTC"), &counts, &long_power),
        form(format!(" {host}  {time}"), &counts, &long_power),
        form(format!(" {host}  {time}"), &short, &long_power),
        form(format!(" {time}"), &short, &long_power),
        form(format!(" {time}"), &short, &short_power),
        form(format!(" {time}"), &short, ""),
        form(format!(" {time}"), "", ""),
        Text::new("mpwatch", Ink::Strong).and(format!(" {time}"), Ink::Normal),
    ]
}

/// The snapshots of the last `POWER_WINDOW`, the latest first; the first is the snapshot on the screen.
fn recent(app: &App) -> Vec<&Snapshot> {
    let frames = (0..=app.tick()).rev().map_while(|tick| app.history.frame(tick));
    let snapshots = frames.map(|frame| &*frame.snapshot);
    let newest = app.snapshot().map(|snapshot| snapshot.at.as_nanosecond()).unwrap_or_default();
    snapshots.take_while(|snapshot| newest - snapshot.at.as_nanosecond() < POWER_WINDOW).collect()
}

/// The mean power of the machine over `snapshots`, and its source. `None`: the power is unknown in all of them.
fn power(snapshots: &[&Snapshot]) -> Option<(String, &'static str)> {
    let (mark, source) = match snapshots.first()?.energy.as_ref()?.source {
        EnergySource::Absent => return Some(("no energy counter".to_owned(), "")),
        EnergySource::Simulated => ("~", "simulated"),
        EnergySource::Model | EnergySource::VmShare => ("~", "estimated"),
        EnergySource::RaplPerf | EnergySource::RaplPowercap => ("", "RAPL"),
    };
    let power = |snapshot: &&Snapshot| {
        let zones = snapshot.energy.as_ref()?.zones.iter().map(|zone| zone.power_uw);
        Some((snapshot.interval_s.unwrap_or(0.0), sum_if_all_known(zones)? as f64 / 1e6))
    };
    let known: Vec<(f64, f64)> = snapshots.iter().filter_map(power).collect();
    let seconds: f64 = known.iter().map(|(seconds, _)| seconds).sum();
    let joules: f64 = known.iter().map(|(seconds, power)| seconds * power).sum();
    let mean = if seconds > 0.0 { Some(joules / seconds) } else { known.first().map(|(_, power)| *power) };
    mean.map(|mean| (format!("{mark}{}", watts(mean)), source))
}

/// Each tab with its text and the screen column at which the text begins.
fn tab_texts() -> impl Iterator<Item = (Tab, String, u16)> {
    Tab::ALL.into_iter().zip(1..).scan(0, |left, (tab, number)| {
        let text = format!(" {number} {} ", tab.as_str());
        let at = *left;
        *left += u16::try_from(text.len()).unwrap_or(0) + 1;
        Some((tab, text, at))
    })
}

pub(crate) fn tab_at(column: u16) -> Option<Tab> {
    let contains = |(_, text, left): &(Tab, String, u16)| {
        (*left..*left + u16::try_from(text.len()).unwrap_or(0)).contains(&column)
    };
    tab_texts().find(contains).map(|(tab, ..)| tab)
}

fn tabs(app: &App, frame: &mut Frame<'_>, area: Rect) {
    let line = tab_texts().fold(Text::default(), |line, (tab, text, _)| {
        let is_shown = tab == app.tab;
        let text = if is_shown { format!("[{}]", text.trim()) } else { text };
        line.and(text, if is_shown { Ink::Accent } else { Ink::Faint }).and(" ", Ink::Normal)
    });
    let used = u16::try_from(line.width()).unwrap_or(u16::MAX).min(area.width);
    put(app, frame, area, line);
    let rest = Rect { x: used, width: area.width - used, ..area };
    let note = note(app);
    let forms = problems(app).into_iter().flat_map(|problems| {
        let with_note = problems.clone().and("  ", Ink::Normal).join(note.clone());
        // A filter and the grouping of the peers view stay visible even if the problems need the room.
        let may_omit_note = app.filter_text.is_empty() && app.tab != Tab::Peers;
        std::iter::once(with_note).chain(may_omit_note.then_some(problems))
    });
    let forms = forms.chain([note.clone()]);
    put(app, frame, rest, Text::first_that_fits(forms, rest.width.into()).fitted(rest.width.into(), true));
}

/// The problems of all connections of the snapshot, from the longest form to the shortest. Empty: no problem.
fn problems(app: &App) -> Vec<Text> {
    let Some(frame) = app.digested().filter(|frame| !frame.digest.problems.is_empty()) else {
        return Vec::new();
    };
    let all = frame.snapshot.connections.len();
    let kinds = frame.digest.problems.iter().enumerate().map(|(place, ((severity, _, kind), count))| {
        let (mark, ink) =
            if *severity == Severity::Failure { ("✗", Ink::Alarm) } else { ("!", Ink::Warning) };
        let of_all = if place == 0 { format!(" of {all}") } else { String::new() };
        Text::new(format!("{mark} {count}{of_all}"), ink).and(format!(": {kind}"), ink)
    });
    let kinds: Vec<Text> = kinds.collect();
    let joined =
        |kinds: &[Text]| kinds.iter().cloned().reduce(|line, kind| line.and("  ", Ink::Normal).join(kind));
    let number = Text(kinds.iter().filter_map(|kind| kind.0.first().cloned()).take(1).collect());
    (1..=kinds.len()).rev().filter_map(|count| joined(&kinds[..count])).chain([number]).collect()
}

/// The note at the right of the tabs: the filter, the grouping, or the origin of the snapshots.
fn note(app: &App) -> Text {
    if !app.filter_text.is_empty() {
        // The filter may contain a name that the mask hides.
        let text = if app.mask.is_on { "(masked)" } else { &app.filter_text };
        let result = if app.rows.len() == 0 { "(nothing matches)" } else { "" };
        return Text::new(format!("filter: {text} "), Ink::Accent).and(result, Ink::Warning);
    }
    let text = match (app.tab, &app.settings.origin) {
        (Tab::Peers, _) => {
            let key = app.settings.keys.key(Action::Grouping);
            format!("by {} ({key}: {})", app.grouping.as_str(), app.grouping.next().as_str())
        }
        (_, Origin::Tracer) => String::new(),
        (_, Origin::Daemon(_)) => "from the daemon".to_owned(),
        (_, Origin::Replay(_)) => "from a recording".to_owned(),
    };
    Text::new(text, Ink::Faint)
}

#[cfg(test)]
mod tests {
    use mpwatch_fixtures as fixture;
    use mpwatch_model::host::energy::{SnapshotEnergy, ZoneEnergy};

    use super::*;

    fn snapshot(seconds: f64, microwatts: Option<u64>) -> Snapshot {
        let zone = |power_uw| ZoneEnergy { power_uw, ..ZoneEnergy::default() };
        let zones = microwatts.map(|power| zone(Some(power))).into_iter().collect();
        let energy = SnapshotEnergy { source: EnergySource::Model, zones, ..SnapshotEnergy::default() };
        Snapshot { energy: Some(energy), interval_s: Some(seconds), ..fixture::snapshot(Vec::new()) }
    }

    #[test]
    fn unknown_power_is_not_zero() {
        assert_eq!(power(&[&snapshot(1.0, None)]), None);
        assert_eq!(power(&[]), None);
    }

    #[test]
    fn power_is_the_mean_over_the_time_of_the_snapshots() {
        let [now, before, unknown] =
            [snapshot(1.0, Some(7_000_000)), snapshot(3.0, Some(3_000_000)), snapshot(9.0, None)];
        assert_eq!(power(&[&now, &before, &unknown]), Some(("~4.00 W".to_owned(), "estimated")));
        assert_eq!(power(&[&snapshot(0.0, Some(2_000_000))]), Some(("~2.00 W".to_owned(), "estimated")));
    }
}
