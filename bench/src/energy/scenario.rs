// SPDX-License-Identifier: MIT OR Apache-2.0
//! Scenarios: traffic, possibly with a bystander, whose measured CPU time and energy are compared with the truth.

use std::time::Duration;

use mpwatch_lab::traffic::{Amount, Sender, Workload};

use super::simulated_counters::cpus;

/// The traffic of a run, possibly with a bystander.
#[derive(Clone)]
pub struct Scenario {
    /// Name in tables.
    pub name: &'static str,
    /// Number of paths, and so of subflows per connection.
    pub paths: usize,
    /// Traffic that runs in parallel.
    pub traffic: Vec<Flows>,
    /// Other work on the machine. `None`: no other work.
    pub bystander: Option<Bystander>,
}

/// Connections of one kind.
#[derive(Clone, Copy)]
pub struct Flows {
    /// Numbers of the CPUs on which client and server run.
    pub pins: [usize; 2],
    /// Total number of connections.
    pub connections: u32,
    /// Number of connections that are open at the same time.
    pub concurrency: u32,
    /// Workload of each connection.
    pub workload: Workload,
}

/// Processes that are unrelated to the traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bystander {
    /// A process that only computes.
    Burn {
        /// The CPU of this work.
        cpu: usize,
        /// The share of the CPU's time that the process uses, percent.
        percent: u32,
    },
    /// Two processes that exchange requests of 64 B over plain TCP, both on one CPU.
    Tcp {
        /// The CPU of this work.
        cpu: usize,
    },
}

/// Size of the workloads of [`basic`].
pub struct Size {
    /// Duration of a bulk transfer.
    pub bulk: Duration,
    /// Number of connections of the scenario `churn`.
    pub short_flows: u32,
    /// Number of requests of the scenario `request-response`.
    pub requests: u64,
}

impl Flows {
    /// One connection with both ends on CPU 0.
    fn one(workload: Workload) -> Self {
        Self { pins: [0, 0], connections: 1, concurrency: 1, workload }
    }

    /// These connections with the server on another CPU.
    fn spread(self) -> Self {
        Self { pins: [0, other_cpu()], ..self }
    }

    /// These connections with both ends on another CPU.
    fn elsewhere(self) -> Self {
        Self { pins: [other_cpu(); 2], ..self }
    }
}

/// CPU 1, or CPU 0 if the machine has only one CPU.
fn other_cpu() -> usize {
    (cpus() as usize).min(2) - 1
}

fn requests(count: u64, [request_bytes, response_bytes]: [u32; 2], think_time: Duration) -> Workload {
    Workload::Requests { count, request_bytes, response_bytes, think_time }
}

fn scenario(name: &'static str, flows: Flows) -> Scenario {
    Scenario { name, paths: 2, traffic: vec![flows], bystander: None }
}

/// The scenarios of the table in docs/measurements/energy.md. The first scenario is the baseline of the scenarios with a bystander.
pub fn basic(size: &Size) -> Vec<Scenario> {
    // Both ends run on CPU 0. The bystander runs on another CPU, except in the scenario `same-core`.
    let bulk = Flows::one(Workload::upload_for(size.bulk));
    let with_bystander = |name, cpu, percent| Scenario {
        bystander: Some(Bystander::Burn { cpu, percent }),
        ..scenario(name, bulk)
    };
    let subflows = |name, paths| Scenario { paths, ..scenario(name, bulk.spread()) };
    let churn = Flows { connections: size.short_flows, ..Flows::one(Workload::upload(1_000)).spread() };
    let download = Workload::Bulk { amount: Amount::For(size.bulk), sender: Sender::Server };
    let small_requests = requests(size.requests, [64, 64], Duration::ZERO);
    vec![
        scenario("solo", bulk),
        with_bystander("bystander-25", other_cpu(), 25),
        with_bystander("bystander-50", other_cpu(), 50),
        with_bystander("bystander-100", other_cpu(), 100),
        with_bystander("same-core", 0, 100),
        scenario("churn", churn),
        subflows("subflows-1", 1),
        subflows("subflows-2", 2),
        subflows("subflows-4", 4),
        subflows("subflows-8", 8),
        scenario("rx-heavy", Flows::one(download).spread()),
        scenario("tx-heavy", bulk.spread()),
        scenario("request-response", Flows::one(small_requests).spread()),
    ]
}

/// The scenarios of `./dev bench ledger`, each of about this length. The first scenario is the baseline of the scenarios with a bystander.
pub fn of_ledger(length: Duration) -> Vec<Scenario> {
    // Converts requests per second to a total number of requests. On a machine that does not reach the rates below, a run takes longer.
    let in_all = |per_second: u128| {
        u64::try_from((per_second * length.as_millis()).div_ceil(1_000)).expect("a count fits")
    };
    let bulk = Flows::one(Workload::upload_for(length));
    let small_requests = |rate| Flows::one(requests(in_all(rate), [64, 64], Duration::ZERO));
    let pages = Flows::one(requests(in_all(3_000), [500, 64 << 10], Duration::ZERO));
    // Each request takes 100 ms at two to three gigabytes per second; then a pause follows.
    let bursts = Flows::one(requests(in_all(2), [250_000_000, 64], Duration::from_millis(400)));
    let small_flow = requests(20, [1_000, 1_000], Duration::from_millis(2));
    let small_flows = Flows { connections: 1_000, concurrency: 16, ..Flows::one(small_flow).elsewhere() };
    let with_bystander = |name, bystander| Scenario { bystander: Some(bystander), ..scenario(name, bulk) };
    let several = |name, traffic| Scenario { traffic, ..scenario(name, bulk) };
    vec![
        scenario("bulk", bulk),
        scenario("64 B requests", small_requests(45_000)),
        several(
            "mixed sizes: bulk, pages of 64 KiB, 64 B requests",
            vec![bulk.spread(), pages.spread(), small_requests(5_000).spread()],
        ),
        scenario("bursts of 100 ms", bursts.spread()),
        several("1 000 small flows and a large one", vec![bulk, small_flows]),
        with_bystander(
            "bulk, a bystander computes on the other CPU",
            Bystander::Burn { cpu: other_cpu(), percent: 100 },
        ),
        with_bystander(
            "bulk, a bystander computes on the same CPU",
            Bystander::Burn { cpu: 0, percent: 100 },
        ),
        with_bystander("bulk, a bystander sends plain TCP", Bystander::Tcp { cpu: other_cpu() }),
    ]
}
