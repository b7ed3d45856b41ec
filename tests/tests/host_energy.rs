// SPDX-License-Identifier: MIT OR Apache-2.0
//! Joules of real traffic on the real kernel, on a machine whose energy counters are simulated: what mpwatch charges against what is
//! true, and against the formulas of other tools on the same runs.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mpwatch_lab::raplsim::formula::{FORMULAS, Seen};
use mpwatch_lab::raplsim::live::{Load, Truth};
use mpwatch_lab::raplsim::{Shape, ZoneSpec};
use mpwatch_lab::topology::Quality;
use mpwatch_lab::traffic::{self, Spec, Workload};
use mpwatch_lab::{TaskClock, Topology, poll_until};
use mpwatch_tests::simulated::{IDLE, Simulated, cpus};
use mpwatch_tests::{Observer, Report, ZONE_PARTS, list, may_run_as_root, number, pace, skip, text};
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};

#[path = "energy/ends.rs"]
mod ends;

/// A run of traffic beside which something else may run.
#[derive(Clone, Copy)]
struct Scenario {
    name: &'static str,
    paths: usize,
    /// CPUs of client and server.
    pins: [usize; 2],
    connections: u32,
    workload: Workload,
    /// CPU, and part of its time in percent.
    bystander: Option<(usize, u32)>,
}

/// How long, and how often.
struct Size {
    bulk: Duration,
    short_flows: u32,
    requests: u64,
}

fn scenarios(size: &Size) -> Vec<Scenario> {
    // Both ends on one CPU leave the other to the bystander, as in the replayed scenarios.
    let solo = Scenario {
        name: "solo",
        paths: 2,
        pins: [0, 0],
        connections: 1,
        workload: Workload::upload_for(size.bulk),
        bystander: None,
    };
    let other = (cpus() as usize).min(2) - 1;
    let beside = |name, cpu, percent| Scenario { name, bystander: Some((cpu, percent)), ..solo };
    let spread = Scenario { pins: [0, other], ..solo };
    let subflows = |name, paths| Scenario { name, paths, ..spread };
    let download =
        Workload::Bulk { amount: traffic::Amount::For(size.bulk), sender: traffic::Sender::Server };
    let requests = Workload::Requests { count: size.requests, up: 64, down: 64, think: Duration::ZERO };
    vec![
        solo,
        beside("bystander-25", other, 25),
        beside("bystander-50", other, 50),
        beside("bystander-100", other, 100),
        beside("same-core", 0, 100),
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

/// Of one scenario: relative errors, and what they are made of.
#[derive(Debug)]
struct Row {
    name: &'static str,
    ours: f64,
    /// Of CPU time alone.
    ledger: f64,
    theirs: Vec<f64>,
    /// True CPU seconds, and the part of the machine that was busy.
    seconds: f64,
    busy: f64,
    /// Part of the charged CPU time that the kernel's workers spent.
    workers: f64,
    /// CPU time of flows that are not the lab's, over the true one.
    foreign: f64,
}

fn run(scenario: &Scenario) -> Row {
    let qualities = vec![Quality::default(); scenario.paths];
    let topology = Topology::disjoint(&qualities).unwrap();
    let mut simulated = Simulated::new(Shape::Intel1);
    simulated.write_law();
    simulated.run(Load::Everything);
    let observer = Observer::start(&simulated.arguments().each_ref().map(String::as_str));
    let bystander = scenario.bystander.map(|(cpu, percent)| ends::Bystander::start(cpu, percent));
    let mut spec = Spec::new(topology.path(0).unwrap().server_address(), scenario.workload);
    (spec.connections, spec.account, spec.cpus) = (scenario.connections, false, Some(scenario.pins));
    let (threads, before) = (KernelThreads::watch(), simulated.so_far());
    let ends = ends::run(&topology, &spec);
    let (threads, after) = (threads.used(), simulated.so_far());
    drop(bystander);
    let report = observer.finish_when_quiet(&topology);
    let own = ends + threads;
    judge(scenario.name, &simulated, own, &[before, after], &Charged::of(&report, &topology))
}

/// Holds what was charged against what this much CPU time truly costs.
fn judge(
    name: &'static str,
    simulated: &Simulated,
    own: u64,
    between: &[Truth; 2],
    charged: &Charged,
) -> Row {
    let machine = simulated.machine();
    let truth = machine.active(own).unwrap() as f64;
    let since = |of: fn(&Truth) -> f64| of(&between[1]) - of(&between[0]);
    let seen = Seen {
        energy: since(|truth| truth.packages[0] as f64 / 1e12),
        elapsed: since(|truth| truth.elapsed as f64 / 1e9),
        cpus: f64::from(machine.cpus),
        own: own as f64 / 1e9,
        all: since(|truth| truth.loads[0] as f64 / 1e9),
        idle: f64::from(IDLE) / 1e3,
    };
    Row {
        name,
        ours: charged.energy as f64 * 1e6 / truth - 1.0,
        ledger: charged.time as f64 / own as f64 - 1.0,
        theirs: FORMULAS.iter().map(|(_, formula)| formula(&seen) * 1e12 / truth - 1.0).collect(),
        seconds: seen.own,
        busy: seen.all / seen.cpus / seen.elapsed,
        workers: charged.workers as f64 / charged.time as f64,
        foreign: charged.foreign as f64 / own as f64,
    }
}

/// What mpwatch says of the traffic: its flows at both ends, the code of its two ends, and network work that no flow was known for.
#[derive(Debug, Default)]
struct Charged {
    /// Microjoules above idle.
    energy: u64,
    /// Nanoseconds.
    time: u64,
    workers: u64,
    /// Of other flows on this machine, whose applications cannot be told from ours.
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
                charged.time += number(energy, "cpu_ns");
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
            charged.time += number(cpu, "app_ns") + number(cpu, "net_shared_ns");
        }
        charged
    }
}

