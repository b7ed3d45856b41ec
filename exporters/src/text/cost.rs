// SPDX-License-Identifier: MIT OR Apache-2.0
//! What flows have cost: CPU time and energy, each with where it comes from and between which bounds it lies. An estimate never
//! looks like a measurement: it begins with `~` and names its source.

use std::fmt::Write as _;

use mpwatch_model::connection::Connection;
use mpwatch_model::cpu::CpuTimes;
use mpwatch_model::energy::{EnergySource, FlowEnergy, IdleSource, LostReason, SnapshotEnergy};
use mpwatch_model::lifecycle::Protocol;
use mpwatch_model::metric::{self, SUBFLOW, Unit};
use mpwatch_model::snapshot::Report;
use mpwatch_model::subflow::Subflow;
use mpwatch_model::unit::{Bytes, Microjoules, Nanos};

use super::grid::{Grid, Side};
use super::{bytes, count, shown};

/// CPU time of a connection, by the kind of work. `None`: not accounted for.
pub(super) fn cpu(connection: &Connection) -> Option<String> {
    let cpu = connection.cpu?;
    let parts = [
        (cpu.syscall.unwrap_or_default(), "in calls"),
        (cpu.rx_softirq, "receiving"),
        (cpu.tx, "sending what was held back"),
        (cpu.timer, "in timers"),
        (cpu.worker, "in kernel threads"),
    ];
    let parts = parts.iter().filter(|(time, _)| time.0 > 0);
    let parts: Vec<String> = parts.map(|(time, what)| format!("{} {what}", time_of(*time))).collect();
    let unknown = if cpu.syscall.is_none() { "; of its system calls this kernel tells nothing" } else { "" };
    Some(format!("{}: {}{unknown}", time_of(cpu.total()), parts.join(", ")))
}

/// Energy of a connection. `None`: not known.
pub(super) fn energy(connection: &Connection) -> Option<String> {
    let energy = connection.energy?;
    let (active, full) = (energy.active?, energy.full?);
    let mark = mark(energy.source);
    let mut text = format!("{mark}{} above idle", joules(active));
    if let (Some(lo), Some(hi)) = (energy.lo, energy.hi) {
        let _ = write!(text, " [{} to {}]", joules(lo), joules(hi));
    }
    let _ = write!(text, ", {mark}{} with a share of idle", joules(full));
    if connection.age_s > 0.0 {
        let _ = write!(text, "; {mark}{}", metric::watts(active.joules() / connection.age_s));
    }
    if let Some(ratio) = energy.j_per_gb {
        let _ = write!(text, ", {mark}{}", metric::display(Unit::JoulesPerGigabyte, Some(ratio)));
    }
    let _ = write!(text, " ({})", origin(energy.source, energy.idle));
    Some(text)
}

/// What the subflows beside the first have cost. `None`: there are none, or nothing is known.
pub(super) fn joined(connection: &Connection) -> Option<String> {
    let others: Vec<&Subflow> = connection.subflows.iter().filter(|subflow| !subflow.initial).collect();
    let cpu = others.iter().map(|subflow| subflow.cpu).reduce(|a, b| Some(a? + b?)).flatten()?;
    let carried: Bytes = others.iter().map(|subflow| subflow.unique_sent() + subflow.bytes_received).sum();
    let mut text = format!(
        "{}: {} of payload, {} of CPU time",
        count(others.len(), "subflow"),
        bytes(carried.0),
        time_of(cpu.total())
    );
    let costs: Vec<FlowEnergy> = others.iter().filter_map(|subflow| subflow.energy).collect();
    if let Some(active) = FlowEnergy::sum(&costs).active {
        let _ = write!(text, ", {}{}", mark(FlowEnergy::sum(&costs).source), joules(active));
    }
    Some(text)
}

/// An amount of energy with the mark of where it comes from.
pub(super) fn estimated(source: EnergySource, energy: Microjoules) -> String {
    format!("{}{}", mark(source), joules(energy))
}

const COSTS: &[(&str, Side)] = &[
    ("#", Side::Right),
    ("CPU", Side::Right),
    ("calls", Side::Right),
    ("receiving", Side::Right),
    ("sending", Side::Right),
    ("timers", Side::Right),
    ("threads", Side::Right),
    ("energy", Side::Right),
    ("least", Side::Right),
    ("most", Side::Right),
    ("J/GB", Side::Right),
];

/// A line for each subflow. `None`: nothing is accounted for.
pub(super) fn table(connection: &Connection) -> Option<Grid<'static>> {
    connection.cpu?;
    let row = |(subflow, place): (&Subflow, usize)| {
        let metric = |name: &str| shown(SUBFLOW, &format!("mpwatch_subflow_{name}"), subflow);
        let part = |read: fn(CpuTimes) -> Option<Nanos>| {
            subflow.cpu.and_then(read).map_or_else(|| "-".to_owned(), time_of)
        };
        vec![
            place.to_string(),
            metric("cpu_seconds_total"),
            part(|cpu| cpu.syscall),
            part(|cpu| Some(cpu.rx_softirq)),
            part(|cpu| Some(cpu.tx)),
            part(|cpu| Some(cpu.timer)),
            part(|cpu| Some(cpu.worker)),
            metric("active_joules_total"),
            metric("active_low_joules_total"),
            metric("active_high_joules_total"),
            metric("joules_per_gigabyte").replace(" J/GB", ""),
        ]
    };
    let rows = connection.subflows.iter().zip(1..).map(row).collect();
    Some(Grid { columns: COSTS, rows })
}

