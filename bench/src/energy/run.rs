// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs a scenario with one or more recorders in parallel. Returns the true CPU time and energy, and the charges of each recorder.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use mpwatch_fixtures::formula::Measurement;
use mpwatch_lab::raplsim::live::{GroundTruth, LoadScope};
use mpwatch_lab::raplsim::{Platform, SimulatedMachine};
use mpwatch_lab::topology::LinkSpec;
use mpwatch_lab::traffic::{PORT, TrafficSpec, Transport, Workload};
use mpwatch_lab::{TaskClock, Topology};
use serde_json::Value;

use super::processes::{self, Ends, Stopped};
use super::scenario::{Bystander, Flows, Scenario};
use super::simulated_counters::{IDLE, SimulatedCounters};
use mpwatch_testkit::{Observer, Report, list, number, text};

/// The accuracy targets apply to flows with at least this CPU time, nanoseconds.
pub(crate) const LARGE: u64 = 1_000_000_000;

/// Time after which traffic counts as stuck (docs/measurements/robustness.md). Scenarios normally end a few seconds after their transfers.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The truth of a run, and the charges of each recorder.
pub struct Run {
    /// True energy of the traffic above idle, microjoules.
    pub energy: f64,
    /// True CPU time of the traffic, nanoseconds: both ends, and kernel threads that work for the network.
    pub cpu_time: u64,
    /// Values of the whole machine and of the traffic during the run, as inputs for the formulas of other tools.
    pub measured: Measurement,
    /// The charges of each requested ledger, in the order of the request.
    pub charged: Vec<Charged>,
}

/// The charges that a recorder makes to the traffic: flows and applications at both ends, and network work before the socket of a packet is
/// known. The network work is left out if a bystander also sends packets, because most of it is then the bystander's. Otherwise it is 1 to
/// 2 % of the traffic's CPU time.
#[derive(Debug, Default)]
pub struct Charged {
    /// Energy above idle, microjoules.
    pub energy: u64,
    /// Lower and upper bound, microjoules: the bounds of the flows, plus the energy that has no bounds.
    pub bounds: [u64; 2],
    /// CPU time, nanoseconds.
    pub cpu_time: u64,
    /// CPU time of kernel workers, nanoseconds.
    pub workers: u64,
    /// CPU time of interrupts, nanoseconds; not charged to flows. The kernel adds this time to the interrupted task, so interrupts of
    /// the traffic's threads are part of the truth.
    pub interrupts: u64,
    /// CPU time of other flows on this machine, nanoseconds. Their applications are in the same account as the traffic's applications.
    pub foreign: u64,
    /// The charge to each connection at each end, by namespace and id.
    pub flows: BTreeMap<String, Charge>,
}

/// The charge to a connection at one end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Charge {
    /// Energy above idle, microjoules.
    pub energy: u64,
    /// Lower and upper bound, microjoules.
    pub bounds: [u64; 2],
    /// CPU time, nanoseconds.
    pub cpu_time: u64,
    /// Estimated bytes of headers in both directions, which are proportional to the number of segments.
    pub headers: u64,
}

/// Runs a scenario once, with a recorder in parallel for each of these ledgers.
pub fn run(scenario: &Scenario, ledgers: &[&str]) -> Result<Run, Stopped> {
    let links = vec![LinkSpec::default(); scenario.paths];
    let topology = Topology::disjoint(&links).unwrap();
    let mut simulated = SimulatedCounters::new(Platform::Intel1);
    simulated.write_power_file();
    simulated.start(LoadScope::Machine);
    let counters = simulated.arguments();
    let recorders = ledgers.iter().map(|ledger| {
        let arguments = [&["--ledger", ledger], &counters.each_ref().map(String::as_str)[..]].concat();
        Observer::start(&arguments)
    });
    let recorders: Vec<Observer> = recorders.collect();
    let bystander = scenario.bystander.map(RunningBystander::start);
    let (threads, before) = (KernelThreads::start(), simulated.so_far());
    let endpoints = run_traffic(&topology, &scenario.traffic)?;
    let (threads, after) = (threads.used(), simulated.so_far());
    drop(bystander);
    let reports = recorders.into_iter().map(|recorder| recorder.finish_after_close(&topology));
    let shared: &[&str] = match scenario.bystander {
        Some(Bystander::Tcp { .. }) => &["app"],
        _ => &["app", "net_shared"],
    };
    let charged = reports.map(|report| Charged::new(&report, &topology, shared)).collect();
    let cpu_time = endpoints + threads;
    let machine = simulated.machine();
    Ok(Run {
        energy: machine.active(cpu_time).unwrap() as f64 / 1e6,
        cpu_time,
        measured: measurement(machine, cpu_time, &before, &after),
        charged,
    })
}

/// Runs all traffic in parallel until it ends. Returns the CPU time of all ends, nanoseconds.
fn run_traffic(topology: &Topology, traffic: &[Flows]) -> Result<u64, Stopped> {
    let start = |(port, flows): (u16, &Flows)| {
        let mut spec = TrafficSpec::new(topology.path(0).unwrap().server_address(), flows.workload);
        spec.server.set_port(port);
        (spec.connections, spec.concurrency) = (flows.connections, flows.concurrency);
        (spec.read_socket_info, spec.cpus, spec.timeout) = (false, Some(flows.pins), TIMEOUT);
        Ends::start(topology, &spec)
    };
    let ends: Vec<Ends> = (PORT..).zip(traffic).map(start).collect();
    ends.into_iter().map(Ends::wait).sum()
}

