// SPDX-License-Identifier: MIT OR Apache-2.0
//! Traffic with each end pinned to a CPU. Measures its speed per second, and per second of CPU time of both ends, which other work on the
//! machine affects less.

use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use mpwatch_lab::topology::LinkSpec;
use mpwatch_lab::traffic::{self, Control, TrafficReport, TrafficSpec, Transport, Workload};
use mpwatch_lab::{Error, Namespace, Topology, poll_until};
use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;

use crate::effort::Effort;
use crate::machine::cpus;
use crate::process::own_cpu_time;

const START_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum duration of the traffic, longer than any measurement.
const DEADLINE: Duration = Duration::from_mins(5);
/// Size of a request, and of its response, in bytes. Both ends count received bytes.
const MESSAGE: u32 = 64;

/// A kind of traffic.
#[derive(Clone, Copy)]
pub(crate) struct BenchWorkload {
    pub(crate) name: &'static str,
    /// Name of the counted unit.
    pub(crate) unit: &'static str,
    /// Sum of the bytes that both ends receive for one unit.
    bytes_per_unit: f64,
    workload: Workload,
    /// CPUs of client and server.
    cpus: [usize; 2],
    transport: Transport,
    /// Highest acceptable cost of tracing with a sampled ledger, in percent.
    pub(crate) target: f64,
    /// Whether the target applies to the rate per second. Otherwise it applies to the rate per second of CPU time.
    pub(crate) by_clock: bool,
}

/// Bulk; requests with both ends on one CPU, which is never idle; and requests with the ends on two CPUs, where each end wakes the other.
pub(crate) fn workloads() -> [BenchWorkload; 3] {
    let requests = BenchWorkload {
        name: "64 B requests, one CPU",
        unit: "exchange",
        bytes_per_unit: f64::from(2 * MESSAGE),
        workload: Workload::Requests {
            count: u64::MAX,
            request_bytes: MESSAGE,
            response_bytes: MESSAGE,
            think_time: Duration::ZERO,
        },
        cpus: [0, 0],
        transport: Transport::Mptcp,
        target: 3.0,
        by_clock: true,
    };
    [
        BenchWorkload {
            name: "bulk",
            unit: "GB",
            bytes_per_unit: 1e9,
            workload: Workload::upload_for(DEADLINE),
            cpus: [0, 1],
            transport: Transport::Mptcp,
            target: 2.0,
            by_clock: false,
        },
        requests,
        BenchWorkload { name: "64 B requests, two CPUs", cpus: [0, 1], by_clock: false, ..requests },
    ]
}

/// Requests over plain TCP, which mpwatch does not trace, with both ends on one CPU.
pub(crate) fn tcp_requests() -> BenchWorkload {
    let [_, requests, _] = workloads();
    BenchWorkload { name: "a plain TCP request, 64 B", transport: Transport::Tcp, target: 1.0, ..requests }
}

/// Two namespaces, connected by two links without a rate limit.
pub(crate) fn lab() -> Topology {
    Topology::two_paths(LinkSpec::default(), LinkSpec::default()).expect("the lab can be built")
}

/// A busy connection. It ends when the value is dropped.
pub(crate) struct Traffic {
    control: Arc<Control>,
    ends: Vec<JoinHandle<Result<TrafficReport, Error>>>,
    bytes_per_unit: f64,
}

/// Speed of traffic.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Speed {
    /// Number of units in the window.
    pub(crate) units: f64,
    /// Number of units per second.
    pub(crate) by_clock: f64,
    /// Number of units per second of CPU time of both ends.
    pub(crate) by_cpu: f64,
}

impl Traffic {
    /// Starts the traffic. Returns when data flows.
    pub(crate) fn start(lab: &Topology, workload: &BenchWorkload, effort: Effort) -> Self {
        let mut spec =
            TrafficSpec::new(lab.path(0).expect("a first path").server_address(), workload.workload);
        spec.transport = workload.transport;
        // The kernel's default, set explicitly because an administrator may have changed the default.
        spec.congestion = Some("cubic".to_owned());
        (spec.read_socket_info, spec.timeout) = (false, DEADLINE);
        let control = Arc::new(Control::default());
        let [client, server] = workload.cpus;
        let ends = vec![
            end(lab.server(), server, &spec, &control, traffic::run_server),
            end(lab.client(), client, &spec, &control, traffic::run_client),
        ];
        let traffic = Self { control, ends, bytes_per_unit: workload.bytes_per_unit };
        let begun =
            poll_until("traffic to begin", START_TIMEOUT, || (traffic.control.received() > 0).then_some(()));
        begun.expect("traffic begins");
        thread::sleep(effort.warm_up);
        traffic
    }

    /// Measures the speed during a window.
    pub(crate) fn measure(&self, window: Duration) -> Speed {
        let (start, cpu, received) = (Instant::now(), own_cpu_time(), self.control.received());
        thread::sleep(window);
        let units = (self.control.received() - received) as f64 / self.bytes_per_unit;
        let cpu = own_cpu_time().saturating_sub(cpu);
        let clock = start.elapsed();
        Speed { units, by_clock: units / clock.as_secs_f64(), by_cpu: units / cpu.as_secs_f64() }
    }
}

impl Drop for Traffic {
    fn drop(&mut self) {
        self.control.cancel();
        for end in self.ends.drain(..) {
            // The report is ignored, because the traffic was cancelled.
            let _ = mpwatch_lab::join(end);
        }
    }
}

fn end(
    namespace: &Namespace,
    cpu: usize,
    spec: &TrafficSpec,
    control: &Arc<Control>,
    work: fn(&TrafficSpec, &Control) -> Result<TrafficReport, Error>,
) -> JoinHandle<Result<TrafficReport, Error>> {
    let (spec, control) = (spec.clone(), Arc::clone(control));
    let end = namespace.spawn("bench-end", move || {
        pin_to(cpu);
        work(&spec, &control)
    });
    end.expect("a thread can be started")
}

/// Pins the calling thread, and the threads that it starts, to a CPU, or to the last CPU if `cpu` does not exist.
pub(crate) fn pin_to(cpu: usize) {
    let mut set = CpuSet::new();
    let pinned = set.set(cpu.min(cpus() - 1)).and_then(|()| sched_setaffinity(Pid::from_raw(0), &set));
    pinned.expect("a thread can be pinned to a CPU");
}