/// What all connections of a report have cost, TCP beside MPTCP, and where the machine's energy went. Empty: nothing is known.
pub(super) fn facts(report: &Report) -> Vec<(String, String)> {
    let mut lines = Vec::new();
    for protocol in [Protocol::Mptcp, Protocol::Tcp] {
        let of_it = report.connections.iter().filter(|connection| connection.protocol == protocol);
        lines.extend(total(protocol, &of_it.collect::<Vec<_>>()));
    }
    if let Some(energy) = &report.energy {
        lines.extend(zones(energy));
    }
    lines
}

/// Of one protocol: CPU seconds and joules, also per gigabyte of payload.
fn total(protocol: Protocol, connections: &[&Connection]) -> Option<(String, String)> {
    let known: Vec<&&Connection> = connections.iter().filter(|connection| connection.cpu.is_some()).collect();
    let cpu: Nanos = known.iter().filter_map(|connection| connection.cpu).map(|cpu| cpu.total()).sum();
    if known.is_empty() {
        return None;
    }
    let payload: Bytes = known
        .iter()
        .map(|one| one.bytes_sent.unwrap_or_default() + one.bytes_received.unwrap_or_default())
        .sum();
    let gigabytes = payload.0 as f64 / 1e9;
    let per_gigabyte = |amount: f64, unit: &str| {
        if payload.0 > 0 { format!(" ({:.2} {unit}/GB)", amount / gigabytes) } else { String::new() }
    };
    let mut text = format!(
        "{}, {} of payload: {} of CPU time{}",
        count(known.len(), "connection"),
        bytes(payload.0),
        time_of(cpu),
        per_gigabyte(cpu.seconds(), "s")
    );
    let costs: Vec<FlowEnergy> = known.iter().filter_map(|connection| connection.energy).collect();
    let sum = FlowEnergy::sum(&costs);
    if let (Some(active), Some(full)) = (sum.active, sum.full) {
        let mark = mark(sum.source);
        let _ = write!(
            text,
            ", {mark}{} above idle{}, {mark}{} with a share of idle{}, {}",
            joules(active),
            per_gigabyte(active.joules(), "J"),
            joules(full),
            per_gigabyte(full.joules(), "J"),
            origin(sum.source, sum.idle)
        );
    }
    Some((format!("{} cost", protocol.as_str()), text))
}

fn zones(energy: &SnapshotEnergy) -> Vec<(String, String)> {
    let mark = mark(energy.source);
    let zone = |zone: &mpwatch_model::energy::ZoneEnergy| {
        let parts = [
            (zone.idle_uj, "idle"),
            (zone.flows_uj, "flows"),
            (zone.app_uj, "their applications"),
            (zone.net_shared_uj, "network work of no flow"),
            (zone.irq_uj, "interrupts"),
            (zone.self_uj, "mpwatch"),
            (zone.other_uj, "everybody else"),
            (zone.unexplained_uj, "not explained"),
        ];
        let parts: Vec<String> = parts
            .iter()
            .filter(|(part, _)| part.0 > 0)
            .map(|(part, whose)| format!("{mark}{} {whose}", joules(*part)))
            .collect();
        let lost = match zone.windows_lost {
            0 => String::new(),
            lost => format!(
                "; not known for {} ({})",
                time_of(zone.lost_ns),
                count(usize::try_from(lost).unwrap_or(usize::MAX), "window")
            ),
        };
        let whole = format!(
            "{} {mark}{}: {}{lost}",
            zone.zone,
            joules(zone.zone_uj),
            origin(energy.source, energy.idle)
        );
        [("energy".to_owned(), whole), (String::new(), parts.join(", "))]
    };
    let mut lines: Vec<_> = energy.zones.iter().flat_map(zone).filter(|(_, fact)| !fact.is_empty()).collect();
    // A zone of which nothing is known has no figures, and no 0.
    if let (true, Some(lost)) = (energy.zones.is_empty(), energy.lost.first()) {
        let whole = format!("{}: not known, {}", lost.zone, why(lost.reason));
        lines.push(("energy".to_owned(), whole));
    }
    lines.extend(energy.advice.iter().map(|advice| (String::new(), advice.clone())));
    lines
}

fn why(reason: LostReason) -> &'static str {
    match reason {
        LostReason::Ambiguous => "its counter may have wrapped more than once",
        LostReason::Backwards => "its counter went backwards, or jumped",
        LostReason::Vanished => "it vanished",
        LostReason::Suspended => "the machine was suspended",
        LostReason::Stuck => "its counter stood still while the machine was busy",
        LostReason::Unreadable => "its counter could not be read",
    }
}

/// Where joules come from, in words.
fn origin(source: EnergySource, idle: IdleSource) -> String {
    let source = match source {
        EnergySource::RaplPerf | EnergySource::RaplPowercap => format!("measured, {}", source.as_str()),
        EnergySource::VmShare => "estimated, the host's share for this virtual machine".to_owned(),
        EnergySource::Model => "estimated, typical watts of such a CPU".to_owned(),
        EnergySource::Simulated => "SIMULATED, no counter was read".to_owned(),
        EnergySource::Absent => "not known".to_owned(),
    };
    let idle = match idle {
        IdleSource::Calibrated => "idle calibrated",
        IdleSource::Observed => "idle observed",
        IdleSource::Unknown => "idle not known",
    };
    format!("{source}; {idle}")
}

fn mark(source: EnergySource) -> &'static str {
    if source.is_measured() { "" } else { "~" }
}

fn joules(energy: Microjoules) -> String {
    metric::display(Unit::Joules, Some(energy.joules()))
}

pub(super) fn time_of(time: Nanos) -> String {
    metric::display(Unit::Seconds, Some(time.seconds()))
}
