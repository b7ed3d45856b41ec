// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cost of reading every subflow once: compares a decoded snapshot of mpwatch with `ss -tiM` for the same sockets.

use std::collections::HashSet;
use std::process::{Command, Stdio};
use std::time::Duration;

use mpwatch_ebpf::run_statistics;
use mpwatch_ebpf::tracer::{Tracer, TracerSettings};
use mpwatch_lab::traffic::{IdleConnections, TrafficSpec, Workload};
use mpwatch_lab::{Topology, poll_until};
use mpwatch_model::kernel::event::KernelEvent;
use nix::sys::resource::{Resource, UsageWho, getrlimit, getrusage, setrlimit};
use nix::sys::time::TimeValLike as _;

use crate::effort::Effort;
use crate::process::thread_cpu_time;
use crate::statistics::{median, spread};
use crate::subjects::idle::{Top, usage};
use crate::subjects::traffic::lab;
use crate::table::{figure, markdown};
use mpwatch_testkit::Observer;

const JOIN_TIMEOUT: Duration = Duration::from_mins(1);

const HEADER: [&str; 8] = [
    "subflows",
    "snapshot",
    "of it, BPF programs",
    "`ss -tiM`",
    "ss / snapshot (target: 10)",
    "tick of `top --batch --json`",
    "tick of `record`",
    "memory of `top`",
];

pub(crate) fn run(effort: Effort) -> String {
    let rows: Vec<_> = effort.subflows.iter().map(|&subflows| one_size(subflows, effort)).collect();
    let note = "CPU time to read all subflows once. Connections have two subflows each and both ends on this machine; `ss` runs once per \
                namespace. A tick is everything that the agent does in a second, its snapshot included.\n\n";
    note.to_owned() + &markdown(&HEADER, &rows)
}

fn one_size(subflows: u32, effort: Effort) -> Vec<String> {
    eprintln!("bench: a snapshot of {subflows} subflows");
    allow_files(u64::from(subflows) + 256);
    let lab = lab();
    let mut tracer = Tracer::start(TracerSettings::default()).expect("this kernel can be traced");
    let mut spec = TrafficSpec::new(lab.path(0).expect("a first path").server_address(), Workload::upload(0));
    spec.connections = subflows / 4;
    let connections =
        IdleConnections::open(lab.client(), lab.server(), &spec).expect("connections can be opened");
    wait_for_joins(&mut tracer, subflows as usize + connections.sockets());

    let Snapshots { ours, theirs, ratios, programs } = Snapshots::measure(&mut tracer, &lab, effort.rounds);
    drop(tracer);
    let top = Top::start();
    let shown = usage(top.pid(), effort);
    drop(top);
    let observer = Observer::start_every("1s", &[]);
    let recorded = usage(observer.pid(), effort);
    observer.finish();
    vec![
        subflows.to_string(),
        spread(&ours, "ms"),
        format!("{} ms", figure(programs)),
        spread(&theirs, "ms"),
        figure(median(&ratios)),
        // With one tick per second, a percent of a CPU is 10 ms per tick.
        format!("{} ms", figure(shown.percent * 10.0)),
        format!("{} ms", figure(recorded.percent * 10.0)),
        format!("{:.0} MiB", shown.memory),
    ]
}

pub(super) fn wait_for_joins(tracer: &mut Tracer, records: usize) {
    // Not every snapshot lists unchanged sockets, so the ids of several snapshots are collected.
    let (mut connections, mut subflows) = (HashSet::new(), HashSet::new());
    let complete = poll_until("all paths to join", JOIN_TIMEOUT, || {
        let read = tracer.snapshot(&mut |event| match event {
            KernelEvent::Connection(record) => drop(connections.insert(record.msk.cookie)),
            KernelEvent::Subflow(record) => drop(subflows.insert(record.id)),
            KernelEvent::ConnectionUnchanged(cookie) => drop(connections.insert(*cookie)),
            KernelEvent::SubflowUnchanged(id) => drop(subflows.insert(*id)),
            _ => {}
        });
        read.expect("a snapshot can be read");
        (connections.len() + subflows.len() >= records).then_some(())
    });
    complete.expect("all paths join");
}

/// CPU times of a snapshot and of `ss` in ms, measured in turns; their ratios; and the time of the BPF programs per snapshot in ms.
pub(super) struct Snapshots {
    pub(super) ours: Vec<f64>,
    pub(super) theirs: Vec<f64>,
    pub(super) ratios: Vec<f64>,
    pub(super) programs: f64,
}

impl Snapshots {
    pub(super) fn measure(tracer: &mut Tracer, lab: &Topology, rounds: usize) -> Self {
        let (ours, theirs): (Vec<f64>, Vec<f64>) =
            (0..rounds).map(|_| (snapshot_ms(tracer), ss_ms(lab))).unzip();
        let ratios = ours.iter().zip(&theirs).map(|(ours, theirs)| theirs / ours).collect();
        Self { ours, theirs, ratios, programs: programs_ms(tracer, rounds) }
    }
}

/// CPU time of a snapshot, ms.
fn snapshot_ms(tracer: &mut Tracer) -> f64 {
    let before = thread_cpu_time();
    tracer.snapshot(&mut |event| drop(std::hint::black_box(event.clone()))).expect("a snapshot can be read");
    thread_cpu_time().saturating_sub(before).as_secs_f64() * 1e3
}

/// Mean time of the BPF programs in a snapshot in ms, from the kernel's run-time statistics.
fn programs_ms(tracer: &mut Tracer, rounds: usize) -> f64 {
    let _statistics = run_statistics::enable().expect("root may enable run-time statistics");
    let total = |tracer: &Tracer| -> u64 {
        let all = tracer.programs().expect("the kernel reports our programs");
        let reading = all.iter().filter(|(name, _)| name.starts_with("read_"));
        reading.map(|(_, stats)| stats.run_time_ns).sum()
    };
    let before = total(tracer);
    for _ in 0..rounds {
        snapshot_ms(tracer);
    }
    (total(tracer) - before) as f64 / 1e6 / rounds as f64
}

/// CPU time of running `ss` in both namespaces, ms.
fn ss_ms(lab: &Topology) -> f64 {
    let before = children_seconds();
    for namespace in [lab.client(), lab.server()] {
        let ss = || Command::new("ss").arg("-tiM").stdout(Stdio::null()).status();
        let status = namespace.enter(ss).expect("the lab's namespace can be entered");
        assert!(status.expect("ss can be started").success());
    }
    (children_seconds() - before) * 1e3
}

fn children_seconds() -> f64 {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).expect("the kernel accounts CPU time");
    (usage.user_time() + usage.system_time()).num_microseconds() as f64 / 1e6
}

/// Raises the soft limit of open files to `count`, or to the hard limit if the hard limit is lower.
pub(super) fn allow_files(count: u64) {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).expect("the limits can be read");
    setrlimit(Resource::RLIMIT_NOFILE, soft.max(count.min(hard)), hard).expect("a soft limit can be raised");
}
