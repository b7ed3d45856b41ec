// SPDX-License-Identifier: MIT OR Apache-2.0
//! CPU time and energy of flows, with their source and their bounds. An estimate begins with `~` and names its source.

use std::fmt::Write as _;

use mpwatch_model::flow::connection::Connection;
use mpwatch_model::flow::pairing::{Flow, flows};
use mpwatch_model::flow::subflow::Subflow;
use mpwatch_model::host::energy::{EnergySource, FlowEnergy, IdleSource, LostReason, SnapshotEnergy};
use mpwatch_model::kernel::cpu::CpuTimes;
use mpwatch_model::kernel::lifecycle::CarriedBy;
use mpwatch_model::metric::{self, Unit};
use mpwatch_model::snapshot::Report;
use mpwatch_model::unit::{Bytes, Microjoules, Nanos, sum_if_all_known};

use super::grid::Align::Right;
use super::grid::Column;
use super::words::{Fact, bytes, count, of_subflow, or_dash};

/// Labels of the cost by protocol, in the order of [`CarriedBy::ALL`].
const LABELS: [&str; 3] = ["mptcp cost", "fallback to TCP cost", "tcp cost"];

/// CPU time of a connection by the kind of work. `None`: mpwatch did not measure it.
pub(super) fn cpu(connection: &Connection) -> Option<String> {
    let cpu = connection.cpu?;
    let parts = [
        (cpu.syscall.unwrap_or_default(), "in system calls"),
        (cpu.rx_softirq, "processing received packets (data and ACKs)"),
        (cpu.tx, "sending delayed data"),
        (cpu.timer, "in timers"),
        (cpu.worker, "in kernel threads"),
    ];
    let known = parts.iter().filter(|(time, _)| time.0 > 0);
    let parts: Vec<String> = known.map(|(time, what)| format!("{} {what}", time_of(*time))).collect();
    let unknown = if cpu.syscall.is_none() { "; this kernel does not report system calls" } else { "" };
    Some(format!("{}: {}{unknown}", time_of(cpu.total()), parts.join(", ")))
}

/// Energy of a connection. `None`: unknown.
pub(super) fn energy(connection: &Connection) -> Option<String> {
    let energy = connection.energy?;
    let full = energy.full?;
    let mark = energy.source.mark();
    let mut text = energy.active.map_or_else(
        || "above idle not known".to_owned(),
        |active| format!("{mark}{} above idle", joules(active)),
    );
    if let (Some(lo), Some(hi)) = (energy.lo, energy.hi) {
        let _ = write!(text, " [{} to {}]", joules(lo), joules(hi));
    }
    let _ = write!(text, ", {mark}{} with idle share", joules(full));
    let seconds = connection.observed.map_or(connection.age_s, |observed| observed.duration.seconds());
    if let Some(active) = energy.active.filter(|_| seconds > 0.0) {
        let _ = write!(text, "; {mark}{}", metric::watts(active.joules() / seconds));
    }
    if let Some(ratio) = energy.j_per_gb {
        let _ = write!(text, ", {mark}{}", metric::display(Unit::JoulesPerGigabyte, Some(ratio)));
    }
    let _ = write!(text, " ({})", origin(energy.source, energy.idle));
    Some(text)
}

/// Payload and cost of the subflows that joined. `None`: none joined, or the cost is unknown.
pub(super) fn joined(connection: &Connection) -> Option<String> {
    let others: Vec<&Subflow> = connection.subflows.iter().filter(|subflow| !subflow.initial).collect();
    let cpu = sum_if_all_known(others.iter().map(|subflow| subflow.cpu))?;
    let carried: Bytes = others.iter().map(|subflow| subflow.observed.bytes).sum();
    let mut text = format!(
        "{}: {} of payload, {} of CPU time",
        count(others.len(), "subflow"),
        bytes(carried.0),
        time_of(cpu.total())
    );
    let costs: Vec<FlowEnergy> = others.iter().filter_map(|subflow| subflow.energy).collect();
    if let Some(active) = FlowEnergy::sum(&costs).active {
        let _ = write!(text, ", {}{}", FlowEnergy::sum(&costs).source.mark(), joules(active));
    }
    Some(text)
}

pub(super) const COLUMNS: &[Column<Subflow>] = &[
    ("CPU", Right, |s| of_subflow(s, "cpu_seconds_total")),
    ("system calls", Right, |s| part(s, |cpu| cpu.syscall)),
    ("received packets", Right, |s| part(s, |cpu| Some(cpu.rx_softirq))),
    ("sending", Right, |s| part(s, |cpu| Some(cpu.tx))),
    ("timers", Right, |s| part(s, |cpu| Some(cpu.timer))),
    ("threads", Right, |s| part(s, |cpu| Some(cpu.worker))),
    ("energy", Right, |s| of_subflow(s, "active_joules_total")),
    ("min", Right, |s| of_subflow(s, "active_low_joules_total")),
    ("max", Right, |s| of_subflow(s, "active_high_joules_total")),
    ("J/GB", Right, |s| of_subflow(s, "joules_per_gigabyte").replace(" J/GB", "")),
];

fn part(subflow: &Subflow, read: fn(CpuTimes) -> Option<Nanos>) -> String {
    or_dash(subflow.cpu.and_then(read).map(time_of))
}