enum RunningBystander {
    Burn {
        _process: processes::Bystander,
    },
    /// `_ends` is dropped before `_network`, so that the traffic ends before its network is removed.
    Tcp {
        _ends: Ends,
        _network: Box<Topology>,
    },
}

impl RunningBystander {
    fn start(bystander: Bystander) -> Self {
        match bystander {
            Bystander::Burn { cpu, percent } => {
                Self::Burn { _process: processes::Bystander::start(cpu, percent) }
            }
            Bystander::Tcp { cpu } => {
                let network = Topology::disjoint(&[LinkSpec::default()]).unwrap();
                let workload = Workload::Requests {
                    count: u64::MAX,
                    request_bytes: 64,
                    response_bytes: 64,
                    think_time: Duration::ZERO,
                };
                let mut spec = TrafficSpec::new(network.path(0).unwrap().server_address(), workload);
                (spec.transport, spec.cpus) = (Transport::Tcp, Some([cpu, cpu]));
                Self::Tcp { _ends: Ends::start(&network, &spec), _network: Box::new(network) }
            }
        }
    }
}

fn measurement(
    machine: SimulatedMachine,
    cpu_time: u64,
    before: &GroundTruth,
    after: &GroundTruth,
) -> Measurement {
    let since = |of: fn(&GroundTruth) -> f64| of(after) - of(before);
    Measurement {
        energy: since(|truth| truth.energy_by_package[0] as f64 / 1e12),
        elapsed: since(|truth| truth.elapsed as f64 / 1e9),
        cpus: f64::from(machine.cpus),
        own: cpu_time as f64 / 1e9,
        all: since(|truth| truth.busy_by_package[0] as f64 / 1e9),
        idle: f64::from(IDLE) / 1e3,
    }
}

impl Charged {
    /// The charges in a report. `accounts`: names of accounts outside of flows that belong to the traffic.
    fn new(report: &Report, topology: &Topology, accounts: &[&str]) -> Self {
        let mut charged = Self::default();
        for end in [topology.client(), topology.server()] {
            for connection in report.connections_in(end.name()) {
                charged.add(connection, end.name());
            }
        }
        for connection in list(&report.json, "connections") {
            if ![topology.client().name(), topology.server().name()].contains(&text(connection, "netns")) {
                charged.foreign += connection["energy"]["cpu_ns"].as_u64().unwrap_or(0);
            }
        }
        for zone in list(&report.json["energy"], "zones") {
            let others = accounts.iter().map(|account| number(zone, &format!("{account}_uj"))).sum::<u64>();
            charged.energy += others;
            charged.bounds = charged.bounds.map(|bound| bound + others);
        }
        for cpu in list(&report.json, "cpus") {
            charged.interrupts += number(cpu, "irq_ns");
            charged.cpu_time +=
                accounts.iter().map(|account| number(cpu, &format!("{account}_ns"))).sum::<u64>();
        }
        charged
    }

    fn add(&mut self, connection: &Value, end: &str) {
        let energy = &connection["energy"];
        // `null` means unknown: no window of the sampled ledger fell into the lifetime of the connection.
        if energy.is_null() {
            return;
        }
        assert_eq!((text(energy, "source"), text(energy, "idle")), ("rapl-powercap", "calibrated"));
        let bounds = ["lo_uj", "hi_uj"].map(|bound| number(energy, bound));
        let charge = Charge {
            energy: number(energy, "active_uj"),
            bounds,
            cpu_time: number(energy, "cpu_ns"),
            headers: list(connection, "subflows").iter().map(headers).sum(),
        };
        self.energy += charge.energy;
        self.bounds = [self.bounds[0] + bounds[0], self.bounds[1] + bounds[1]];
        self.cpu_time += charge.cpu_time;
        self.workers += number(&connection["cpu_ns"], "worker");
        self.flows.insert(format!("{end} {}", text(connection, "id")), charge);
    }
}

fn headers(subflow: &Value) -> u64 {
    let wire = ["sent", "received"].map(|way| number(subflow, &format!("wire_bytes_{way}_estimate")));
    let payload = ["bytes_sent", "bytes_received"].map(|field| number(subflow, field));
    wire.iter().sum::<u64>().saturating_sub(payload.iter().sum())
}

/// CPU clocks of the kernel threads that work for the network: ksoftirqd, and the workers that join paths. Assumes that these threads work
/// only for the lab.
pub struct KernelThreads(BTreeMap<i32, TaskClock>);

impl KernelThreads {
    /// Starts to count the CPU time.
    #[must_use]
    pub fn start() -> Self {
        Self(Self::all().into_iter().filter_map(|tid| Some((tid, TaskClock::from_tid(tid).ok()?))).collect())
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

    /// CPU time since the start, nanoseconds. For threads that were created later, uses schedstat, whose value is slightly too high.
    pub fn used(&self) -> u64 {
        let of_new = |tid: i32| {
            let stat = fs::read_to_string(format!("/proc/{tid}/schedstat")).unwrap_or_default();
            stat.split(' ').next().and_then(|ns| ns.parse::<u64>().ok()).unwrap_or(0)
        };
        let new = Self::all().into_iter().filter(|tid| !self.0.contains_key(tid)).map(of_new);
        let known = self.0.values().map(|clock| u64::try_from(clock.read().unwrap().as_nanos()).unwrap());
        new.chain(known).sum()
    }
}
