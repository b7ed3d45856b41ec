// SPDX-License-Identifier: MIT OR Apache-2.0
//! How often each BPF program runs for a piece of traffic, and for how long, by the kernel's own statistics. Those cost time
//! themselves, most of it inside of what they measure: a program that does nothing shows how much.

use std::collections::BTreeMap;

use mpwatch_ebpf::program::ProgramStats;
use mpwatch_ebpf::run_statistics::{EmptyProgram, RunStatistics};
use mpwatch_ebpf::tracer::{Settings, Tracer};
use mpwatch_lab::Topology;

use super::Effort;
use super::load::{Load, Workload, workloads};
use super::table::{figure, markdown};

const EMPTY: &str = "(an empty program)";

/// Of one program for one workload.
#[derive(Clone, Copy, Default)]
struct Running {
    runs_a_unit: f64,
    ns: f64,
}

pub(super) fn run(lab: &Topology, effort: Effort) -> String {
    let workloads = workloads();
    let measured: Vec<_> = workloads.iter().map(|workload| measure(lab, workload, effort)).collect();
    let mut header = vec!["program".to_owned()];
    for workload in &workloads {
        header.push(format!("{}: runs a {}", workload.name, workload.unit));
        header.push("ns each".to_owned());
    }
    let names: std::collections::BTreeSet<_> = measured.iter().flat_map(BTreeMap::keys).cloned().collect();
    let mut rows: Vec<_> = names.iter().map(|name| row(name, &measured)).collect();
    rows.push(sum("all of ours, us a unit", &measured, 0.0));
    let empty = |all: &BTreeMap<String, Running>| all.get(EMPTY).map_or(0.0, |running| running.ns);
    let least = measured.iter().map(empty).fold(f64::INFINITY, f64::min);
    rows.push(sum("the same without what an empty program shows", &measured, least));
    let header: Vec<&str> = header.iter().map(String::as_str).collect();
    markdown(&header, &rows)
}

fn measure(lab: &Topology, workload: &Workload, effort: Effort) -> BTreeMap<String, Running> {
    let tracer = Tracer::start(Settings::default()).expect("this kernel can be traced");
    let _statistics = RunStatistics::switch_on().expect("the kernel counts for root");
    let empty = EmptyProgram::attach(c"sys_enter").expect("an empty program can be attached");
    let load = Load::start(lab, workload, effort);
    let all = || {
        let mut all = tracer.programs().expect("the kernel tells of our programs");
        all.push((EMPTY.to_owned(), empty.stats().expect("the kernel tells of an empty program")));
        all
    };
    let before = all();
    let sample = load.measure(effort.window * 4);
    let after = all();
    let differences = before.iter().zip(after).map(|((_, before), (name, after))| (name, *before, after));
    let ran = differences.filter(|(_, before, after)| after.runs > before.runs);
    ran.map(|(name, before, after)| (name, running(before, after, sample.units))).collect()
}

fn running(before: ProgramStats, after: ProgramStats, units: f64) -> Running {
    let runs = (after.runs - before.runs) as f64;
    Running { runs_a_unit: runs / units, ns: (after.run_time_ns - before.run_time_ns) as f64 / runs }
}

fn row(name: &str, measured: &[BTreeMap<String, Running>]) -> Vec<String> {
    let mut row = vec![format!("`{name}`")];
    for all in measured {
        match all.get(name) {
            Some(running) => row.extend([figure(running.runs_a_unit), format!("{:.0}", running.ns)]),
            None => row.extend(["-".to_owned(), "-".to_owned()]),
        }
    }
    row
}

/// Time of all programs for one unit, less so many nanoseconds a run.
fn sum(title: &str, measured: &[BTreeMap<String, Running>], less: f64) -> Vec<String> {
    let mut row = vec![title.to_owned()];
    for all in measured {
        let ours = all.iter().filter(|(name, _)| name.as_str() != EMPTY);
        let ns: f64 = ours.map(|(_, running)| running.runs_a_unit * (running.ns - less).max(0.0)).sum();
        row.extend([figure(ns / 1e3), "-".to_owned()]);
    }
    row
}
