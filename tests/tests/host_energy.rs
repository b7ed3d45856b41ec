// SPDX-License-Identifier: MIT OR Apache-2.0
//! Energy of real traffic, with simulated energy counters: what mpwatch attributes, compared with the true values and with the formulas
//! of other tools on the same runs.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use mpwatch_lab::raplsim::Platform;
use mpwatch_lab::raplsim::formula::{FORMULAS, Measurement};
use mpwatch_lab::raplsim::live::{GroundTruth, LoadScope};
use mpwatch_lab::topology::LinkSpec;
use mpwatch_lab::traffic::{self, TrafficSpec, Workload};
use mpwatch_lab::{TaskClock, Topology};
use mpwatch_tests::simulated_counters::{IDLE, SimulatedCounters, cpus};
use mpwatch_tests::{Observer, Report, list, may_run_as_root, number, skip, text};

#[path = "energy/conservation.rs"]
mod conservation;
#[path = "energy/exclusive.rs"]
mod exclusive;
#[path = "energy/fitted.rs"]
mod fitted;
#[path = "energy/processes.rs"]
mod processes;

use exclusive::exclusive;

/// A run of traffic, possibly with a bystander.
#[derive(Clone, Copy)]
struct Scenario {
    name: &'static str,
    paths: usize,
    /// CPUs of client and server.
    pins: [usize; 2],
    connections: u32,
    workload: Workload,
    /// CPU of the bystander, and its share of the CPU in percent.
    bystander: Option<(usize, u32)>,
}

/// Size of the workloads.
struct Size {
    bulk: Duration,
    short_flows: u32,
    requests: u64,
}

fn scenarios(size: &Size) -> Vec<Scenario> {
    // Both ends on one CPU, the bystander on the other, as in the simulated scenarios.
    let solo = Scenario {
        name: "solo",
        paths: 2,
        pins: [0, 0],
        connections: 1,
        workload: Workload::upload_for(size.bulk),
        bystander: None,
    };
    let other = (cpus() as usize).min(2) - 1;
    let with_bystander = |name, cpu, percent| Scenario { name, bystander: Some((cpu, percent)), ..solo };
    let spread = Scenario { pins: [0, other], ..solo };
    let subflows = |name, paths| Scenario { name, paths, ..spread };
    let download =
        Workload::Bulk { amount: traffic::Amount::For(size.bulk), sender: traffic::Sender::Server };
    let requests = Workload::Requests {
        count: size.requests,
        request_bytes: 64,
        response_bytes: 64,
        think_time: Duration::ZERO,
    };
    vec![
        solo,
        with_bystander("bystander-25", other, 25),
        with_bystander("bystander-50", other, 50),
        with_bystander("bystander-100", other, 100),
        with_bystander("same-core", 0, 100),
        Scenario {
            name: "churn",
            connections: size.short_flows,
            workload: Workload::upload(1_000),
            ..spread
        },
        subflows("subflows-1", 1),
        subflows("subflows-2", 2),
        subflows("subflows-4", 4),
        subflows("subflows-8", 8),
        Scenario { name: "rx-heavy", workload: download, ..spread },
        Scenario { name: "tx-heavy", ..spread },
        Scenario { name: "request-response", workload: requests, ..spread },
    ]
}

/// The result of a scenario.
#[derive(Debug)]
struct Row {
    name: &'static str,
    /// Relative error of mpwatch's energy.
    energy_error: f64,
    /// Relative error of mpwatch's CPU time.
    cpu_time_error: f64,
    /// Relative errors of the formulas of other tools.
    formula_errors: Vec<f64>,
    /// True CPU time, seconds.
    cpu_seconds: f64,
    /// Busy share of the machine.
    busy: f64,
    /// Share of kernel workers in the CPU time.
    workers: f64,
    /// CPU time of flows outside the lab, relative to the true CPU time of the lab.
    foreign: f64,
}

fn run(scenario: &Scenario, ledger: &str) -> Row {
    let qualities = vec![LinkSpec::default(); scenario.paths];
    let topology = Topology::disjoint(&qualities).unwrap();
    let mut simulated = SimulatedCounters::new(Platform::Intel1);
    simulated.write_power_file();
    simulated.start(LoadScope::Machine);
    let mut arguments = vec!["--ledger", ledger];
    let counters = simulated.arguments();
    arguments.extend(counters.iter().map(String::as_str));
    let observer = Observer::start(&arguments);
    let bystander = scenario.bystander.map(|(cpu, percent)| processes::Bystander::start(cpu, percent));
    let mut spec = TrafficSpec::new(topology.path(0).unwrap().server_address(), scenario.workload);
    (spec.connections, spec.read_socket_info, spec.cpus) = (scenario.connections, false, Some(scenario.pins));
    let (threads, before) = (KernelThreads::start(), simulated.so_far());
    let endpoints = processes::run(&topology, &spec);
    let (threads, after) = (threads.used(), simulated.so_far());
    drop(bystander);
    let report = observer.finish_after_close(&topology);
    let cpu_time = endpoints + threads;
    compare(scenario.name, &simulated, cpu_time, &[before, after], &Charged::of(&report, &topology))
}