/// The kernel's own threads that work for the network: softirqs that became too many, and workers, which join further paths. The lab
/// is taken to be their only customer.
struct KernelThreads(BTreeMap<i32, TaskClock>);

impl KernelThreads {
    fn watch() -> Self {
        Self(Self::all().into_iter().filter_map(|tid| Some((tid, TaskClock::of(tid).ok()?))).collect())
    }

    fn all() -> Vec<i32> {
        let entries = fs::read_dir("/proc").unwrap().flatten();
        let tids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let ours = |tid: &i32| {
            let comm = fs::read_to_string(format!("/proc/{tid}/comm")).unwrap_or_default();
            comm.starts_with("ksoftirqd/") || comm.starts_with("kworker/")
        };
        tids.filter(ours).collect()
    }

    /// Time used since; of those that have come since by the scheduler's account, which is a little too large.
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
        let theirs: Vec<String> = row.theirs.iter().map(|error| format!("{:+.1} %", error * 100.0)).collect();
        println!(
            "| {} | {:.0} % | {:.2} | {:.1} % | {:+.2} % | {:+.2} % | {} |",
            row.name,
            row.busy * 100.0,
            row.seconds,
            row.workers * 100.0,
            row.ledger * 100.0,
            row.ours * 100.0,
            theirs.join(" | ")
        );
    }
    let [mean, worst] = mean_and_worst(rows);
    println!("mean {:.2} %, worst {:.2} %", mean * 100.0, worst * 100.0);
    for (name, effect) in bystander_effects(rows) {
        println!("effect of {name}: {:+.2} %", effect * 100.0);
    }
}

impl Row {
    /// Others have used MPTCP at the same time, more than the bounds forgive.
    fn is_disturbed(&self) -> bool {
        self.foreign > 0.02
    }
}

/// A scenario that others have disturbed is run again: what lives for some milliseconds only (a compiler's children) draws no power
/// in the simulation, and yet gets its part of what the flow drew.
fn run_undisturbed(scenario: &Scenario) -> Row {
    let mut row = run(scenario);
    for _ in 0..2 {
        if row.ours.abs() <= WORST && !row.is_disturbed() {
            break;
        }
        println!("again: {row:?}");
        row = run(scenario);
    }
    row
}

/// Of the energy: far from what is reached on a quiet machine (docs/energy.md), since other programs may be at work on this one. Their
/// MPTCP traffic would be charged as ours, and their short-lived processes dilute what is.
const WORST: f64 = 0.15;
const MEAN: f64 = 0.08;
/// What others at work may add to the effect of a bystander.
const EFFECT: f64 = 0.1;

#[test]
fn flows_cost_what_they_truly_cost() {
    if !may_run_as_root() {
        return;
    }
    let _alone = alone();
    let size = Size { bulk: Duration::from_millis(1_500), short_flows: 1_000, requests: 15_000 };
    let rows: Vec<Row> = scenarios(&size).iter().map(run_undisturbed).collect();
    print(&rows);
    if rows.iter().any(Row::is_disturbed) {
        skip("others use MPTCP on this machine");
        return;
    }
    let [mean, worst] = mean_and_worst(&rows);
    assert!(mean <= MEAN && worst <= WORST, "mean {mean}, worst {worst}");
    for (name, effect) in bystander_effects(&rows) {
        assert!(effect.abs() <= EFFECT, "{name}: {effect}");
    }
    for (tool, (name, _)) in FORMULAS.iter().enumerate() {
        let theirs = rows.iter().map(|row| row.theirs[tool].abs()).fold(0.0, f64::max);
        assert!(theirs > 0.2, "a formula without error: {name}");
    }
}

