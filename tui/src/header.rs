// SPDX-License-Identifier: MIT OR Apache-2.0
//! The lines above the table: where and when, how much in all, and what is missing from the picture.

use mpwatch_model::endpoint::printable;
use mpwatch_model::energy::{EnergySource, SnapshotEnergy};
use mpwatch_model::metric::{Unit, display, watts};
use mpwatch_model::snapshot::Snapshot;

use crate::cell::{Cell, clip};
use crate::style::{Ink, Style};

/// One to four lines.
pub(crate) fn lines(snapshot: &Snapshot, width: usize, style: Style) -> Vec<String> {
    let mut lines = vec![style.paint(&first(snapshot).at(width), Ink::Strong)];
    if snapshot.losses.any() {
        let text = format!("INCOMPLETE: {}", snapshot.losses.phrases().join("; "));
        lines.push(style.paint(&clip(&text, width), Ink::Alarm));
    }
    if snapshot.energy.as_ref().is_some_and(|energy| energy.source == EnergySource::Simulated) {
        lines.push(
            style.paint(&clip("SIMULATED ENERGY: no counter of this machine was read", width), Ink::Alarm),
        );
    }
    let missing = &snapshot.host.missing;
    if !missing.is_empty() {
        let costs: Vec<_> = missing
            .iter()
            .map(|one| format!("{} (no {})", printable(&one.costs), printable(&one.what)))
            .collect();
        let text = format!("not known on this kernel: {}", costs.join("; "));
        lines.push(style.paint(&clip(&text, width), Ink::Warning));
    }
    lines
}

/// What the machine draws now, and what stands behind the figure.
fn power(energy: &SnapshotEnergy) -> Option<String> {
    // Before the first window has closed there are no zones, and no power is known.
    let known = energy.zones.iter().map(|zone| zone.power_uw).reduce(|all, one| Some(all? + one?));
    let microwatts = known.flatten()?;
    let (mark, source) = match energy.source {
        EnergySource::Absent => return None,
        EnergySource::Simulated => ("~", "simulated"),
        EnergySource::Model | EnergySource::VmShare => ("~", "estimated"),
        EnergySource::RaplPerf | EnergySource::RaplPowercap => ("", "measured"),
    };
    Some(format!("   power {mark}{} {source}", watts(microwatts as f64 / 1e6)))
}

fn first(snapshot: &Snapshot) -> Cell {
    let host = clip(&printable(&snapshot.host.name), 24);
    let connections = snapshot.connections.len();
    let subflows: usize = snapshot.connections.iter().map(|c| c.subflows.len()).sum();
    let (up, down) = rates(snapshot);
    let (date, time) = (snapshot.at.strftime("%Y-%m-%d"), snapshot.at.strftime("%H:%M:%S"));
    let counts = format!("{}, {}", count(connections, "connection"), count(subflows, "subflow"));
    let power = snapshot.energy.as_ref().and_then(power).unwrap_or_default();
    Cell::either(vec![
        format!("mpwatch on {host}   {date} {time} UTC   {counts}   up {up}   down {down}{power}"),
        format!("mpwatch on {host}  {time}  {counts}  up {up}  down {down}{power}"),
        format!("mpwatch on {host}   {date} {time} UTC   {counts}   up {up}   down {down}"),
        format!("mpwatch on {host}  {time}  {counts}  up {up}  down {down}"),
        format!("{host} {time}  {counts}  up {up}  down {down}"),
        format!("{time}  {connections} conn {subflows} subfl  up {up} down {down}"),
    ])
}

/// Payload sent and received by all connections in the interval.
pub(crate) fn rates(snapshot: &Snapshot) -> (String, String) {
    let sum = |read: fn(&mpwatch_model::connection::Connection) -> u64| {
        let total: u64 = snapshot.connections.iter().map(read).sum();
        display(Unit::BitsPerSecond, Some(total as f64))
    };
    (sum(|c| c.send.0), sum(|c| c.receive.0))
}

/// A number of things, in English.
pub(crate) fn count(number: usize, thing: &str) -> String {
    format!("{number} {thing}{}", if number == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn power_that_is_not_known_is_not_zero() {
        let energy = SnapshotEnergy { source: EnergySource::Model, ..SnapshotEnergy::default() };
        assert_eq!(power(&energy), None);
    }
}