/// Compares the charged energy with the true energy of this CPU time.
fn compare(
    name: &'static str,
    simulated: &SimulatedCounters,
    cpu_time: u64,
    [before, after]: &[GroundTruth; 2],
    charged: &Charged,
) -> Row {
    let machine = simulated.machine();
    let truth = machine.active(cpu_time).unwrap() as f64;
    let since = |of: fn(&GroundTruth) -> f64| of(after) - of(before);
    let measured = Measurement {
        energy: since(|truth| truth.energy_by_package[0] as f64 / 1e12),
        elapsed: since(|truth| truth.elapsed as f64 / 1e9),
        cpus: f64::from(machine.cpus),
        own: cpu_time as f64 / 1e9,
        all: since(|truth| truth.busy_by_package[0] as f64 / 1e9),
        idle: f64::from(IDLE) / 1e3,
    };
    Row {
        name,
        energy_error: charged.energy as f64 * 1e6 / truth - 1.0,
        cpu_time_error: charged.cpu_time as f64 / cpu_time as f64 - 1.0,
        formula_errors: FORMULAS.iter().map(|(_, formula)| formula(&measured) * 1e12 / truth - 1.0).collect(),
        cpu_seconds: measured.own,
        busy: measured.all / measured.cpus / measured.elapsed,
        workers: charged.workers as f64 / charged.cpu_time as f64,
        foreign: charged.foreign as f64 / cpu_time as f64,
    }
}

/// What mpwatch charged to the traffic: its flows at both ends, the code of both ends, and network work of unknown flows.
#[derive(Debug, Default)]
struct Charged {
    /// Microjoules above idle.
    energy: u64,
    /// Nanoseconds.
    cpu_time: u64,
    /// Nanoseconds of kernel workers.
    workers: u64,
    /// Nanoseconds of other flows on this machine. Their applications are in the same account as ours.
    foreign: u64,
}

impl Charged {
    fn of(report: &Report, topology: &Topology) -> Self {
        let mut charged = Self::default();
        for end in [topology.client(), topology.server()] {
            for connection in report.connections_in(end.name()) {
                let energy = &connection["energy"];
                assert_eq!((text(energy, "source"), text(energy, "idle")), ("rapl-powercap", "calibrated"));
                charged.energy += number(energy, "active_uj");
                charged.cpu_time += number(energy, "cpu_ns");
                charged.workers += number(&connection["cpu_ns"], "worker");
            }
        }
        for connection in list(&report.json, "connections") {
            if ![topology.client().name(), topology.server().name()].contains(&text(connection, "netns")) {
                charged.foreign += connection["energy"]["cpu_ns"].as_u64().unwrap_or(0);
            }
        }
        for zone in list(&report.json["energy"], "zones") {
            charged.energy += number(zone, "app_uj") + number(zone, "net_shared_uj");
        }
        for cpu in list(&report.json, "cpus") {
            charged.cpu_time += number(cpu, "app_ns") + number(cpu, "net_shared_ns");
        }
        charged
    }
}

/// The kernel threads that work for the network: ksoftirqd, and the workers that join paths. The test assumes that they work only for
/// the lab.
struct KernelThreads(BTreeMap<i32, TaskClock>);

impl KernelThreads {
    fn start() -> Self {
        Self(Self::all().into_iter().filter_map(|tid| Some((tid, TaskClock::of(tid).ok()?))).collect())
    }

    fn all() -> Vec<i32> {
        let entries = fs::read_dir("/proc").unwrap().flatten();
        let tids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let is_network_thread = |tid: &i32| {
            let comm = fs::read_to_string(format!("/proc/{tid}/comm")).unwrap_or_default();
            comm.starts_with("ksoftirqd/") || comm.starts_with("kworker/")
        };
        tids.filter(is_network_thread).collect()
    }

    /// CPU time since the start. For threads created later it is that of schedstat, which is slightly too high.
    fn used(&self) -> u64 {
        let of_new = |tid: i32| {
            let stat = fs::read_to_string(format!("/proc/{tid}/schedstat")).unwrap_or_default();
            stat.split(' ').next().and_then(|ns| ns.parse::<u64>().ok()).unwrap_or(0)
        };
        let new = Self::all().into_iter().filter(|tid| !self.0.contains_key(tid)).map(of_new);
        let known = self.0.values().map(|clock| u64::try_from(clock.read().unwrap().as_nanos()).unwrap());
        new.chain(known).sum()
    }
}

fn print(rows: &[Row]) {
    println!(
        "| scenario | busy | CPU s | workers | CPU time | mpwatch | {} |",
        FORMULAS.map(|(name, _)| name).join(" | ")
    );
    println!("|---|---|---|---|---|---|{}", "---|".repeat(FORMULAS.len()));
    for row in rows {
        let formula_errors: Vec<String> =
            row.formula_errors.iter().map(|error| format!("{:+.1} %", error * 100.0)).collect();
        println!(
            "| {} | {:.0} % | {:.2} | {:.1} % | {:+.2} % | {:+.2} % | {} |",
            row.name,
            row.busy * 100.0,
            row.cpu_seconds,
            row.workers * 100.0,
            row.cpu_time_error * 100.0,
            row.energy_error * 100.0,
            formula_errors.join(" | ")
        );
    }
    let [mean, worst] = mean_and_worst(rows);
    println!("mean {:.2} %, worst {:.2} %", mean * 100.0, worst * 100.0);
    for (name, effect) in bystander_effects(rows) {
        println!("effect of {name}: {:+.2} %", effect * 100.0);
    }
}

