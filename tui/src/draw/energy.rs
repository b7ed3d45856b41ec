// SPDX-License-Identifier: MIT OR Apache-2.0
//! The upper part of the energy view: a bar for each energy zone and its consumers, the source of the figures, the cost of extra subflows.

use mpwatch_model::host::energy::{EnergySource, IdleSource, SnapshotEnergy, ZoneEnergy};
use mpwatch_model::metric::watts;

use crate::digest::Totals;
use crate::state::app::App;
use crate::text::{Text, count, glyph, stacked, wrapped};
use crate::theme::Ink;

pub(super) fn lines(app: &App, width: usize) -> Vec<Text> {
    let Some(snapshot) = app.snapshot() else { return Vec::new() };
    let Some(energy) = &snapshot.energy else {
        let text = "CPU time is not accounted for (see Health), so energy is unknown.";
        return vec![Text::new(text, Ink::Warning)];
    };
    let mut lines = origin(energy, width);
    for zone in &energy.zones {
        lines.extend(zone_lines(app, energy, zone, width));
    }
    if !energy.shown.is_empty() {
        let zones = energy.shown.iter().map(|zone| {
            let joules = app.settings.units.energy(zone.zone_uj.joules());
            format!("{} {}{joules}", zone.zone, energy.source.mark())
        });
        let text = format!("overlapping zones, not in any sum: {}", zones.collect::<Vec<_>>().join(", "));
        lines.push(Text::new(text, Ink::Faint));
    }
    lines.push(extra_subflows(app, width));
    lines
}

fn origin(energy: &SnapshotEnergy, width: usize) -> Vec<Text> {
    let source = match energy.source {
        EnergySource::RaplPerf | EnergySource::RaplPowercap => "measured by the CPU's energy counters (RAPL)",
        EnergySource::VmShare => "~ ESTIMATED: this virtual machine's share as its host reports it",
        EnergySource::Model => "~ ESTIMATED from CPU time and the typical power of this CPU; no counter read",
        EnergySource::Simulated => "~ SIMULATED: no counter was read",
        EnergySource::Absent => {
            "No energy counter: no RAPL (a virtual machine, or no permission). CPU time is known."
        }
    };
    let idle = match (energy.source, energy.idle) {
        (EnergySource::Absent, _) => "",
        (_, IdleSource::Calibrated) => "; idle power calibrated",
        (_, IdleSource::Observed) => "; idle power observed",
        (_, IdleSource::Fitted) => "; idle power fitted",
        (_, IdleSource::Unknown) => "; idle power unknown (run mpwatch calibrate)",
    };
    let ink = if energy.source.is_measured() { Ink::Faint } else { Ink::Warning };
    let lines = wrapped(&format!("{source}{idle}"), width).into_iter().map(|line| Text::new(line, ink));
    let advice = energy.advice.iter().flat_map(|advice| wrapped(advice, width)).take(2);
    lines.chain(advice.map(|line| Text::new(line, Ink::Faint))).collect()
}

/// Name and energy of a zone, its bar, and the legend.
fn zone_lines(app: &App, energy: &SnapshotEnergy, zone: &ZoneEnergy, width: usize) -> Vec<Text> {
    let (units, theme, mark) = (app.settings.units, app.settings.theme, energy.source.mark());
    let power = zone.power_uw.map(|power| format!("  {mark}{} now", watts(power as f64 / 1e6)));
    let lost = (zone.windows_lost > 0).then(|| {
        let windows = usize::try_from(zone.windows_lost).unwrap_or(usize::MAX);
        format!("  unknown for {:.1} s ({})", zone.lost_ns.seconds(), count(windows, "window"))
    });
    let title = Text::new(zone.zone.clone(), Ink::Strong)
        .and(format!("  {mark}{} since tracing began", units.energy(zone.zone_uj.joules())), Ink::Normal)
        .and(power.unwrap_or_default(), Ink::Normal)
        .and(lost.unwrap_or_default(), Ink::Warning);
    let ink = |index, consumer| if consumer == "idle" { Ink::Faint } else { Ink::Path(index) };
    let parts = || zone.parts().into_iter().enumerate().map(|(index, (_, name, part))| (index, name, part));
    let amounts: Vec<(u64, Ink)> = parts().map(|(index, name, part)| (part.0, ink(index, name))).collect();
    let mut legend = vec![Text::default()];
    for (index, consumer, part) in parts().filter(|(.., part)| part.0 > 0) {
        let share = part.0 as f64 / zone.zone_uj.0.max(1) as f64 * 100.0;
        let text = format!("{consumer} {mark}{} {share:.0}%  ", units.energy(part.joules()));
        let item =
            Text::new(format!("{} ", glyph(theme, index)), ink(index, consumer)).and(text, Ink::Normal);
        match legend.last_mut() {
            Some(line) if line.width() + item.width() <= width + 2 => line.0.extend(item.0),
            _ => legend.push(item),
        }
    }
    [title, stacked(&amounts, width, theme)].into_iter().chain(legend).collect()
}

/// A line with the number and the energy of extra subflows (they share a bottleneck and add no throughput) in all connections.
fn extra_subflows(app: &App, width: usize) -> Text {
    let Totals { extra, wasted, .. } = app.totals();
    if extra == 0 {
        return Text::new("No subflow is known to share a bottleneck.", Ink::Faint);
    }
    let adds = format!(
        "! {} {} no throughput",
        count(extra, "extra subflow"),
        if extra == 1 { "adds" } else { "add" }
    );
    let cost = wasted.and_then(|energy| app.context().with_format(|format| format.cost(&energy)));
    let cost = cost.map(|cost| format!(" and cost {cost} so far")).unwrap_or_default();
    let forms = [format!("{adds}{cost}: they share a bottleneck."), format!("{adds}{cost}.")];
    Text::first_that_fits(forms.map(|form| Text::new(form, Ink::Warning)), width)
}
