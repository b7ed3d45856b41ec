// SPDX-License-Identifier: MIT OR Apache-2.0
//! What it costs to read every subflow once: our snapshot, decoded, beside what `ss -tiM` needs to print the same sockets.

use std::process::{Command, Stdio};
use std::time::Duration;

use mpwatch_ebpf::tracer::{Settings, Tracer};
use mpwatch_ebpf::yardstick::RunStatistics;
use mpwatch_lab::traffic::{IdleConnections, TrafficSpec, Workload};
use mpwatch_lab::{Topology, poll_until};
use nix::sys::resource::{Resource, UsageWho, getrlimit, getrusage, setrlimit};
use nix::sys::time::TimeValLike as _;
use nix::time::{ClockId, clock_gettime};

use super::load::lab;
use super::statistics::{median, spread};
use super::table::{figure, markdown};
use super::{Effort, idle};
use crate::Observer;

/// Longest time until all paths have joined.
const PATIENCE: Duration = Duration::from_mins(1);

pub(super) fn run(effort: Effort) -> String {
    let rows: Vec<_> = effort.subflows.iter().map(|&subflows| one_size(subflows, effort)).collect();
    let header = [
        "subflows",
        "our snapshot",
        "of it our programs",
        "`ss -tiM`",
        "ss by ours (target: 10)",
        "a tick of `top --batch --json`",
        "a tick of `record`",
        "memory of `top`",
    ];
    let note = "CPU time of one reading of all subflows, each connection with two, both ends on this machine; `ss` once a namespace. \
                A tick is all that the agent does in a second, its snapshot included.\n\n";
    note.to_owned() + &markdown(&header, &rows)
}

fn one_size(subflows: u32, effort: Effort) -> Vec<String> {
    eprintln!("bench: a snapshot of {subflows} subflows");
    allow_files(u64::from(subflows) + 256);
    let lab = lab();
    let mut tracer = Tracer::start(Settings::default()).expect("this kernel can be traced");
    let mut spec = TrafficSpec::new(lab.path(0).expect("a first path").server_address(), Workload::upload(0));
    spec.connections = subflows / 4;
    let crowd =
        IdleConnections::open(lab.client(), lab.server(), &spec).expect("many connections can be opened");
    wait_for_joins(&mut tracer, subflows as usize + crowd.sockets());

    let (mut ours, mut theirs, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..effort.rounds {
        ours.push(snapshot(&mut tracer));
        theirs.push(socket_statistics(&lab));
        ratios.push(theirs[theirs.len() - 1] / ours[ours.len() - 1]);
    }
    let programs = programs(&mut tracer, effort.rounds);
    drop(tracer);
    let top = idle::Top::start();
    let shown = idle::watch(top.pid(), effort);
    drop(top);
    let observer = Observer::start_every("1s", &[]);
    let recorded = idle::watch(observer.pid(), effort);
    observer.finish();
    vec![
        subflows.to_string(),
        spread(&ours, "ms"),
        format!("{} ms", figure(programs)),
        spread(&theirs, "ms"),
        figure(median(&ratios)),
        // A tick a second: a percent of a CPU is 10 ms.
        format!("{} ms", figure(shown.percent * 10.0)),
        format!("{} ms", figure(recorded.percent * 10.0)),
        format!("{:.0} MiB", shown.memory),
    ]
}

fn wait_for_joins(tracer: &mut Tracer, records: usize) {
    let complete = poll_until("all paths to join", PATIENCE, || {
        let mut seen = 0;
        tracer.snapshot(&mut |_| seen += 1).expect("a snapshot can be read");
        (seen >= records).then_some(())
    });
    complete.expect("all paths join");
}

/// Milliseconds of CPU time for one of ours.
fn snapshot(tracer: &mut Tracer) -> f64 {
    let before = thread_time();
    tracer.snapshot(&mut |event| drop(std::hint::black_box(event.clone()))).expect("a snapshot can be read");
    thread_time().saturating_sub(before).as_secs_f64() * 1e3
}

/// Of it, milliseconds in our programs, by the kernel's statistics.
fn programs(tracer: &mut Tracer, rounds: usize) -> f64 {
    let _statistics = RunStatistics::switch_on().expect("the kernel counts for root");
    let total = |tracer: &Tracer| -> u64 {
        let all = tracer.programs().expect("the kernel tells of our programs");
        let reading = all.iter().filter(|(name, _)| name.starts_with("read_"));
        reading.map(|(_, stats)| stats.run_time_ns).sum()
    };
    let before = total(tracer);
    for _ in 0..rounds {
        snapshot(tracer);
    }
    (total(tracer) - before) as f64 / 1e6 / rounds as f64
}

/// Milliseconds of CPU time for `ss` in both namespaces.
fn socket_statistics(lab: &Topology) -> f64 {
    let before = children_time();
    for namespace in [lab.client(), lab.server()] {
        let ss = || Command::new("ss").arg("-tiM").stdout(Stdio::null()).status();
        let status = namespace.enter(ss).expect("the lab's namespace can be entered");
        assert!(status.expect("ss can be started").success());
    }
    (children_time() - before) * 1e3
}

fn thread_time() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).expect("a clock of every Linux").into()
}

fn children_time() -> f64 {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).expect("always known");
    (usage.user_time() + usage.system_time()).num_microseconds() as f64 / 1e6
}

fn allow_files(count: u64) {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).expect("always known");
    setrlimit(Resource::RLIMIT_NOFILE, soft.max(count), hard.max(count)).expect("root may open many files");
}