/// The numbers of docs/energy.md. They are to be read, on a machine that nobody else uses.
#[test]
#[ignore = "takes minutes"]
fn table_of_scenarios() {
    let _alone = alone();
    let size = Size { bulk: Duration::from_secs(3), short_flows: 10_000, requests: 50_000 };
    print(&scenarios(&size).iter().map(run).collect::<Vec<_>>());
}

fn mean_and_worst(rows: &[Row]) -> [f64; 2] {
    let errors = rows.iter().map(|row| row.ours.abs());
    [errors.clone().sum::<f64>() / rows.len() as f64, errors.fold(0.0, f64::max)]
}

/// By how much a bystander changes what a CPU second of the same traffic costs.
fn bystander_effects(rows: &[Row]) -> Vec<(&'static str, f64)> {
    let beside = |row: &&Row| row.name.starts_with("bystander") || row.name == "same-core";
    rows.iter().filter(beside).map(|row| (row.name, (1.0 + row.ours) / (1.0 + rows[0].ours) - 1.0)).collect()
}

#[test]
fn every_microjoule_of_every_counter_is_in_one_place() {
    if may_run_as_root() {
        conservation(pace::limit(Duration::from_secs(5)));
    }
}

#[test]
#[ignore = "takes a minute"]
fn every_microjoule_of_a_minute_is_in_one_place() {
    conservation(Duration::from_mins(1));
}

/// The counters stand still when mpwatch begins and when it ends, so that what it has seen is known to the microjoule.
fn conservation(length: Duration) {
    let _alone = alone();
    // Two sockets with memory, or one where the CPUs cannot be divided.
    let shape = if cpus().is_multiple_of(2) { Shape::Dram } else { Shape::DramOnTop };
    let topology = Topology::two_paths(Quality::default(), Quality::default()).unwrap();
    let mut simulated = Simulated::new(shape);
    simulated.write_law();
    let zones = simulated.counted();
    let first: Vec<u64> = zones.iter().map(|zone| simulated.shown(zone.device)).collect();
    let reads = Reads::of(&simulated.counter(zones[0].device));
    let observer = Observer::start(&simulated.arguments().each_ref().map(String::as_str));
    reads.wait_for_windows(2);
    simulated.run(Load::Everything);
    let spec = Spec::new(topology.path(0).unwrap().server_address(), Workload::upload_for(length));
    traffic::run(topology.client(), topology.server(), &spec).unwrap();
    simulated.stop();
    let report = observer.finish_when_quiet(&topology);
    let told = list(&report.json["energy"], "zones");
    assert_eq!(told.len(), zones.len(), "{told:#?}");
    for (spec, first) in zones.iter().zip(first) {
        let label = label(spec, &zones);
        let zone = told.iter().find(|zone| zone["zone"] == label).unwrap_or_else(|| panic!("no {label}"));
        println!("{zone}");
        assert_eq!(number(zone, "zone_uj"), ZONE_PARTS.iter().map(|part| number(zone, part)).sum::<u64>());
        assert_eq!(number(zone, "zone_uj"), simulated.shown(spec.device) - first, "{label}");
        assert_eq!(number(zone, "windows_lost"), 0);
        assert!(number(zone, "flows_uj") > 0);
    }
    assert_eq!(number(&report.json["losses"], "energy_windows_broken"), 0);
}

/// `package-0`, and `package-0/dram` for memory inside of it.
fn label(zone: &ZoneSpec, all: &[ZoneSpec]) -> String {
    let name = zone.name.unwrap();
    let outer =
        zone.device.rsplit_once(':').and_then(|(outer, _)| all.iter().find(|zone| zone.device == outer));
    outer.map_or(name.to_owned(), |outer| format!("{}/{name}", outer.name.unwrap()))
}

/// Tells when a file is read.
struct Reads(Inotify);

impl Reads {
    fn of(path: &Path) -> Self {
        let inotify = Inotify::init(InitFlags::IN_NONBLOCK | InitFlags::IN_CLOEXEC).unwrap();
        inotify.add_watch(path, AddWatchFlags::IN_ACCESS).unwrap();
        Self(inotify)
    }

    /// A window reads the counter before and after it settles the ledger, up to three times.
    fn wait_for_windows(&self, windows: u32) {
        while self.0.read_events().is_ok() {}
        for _ in 0..windows * 6 {
            let read = || self.0.read_events().ok().map(|_| ());
            poll_until("mpwatch to read a counter", pace::limit(Duration::from_secs(10)), read).unwrap();
        }
    }
}

/// These tests judge what the whole machine does: one at a time.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}