/// The cost of all connections by protocol, and the energy of the machine by consumer. Empty: both are unknown.
pub(super) fn facts(report: &Report) -> Vec<Fact> {
    let flows = flows(&report.connections);
    let total = |(label, protocol): (&'static str, CarriedBy)| {
        Some((label, total(flows.iter().copied().filter(|flow| flow.end.carried_by() == protocol))?))
    };
    let mut facts: Vec<Fact> = LABELS.into_iter().zip(CarriedBy::ALL).filter_map(total).collect();
    // If the ledger was full, the report lists that among its losses.
    let unknown = flows.iter().filter(|flow| flow.cpu().is_none()).count();
    if unknown > 0 && (report.energy.is_some() || unknown < flows.len()) && report.losses.ledger_full == 0 {
        let why = "ended before the sampled ledger had measured any connection; --ledger exact measures all";
        facts.push(("cost not known", format!("{}: {why}", count(unknown, "connection"))));
    }
    facts.extend(report.energy.iter().flat_map(zones));
    facts
}

/// CPU time and energy of some connections at all their ends, in total and per gigabyte of payload. `None`: no CPU time is known.
fn total<'a>(flows: impl Iterator<Item = Flow<'a>>) -> Option<String> {
    let known: Vec<(Flow<'a>, CpuTimes)> = flows.filter_map(|flow| Some((flow, flow.cpu()?))).collect();
    if known.is_empty() {
        return None;
    }
    let cpu: Nanos = known.iter().map(|(_, cpu)| cpu.total()).sum();
    let payload: Bytes = known.iter().map(|(flow, _)| flow.observed_payload()).sum();
    let gigabytes = payload.0 as f64 / 1e9;
    let per_gigabyte = |amount: f64, unit: &str| {
        if payload.0 > 0 { format!(" ({:.2} {unit}/GB)", amount / gigabytes) } else { String::new() }
    };
    let mut text = format!(
        "{}, {} of observed payload: {} of CPU time{}",
        count(known.len(), "connection"),
        bytes(payload.0),
        time_of(cpu),
        per_gigabyte(cpu.seconds(), "s")
    );
    let costs: Vec<FlowEnergy> = known.iter().filter_map(|(flow, _)| flow.energy()).collect();
    let sum = FlowEnergy::sum(&costs);
    if let (Some(active), Some(full)) = (sum.active, sum.full) {
        let mark = sum.source.mark();
        let _ = write!(
            text,
            ", {mark}{} above idle{}, {mark}{} with idle share{}, {}",
            joules(active),
            per_gigabyte(active.joules(), "J"),
            joules(full),
            per_gigabyte(full.joules(), "J"),
            origin(sum.source, sum.idle)
        );
    }
    Some(text)
}

fn zones(energy: &SnapshotEnergy) -> Vec<Fact> {
    let mark = energy.source.mark();
    let zone = |zone: &mpwatch_model::host::energy::ZoneEnergy| {
        let parts = zone.parts().into_iter().filter(|(.., part)| part.0 > 0);
        let parts: Vec<String> =
            parts.map(|(_, consumer, part)| format!("{mark}{} {consumer}", joules(part))).collect();
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
        [("energy", whole), ("", parts.join(", "))]
    };
    let mut facts: Vec<Fact> =
        energy.zones.iter().flat_map(zone).filter(|(_, fact)| !fact.is_empty()).collect();
    // If no window is known, show the reason instead of 0.
    if let (true, Some(lost)) = (energy.zones.is_empty(), energy.lost.first()) {
        facts.push(("energy", format!("{}: not known, {}", lost.zone, why(lost.reason))));
    }
    facts.extend(energy.advice.iter().map(|advice| ("", advice.clone())));
    facts
}

fn why(reason: LostReason) -> &'static str {
    match reason {
        LostReason::Ambiguous => "its counter may have wrapped more than once",
        LostReason::Backwards => "its counter went backwards, or jumped",
        LostReason::Vanished => "it vanished",
        LostReason::Suspended => "the machine was suspended",
        LostReason::Stuck => "its counter did not advance while the machine was busy",
        LostReason::Unreadable => "its counter could not be read",
    }
}

/// The source of energy figures in words.
fn origin(source: EnergySource, idle: IdleSource) -> String {
    let counter = match source {
        EnergySource::RaplPerf | EnergySource::RaplPowercap => format!("measured, {}", source.as_str()),
        EnergySource::VmShare => "estimated, this virtual machine's share as its host reports it".to_owned(),
        EnergySource::Model => "estimated from CPU time and the typical power of this CPU".to_owned(),
        EnergySource::Simulated => "SIMULATED, no counter was read".to_owned(),
        EnergySource::Absent => "not known".to_owned(),
    };
    let idle = match idle {
        IdleSource::Calibrated => "idle calibrated",
        IdleSource::Observed => "idle observed",
        IdleSource::Fitted => "idle fitted",
        // The model has typical values for both idle and active power.
        IdleSource::Unknown if source == EnergySource::Model => "idle estimated too",
        IdleSource::Unknown => "idle not known",
    };
    format!("{counter}; {idle}")
}

fn joules(energy: Microjoules) -> String {
    metric::display(Unit::Joules, Some(energy.joules()))
}

pub(super) fn time_of(time: Nanos) -> String {
    metric::display(Unit::Seconds, Some(time.seconds()))
}
