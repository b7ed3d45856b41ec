// SPDX-License-Identifier: MIT OR Apache-2.0
//! Number of runs and run time of each BPF program per unit of traffic, from the kernel's run-time statistics. Measuring itself takes time,
//! most of it inside the measured time; the run time of an empty program shows how much.

use std::collections::{BTreeMap, BTreeSet};

use mpwatch_ebpf::run_statistics::{self, EmptyProgram};
use mpwatch_ebpf::tracer::ProgramStats;
use mpwatch_ebpf::tracer::{Tracer, TracerSettings};
use mpwatch_lab::Topology;

use crate::effort::Effort;
use crate::subjects::traffic::{BenchWorkload, Traffic, workloads};
use crate::table::{figure, markdown};

const EMPTY: &str = "(an empty program)";

/// Runs and run time of a program under a workload.
#[derive(Clone, Copy, Default)]
struct RunTime {
    runs_per_unit: f64,
    ns_per_run: f64,
}

pub(crate) fn run(lab: &Topology, effort: Effort) -> String {
    let workloads = workloads();
    let measured: Vec<_> = workloads.iter().map(|workload| measure(lab, workload, effort)).collect();
    let mut header = vec!["program".to_owned()];
    for workload in &workloads {
        header.push(format!("{}: runs per {}", workload.name, workload.unit));
        header.push("ns per run".to_owned());
    }
    let names: BTreeSet<_> = measured.iter().flat_map(BTreeMap::keys).cloned().collect();
    let mut rows: Vec<_> = names.iter().map(|name| row(name, &measured)).collect();
    rows.push(total("all programs of mpwatch, us per unit", &measured, 0.0));
    let empty = |all: &BTreeMap<String, RunTime>| all.get(EMPTY).map_or(0.0, |time| time.ns_per_run);
    let least = measured.iter().map(empty).fold(f64::INFINITY, f64::min);
    rows.push(total("the same, less the time of an empty program per run", &measured, least));
    let header: Vec<&str> = header.iter().map(String::as_str).collect();
    markdown(&header, &rows)
}

fn measure(lab: &Topology, workload: &BenchWorkload, effort: Effort) -> BTreeMap<String, RunTime> {
    let tracer = Tracer::start(TracerSettings::default()).expect("this kernel can be traced");
    let _statistics = run_statistics::enable().expect("root may enable run-time statistics");
    let empty = EmptyProgram::attach(c"sys_enter").expect("an empty program can be attached");
    let traffic = Traffic::start(lab, workload, effort);
    let read_all = || {
        let mut all = tracer.programs().expect("the kernel reports our programs");
        all.push((EMPTY.to_owned(), empty.stats().expect("the kernel reports an empty program")));
        all
    };
    let before = read_all();
    let sample = traffic.measure(effort.window * 4);
    let after = read_all();
    let both = before.iter().zip(after).map(|((_, before), (name, after))| (name, *before, after));
    let ran = both.filter(|(_, before, after)| after.runs > before.runs);
    ran.map(|(name, before, after)| (name, run_time(before, after, sample.units))).collect()
}

fn run_time(before: ProgramStats, after: ProgramStats, units: f64) -> RunTime {
    let runs = (after.runs - before.runs) as f64;
    RunTime {
        runs_per_unit: runs / units,
        ns_per_run: (after.run_time_ns - before.run_time_ns) as f64 / runs,
    }
}

fn row(name: &str, measured: &[BTreeMap<String, RunTime>]) -> Vec<String> {
    let mut row = vec![format!("`{name}`")];
    for all in measured {
        match all.get(name) {
            Some(time) => row.extend([figure(time.runs_per_unit), format!("{:.0}", time.ns_per_run)]),
            None => row.extend(["-".to_owned(), "-".to_owned()]),
        }
    }
    row
}

/// A row with the time of all programs per unit, minus `less_ns` nanoseconds per run.
fn total(title: &str, measured: &[BTreeMap<String, RunTime>], less_ns: f64) -> Vec<String> {
    let mut row = vec![title.to_owned()];
    for all in measured {
        let ours = all.iter().filter(|(name, _)| name.as_str() != EMPTY);
        let ns: f64 = ours.map(|(_, time)| time.runs_per_unit * (time.ns_per_run - less_ns).max(0.0)).sum();
        row.extend([figure(ns / 1e3), "-".to_owned()]);
    }
    row
}
