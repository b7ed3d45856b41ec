// SPDX-License-Identifier: MIT OR Apache-2.0
//! The upper part of the energy view: every zone as one bar whose parts sum to it, where the joules come from, and what subflows that
//! add no throughput cost.

use mpwatch_model::energy::{EnergySource, IdleSource, SnapshotEnergy, ZoneEnergy};
use mpwatch_model::metric::watts;
use ratatui::Frame;
use ratatui::layout::Rect;

use super::super::app::App;
use super::super::digest::Totals;
use super::super::finding;
use super::super::text::{Text, glyph, stacked, wrapped};
use super::super::theme::Ink;
use super::put_lines;
use crate::header::count;

/// The parts of a zone, by what people call them; their sum is the zone.
fn parts(zone: &ZoneEnergy) -> [(&'static str, u64, Ink); 8] {
    [
        ("flows", zone.flows_uj.0, Ink::Path(0)),
        ("their programs", zone.app_uj.0, Ink::Path(1)),
        ("network, no flow", zone.net_shared_uj.0, Ink::Path(2)),
        ("everybody else", zone.other_uj.0, Ink::Path(3)),
        ("interrupts", zone.irq_uj.0, Ink::Path(4)),
        ("mpwatch", zone.self_uj.0, Ink::Path(5)),
        ("unexplained", zone.unexplained_uj.0, Ink::Path(6)),
        ("idle", zone.idle_uj.0, Ink::Faint),
    ]
}

/// Lines that it takes at most.
pub(crate) fn height(app: &App) -> u16 {
    u16::try_from(lines(app, app.size.0.into()).len()).unwrap_or(u16::MAX)
}

pub(super) fn draw(app: &App, frame: &mut Frame<'_>, area: Rect) {
    put_lines(app, frame, area, lines(app, area.width.into()));
}

fn lines(app: &App, width: usize) -> Vec<Text> {
    let Some(snapshot) = app.snapshot() else { return Vec::new() };
    let Some(energy) = &snapshot.energy else {
        return vec![Text::new(
            "CPU time is not accounted for (--no-ledger, or see Health), and without it no joule.",
            Ink::Warning,
        )];
    };
    let mut lines = origin(energy, width);
    for zone in &energy.zones {
        lines.extend(zone_lines(app, energy, zone, width));
    }
    if !energy.shown.is_empty() {
        let shown = energy.shown.iter().map(|zone| {
            format!("{} {}{}", zone.zone, tilde(energy), app.settings.units.energy(zone.zone_uj.joules()))
        });
        let text = format!("overlapping zones, in no sum: {}", shown.collect::<Vec<_>>().join(", "));
        lines.push(Text::new(text, Ink::Faint));
    }
    lines.push(waste(app, width));
    lines
}

fn tilde(energy: &SnapshotEnergy) -> &'static str {
    if energy.source.is_measured() { "" } else { "~" }
}

fn origin(energy: &SnapshotEnergy, width: usize) -> Vec<Text> {
    let source = match energy.source {
        EnergySource::RaplPerf | EnergySource::RaplPowercap => "measured by the processor's counters (RAPL)",
        EnergySource::VmShare => "~ ESTIMATED: this virtual machine's share, as its host sees it",
        EnergySource::Model => {
            "~ ESTIMATED: CPU time times typical watts of such a processor; no counter was read"
        }
        EnergySource::Simulated => "~ SIMULATED: no counter was read",
        EnergySource::Absent => {
            "No energy counter here: no RAPL (a virtual machine, or no permission). CPU time is known."
        }
    };
    let idle = match (energy.source, energy.idle) {
        (EnergySource::Absent, _) => "",
        (_, IdleSource::Calibrated) => "; idle power calibrated",
        (_, IdleSource::Observed) => "; idle power observed",
        (_, IdleSource::Unknown) => "; idle power not known (mpwatch calibrate)",
    };
    let ink = if energy.source.is_measured() { Ink::Faint } else { Ink::Warning };
    let mut lines: Vec<Text> =
        wrapped(&format!("{source}{idle}"), width).into_iter().map(|line| Text::new(line, ink)).collect();
    let advice = energy.advice.iter().flat_map(|advice| wrapped(advice, width));
    lines.extend(advice.take(2).map(|line| Text::new(line, Ink::Faint)));
    lines
}

/// Name and sum, the bar, and what its colours are.
fn zone_lines(app: &App, energy: &SnapshotEnergy, zone: &ZoneEnergy, width: usize) -> Vec<Text> {
    let units = app.settings.units;
    let mark = tilde(energy);
    let power = zone.power_uw.map(|power| format!("  {mark}{} now", watts(power as f64 / 1e6)));
    let lost = (zone.windows_lost > 0).then(|| {
        let windows = usize::try_from(zone.windows_lost).unwrap_or(usize::MAX);
        format!("  not known for {:.1} s ({})", zone.lost_ns.seconds(), count(windows, "window"))
    });
    let title = Text::new(zone.zone.clone(), Ink::Strong)
        .and(format!("  {mark}{} since tracing began", units.energy(zone.zone_uj.joules())), Ink::Normal)
        .and(power.unwrap_or_default(), Ink::Normal)
        .and(lost.unwrap_or_default(), Ink::Warning);
    let parts = parts(zone);
    let bar = stacked(&parts.map(|(_, amount, ink)| (amount, ink)), width, app.settings.theme);
    let mut legend = vec![Text::default()];
    for (number, (name, amount, ink)) in
        parts.into_iter().enumerate().filter(|(_, (_, amount, _))| *amount > 0)
    {
        let share = amount as f64 / zone.zone_uj.0.max(1) as f64 * 100.0;
        let text = format!("{name} {mark}{} {share:.0}%  ", units.energy(amount as f64 / 1e6));
        let item = Text::new(format!("{} ", glyph(app.settings.theme, number)), ink).and(text, Ink::Normal);
        let used = legend.last().map_or(0, Text::width);
        if used + item.width() > width + 2 && legend.len() < 3 {
            legend.push(Text::default());
        }
        legend.last_mut().into_iter().for_each(|line| line.0.extend(item.0.clone()));
    }
    [title, bar].into_iter().chain(legend).collect()
}

/// What extra subflows cost, over all connections.
fn waste(app: &App, width: usize) -> Text {
    let Totals { extra, waste, .. } = app.totals();
    let joules = |value| app.settings.units.energy(value);
    let ink = Ink::Warning;
    match (extra, waste) {
        (0, _) => Text::new("No extra subflows: none is known to share a bottleneck.", Ink::Faint),
        (_, None) => Text::new(format!("! {} no throughput (they share a bottleneck).", adds(extra)), ink),
        (_, Some(energy)) => {
            let cost = finding::marked(&energy, &joules);
            let short = format!("! {} no throughput and cost {cost} so far", adds(extra));
            let long = format!("{short}: they share a bottleneck.");
            Text::first_that_fits([long, format!("{short}.")].map(|text| Text::new(text, ink)), width)
        }
    }
}

fn adds(subflows: usize) -> String {
    format!("{} {}", count(subflows, "extra subflow"), if subflows == 1 { "adds" } else { "add" })
}