impl Row {
    /// Whether other MPTCP traffic on the machine makes the result invalid.
    fn is_disturbed(&self) -> bool {
        self.foreign > 0.02
    }
}

/// Repeats a disturbed scenario. Processes that run for some milliseconds, such as a compiler's, use no energy in the simulation, but
/// mpwatch charges a share to them.
fn run_undisturbed(scenario: &Scenario, ledger: &str) -> Row {
    let mut row = run(scenario, ledger);
    for _ in 0..2 {
        if row.energy_error.abs() <= MAX_ERROR && !row.is_disturbed() {
            break;
        }
        println!("repeating: {row:?}");
        row = run(scenario, ledger);
    }
    row
}

/// Bounds of the relative error of the energy. They are far above the errors on an idle machine (docs/energy.md), because other
/// programs may run: their MPTCP traffic is charged as ours, and their short-lived processes reduce our share.
const MAX_ERROR: f64 = 0.15;
const MAX_MEAN_ERROR: f64 = 0.08;
/// Maximum effect of a bystander, including that of other programs.
const MAX_BYSTANDER_EFFECT: f64 = 0.1;

#[test]
fn the_energy_of_flows_is_close_to_the_true_energy() {
    if !may_run_as_root() {
        return;
    }
    let _guard = exclusive();
    let size = Size { bulk: Duration::from_millis(1_500), short_flows: 1_000, requests: 15_000 };
    let rows: Vec<Row> = scenarios(&size).iter().map(|scenario| run_undisturbed(scenario, "exact")).collect();
    print(&rows);
    if rows.iter().any(Row::is_disturbed) {
        skip("other programs use MPTCP on this machine");
        return;
    }
    let [mean, worst] = mean_and_worst(&rows);
    assert!(mean <= MAX_MEAN_ERROR && worst <= MAX_ERROR, "mean {mean}, worst {worst}");
    for (name, effect) in bystander_effects(&rows) {
        assert!(effect.abs() <= MAX_BYSTANDER_EFFECT, "{name}: {effect}");
    }
    for (tool, (name, _)) in FORMULAS.iter().enumerate() {
        let worst = rows.iter().map(|row| row.formula_errors[tool].abs()).fold(0.0, f64::max);
        assert!(worst > 0.2, "the formula of {name} has no large error");
    }
}

/// Bounds for `--ledger sampled`: a scenario has one or two windows only.
const MAX_SAMPLED_ERROR: f64 = 0.3;
const MAX_SAMPLED_MEAN_ERROR: f64 = 0.15;

#[test]
fn the_energy_of_a_sampled_ledger_is_close_to_the_true_energy() {
    if !may_run_as_root() {
        return;
    }
    let _guard = exclusive();
    let size = Size { bulk: Duration::from_secs(3), short_flows: 1_000, requests: 50_000 };
    let wanted = ["solo", "bystander-50", "request-response"];
    let chosen = scenarios(&size).into_iter().filter(|scenario| wanted.contains(&scenario.name));
    let rows: Vec<Row> = chosen.map(|scenario| run_undisturbed(&scenario, "sampled")).collect();
    print(&rows);
    if rows.iter().any(Row::is_disturbed) {
        skip("other programs use MPTCP on this machine");
        return;
    }
    let [mean, worst] = mean_and_worst(&rows);
    assert!(mean <= MAX_SAMPLED_MEAN_ERROR && worst <= MAX_SAMPLED_ERROR, "mean {mean}, worst {worst}");
}

/// Prints the table of docs/energy.md. Run it on an idle machine.
#[test]
#[ignore = "takes minutes"]
fn table_of_scenarios() {
    let _guard = exclusive();
    let size = Size { bulk: Duration::from_secs(3), short_flows: 10_000, requests: 50_000 };
    for ledger in ["exact", "sampled"] {
        println!("--ledger {ledger}");
        print(&scenarios(&size).iter().map(|scenario| run(scenario, ledger)).collect::<Vec<_>>());
    }
}

fn mean_and_worst(rows: &[Row]) -> [f64; 2] {
    let errors = rows.iter().map(|row| row.energy_error.abs());
    [errors.clone().sum::<f64>() / rows.len() as f64, errors.fold(0.0, f64::max)]
}

/// The relative effect of each bystander on the energy per CPU second of the traffic.
fn bystander_effects(rows: &[Row]) -> Vec<(&'static str, f64)> {
    let has_bystander = |row: &&Row| row.name.starts_with("bystander") || row.name == "same-core";
    let effect = |row: &Row| (1.0 + row.energy_error) / (1.0 + rows[0].energy_error) - 1.0;
    rows.iter().filter(has_bystander).map(|row| (row.name, effect(row))).collect()
}
