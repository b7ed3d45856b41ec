// SPDX-License-Identifier: MIT OR Apache-2.0
//! The traffic that is measured, its two ends each kept on a CPU, and how fast it goes: by the clock, and by the CPU time that the
//! ends use, which other work on the machine touches less.

use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use mpwatch_lab::topology::LinkSpec;
use mpwatch_lab::traffic::{self, Control, TrafficReport, TrafficSpec};
use mpwatch_lab::{Error, Namespace, Topology, poll_until};
use nix::sched::{CpuSet, sched_setaffinity};
use nix::time::{ClockId, clock_gettime};
use nix::unistd::Pid;

use super::Effort;

/// Longest time for traffic to begin.
const PATIENCE: Duration = Duration::from_secs(10);
/// A measurement is over long before.
const DEADLINE: Duration = Duration::from_mins(5);
/// Of a request and of its answer, which count once at each end.
const MESSAGE: u32 = 64;

/// A kind of traffic.
#[derive(Clone, Copy)]
pub(super) struct Workload {
    pub(super) name: &'static str,
    /// What is counted, and how many bytes received make one.
    pub(super) unit: &'static str,
    bytes_a_unit: f64,
    traffic: traffic::Workload,
    cpus: [usize; 2],
    /// Most that tracing shall cost, in percent: without the ledger, and with it.
    pub(super) targets: [f64; 2],
}

/// Bulk, and requests where the ends take turns on one CPU, which never rests, and where they wake each other up.
pub(super) fn workloads() -> [Workload; 3] {
    let requests = Workload {
        name: "64 B requests, one CPU",
        unit: "exchange",
        bytes_a_unit: f64::from(2 * MESSAGE),
        traffic: traffic::Workload::Requests {
            count: u64::MAX,
            request_bytes: MESSAGE,
            response_bytes: MESSAGE,
            think_time: Duration::ZERO,
        },
        cpus: [0, 0],
        targets: [2.0, 6.0],
    };
    [
        Workload {
            name: "bulk",
            unit: "GB",
            bytes_a_unit: 1e9,
            traffic: traffic::Workload::upload_for(DEADLINE),
            cpus: [0, 1],
            targets: [1.0, 3.0],
        },
        requests,
        Workload { name: "64 B requests, two CPUs", cpus: [0, 1], ..requests },
    ]
}

/// Two cables of no limit between two namespaces.
pub(super) fn lab() -> Topology {
    Topology::two_paths(LinkSpec::default(), LinkSpec::default()).expect("the lab can be built")
}

/// One connection that is busy until this is dropped.
pub(super) struct Load {
    control: Arc<Control>,
    ends: Vec<JoinHandle<Result<TrafficReport, Error>>>,
    bytes_a_unit: f64,
}

/// How fast traffic went.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample {
    /// Units in the window.
    pub(super) units: f64,
    /// Units a second.
    pub(super) by_clock: f64,
    /// Units a second of CPU time of both ends.
    pub(super) by_cpu: f64,
}

impl Load {
    /// Starts it and returns when it runs.
    pub(super) fn start(lab: &Topology, workload: &Workload, effort: Effort) -> Self {
        let mut spec =
            TrafficSpec::new(lab.path(0).expect("a first path").server_address(), workload.traffic);
        // The kernel's default, where an administrator has not chosen another.
        spec.congestion = Some("cubic".to_owned());
        (spec.read_socket_info, spec.timeout) = (false, DEADLINE);
        let control = Arc::new(Control::default());
        let [client, server] = workload.cpus;
        let ends = vec![
            end(lab.server(), server, &spec, &control, traffic::run_server),
            end(lab.client(), client, &spec, &control, traffic::run_client),
        ];
        let load = Self { control, ends, bytes_a_unit: workload.bytes_a_unit };
        let begun = poll_until("traffic to begin", PATIENCE, || (load.control.received() > 0).then_some(()));
        begun.expect("traffic begins");
        thread::sleep(effort.warm_up);
        load
    }

    /// Watches it for a while.
    pub(super) fn measure(&self, window: Duration) -> Sample {
        let before = (Instant::now(), process_time(), self.control.received());
        thread::sleep(window);
        let units = (self.control.received() - before.2) as f64 / self.bytes_a_unit;
        let cpu = process_time().saturating_sub(before.1);
        let clock = before.0.elapsed();
        Sample { units, by_clock: units / clock.as_secs_f64(), by_cpu: units / cpu.as_secs_f64() }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.control.cancel();
        for end in self.ends.drain(..) {
            // It was cut short; what it reports of that is of no interest.
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
        keep_on(cpu);
        work(&spec, &control)
    });
    end.expect("a thread can be started")
}

/// Keeps this thread, and those that it starts, on one CPU; on a machine with fewer, on the last.
fn keep_on(cpu: usize) {
    let cpus = thread::available_parallelism().map_or(1, usize::from);
    let mut set = CpuSet::new();
    let kept = set.set(cpu.min(cpus - 1)).and_then(|()| sched_setaffinity(Pid::from_raw(0), &set));
    kept.expect("a thread can be kept on a CPU");
}

fn process_time() -> Duration {
    clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).expect("a clock of every Linux").into()
}
