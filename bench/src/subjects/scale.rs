// SPDX-License-Identifier: MIT OR Apache-2.0
//! A host with very many idle subflows: cost of a snapshot and of the daemon's tick, memory, and whether all new connections are still
//! recorded.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use mpwatch_ebpf::tracer::{Tracer, TracerSettings};
use mpwatch_lab::traffic::{IdleConnections, TrafficSpec, Workload};
use nix::unistd::{SysconfVar, sysconf};
use tempfile::TempDir;

use crate::effort::Effort;
use crate::soak::churn::Counts;
use crate::soak::sample::{self, list_losses};
use crate::soak::watched::Watched;
use crate::statistics::{median, spread};
use crate::subjects::connections::open_short;
use crate::subjects::snapshot::{Snapshots, allow_files, wait_for_joins};
use crate::subjects::traffic::lab;
use crate::table::{figure, markdown};

/// Time after which the daemon has read all connections and its tables no longer grow.
const SETTLING: Duration = Duration::from_secs(12);

pub(crate) fn run(effort: Effort) -> String {
    let [subflows, short] = effort.many;
    eprintln!("bench: {subflows} idle subflows");
    allow_files(u64::from(subflows) + 1_024);
    let lab = lab();
    let folder = TempDir::new().expect("a folder for the daemon");
    let mut tracer = Tracer::start(TracerSettings::default()).expect("this kernel can be traced");
    let daemon = Watched::daemon(folder.path(), None).expect("the daemon starts");
    let mut spec = TrafficSpec::new(lab.path(0).expect("a first path").server_address(), Workload::upload(0));
    spec.connections = subflows / 4;
    let began = Instant::now();
    let idle = IdleConnections::open(lab.client(), lab.server(), &spec).expect("connections can be opened");
    let opened_per_second = f64::from(spec.connections) / began.elapsed().as_secs_f64();
    wait_for_joins(&mut tracer, subflows as usize + idle.sockets());
    thread::sleep(SETTLING.min(effort.idle * 3));
    let ticks = Ticks::measure(&daemon, effort.idle);
    let memory = sample::read(daemon.pid(), Duration::ZERO, Counts::default()).expect("the daemon runs");
    let Snapshots { ours, theirs, ratios, programs } = Snapshots::measure(&mut tracer, &lab, effort.rounds);
    drop(tracer);
    let short_per_second = open_short(&lab, short);
    let losses = list_losses(&daemon.metrics().expect("the daemon serves its metrics"));
    eprintln!("bench: {}", daemon.finish().expect("the daemon ends"));
    let text = |name: &str, value: String, target: &str| vec![name.to_owned(), value, target.to_owned()];
    let rows = [
        text(
            "subflows, with their connections",
            format!("{} sockets", subflows as usize + idle.sockets()),
            "-",
        ),
        text("snapshot, CPU time in the kernel and to decode it", spread(&ours, "ms"), "200 ms"),
        text("of it, BPF programs", format!("{} ms", figure(programs)), "-"),
        text("`ss -tiM`", spread(&theirs, "ms"), "-"),
        text("ss / snapshot", figure(median(&ratios)), "10"),
        text("daemon's tick, its thread in user space", spread(&ticks.user, "ms"), "100 ms"),
        text("daemon's tick, its thread in the kernel", spread(&ticks.system, "ms"), "200 ms"),
        text("daemon, anonymous memory", format!("{} MiB", memory.anonymous_kb / 1_024), "250 MiB"),
        text("daemon, BPF maps", format!("{} MiB", memory.maps_kb / 1_024), "-"),
        text(
            "idle connections opened, one after the other",
            format!("{opened_per_second:.0} per second"),
            "-",
        ),
        text(
            "short connections in parallel",
            format!("{short_per_second:.0} per second; lost: {losses}"),
            "none lost",
        ),
    ];
    let note = "Idle connections with two subflows each, both ends on this machine, traced by a daemon with its default settings and a \
                database, and by the bench itself; `ss` runs once per namespace.\n\n";
    note.to_owned() + &markdown(&["what", "figure", "target"], &rows)
}

/// CPU time per tick of a daemon in ms. Each value is the mean over a slice of at most two seconds.
struct Ticks {
    user: Vec<f64>,
    system: Vec<f64>,
}

impl Ticks {
    fn measure(daemon: &Watched, length: Duration) -> Self {
        let mut ticks = Self { user: Vec::new(), system: Vec::new() };
        let slice = Duration::from_secs(2).min(length);
        let slices = length.as_millis() / slice.as_millis();
        for _ in 0..slices {
            let (began, before) = (ticks_of(daemon), main_thread(daemon.pid()));
            thread::sleep(slice);
            let (ended, after) = (ticks_of(daemon), main_thread(daemon.pid()));
            let count = (ended - began).max(1.0);
            ticks.user.push((after[0] - before[0]) / count);
            ticks.system.push((after[1] - before[1]) / count);
        }
        ticks
    }
}

/// Number of ticks of a daemon so far.
fn ticks_of(daemon: &Watched) -> f64 {
    let text = daemon.metrics().expect("the daemon serves its metrics");
    let line = text.lines().find_map(|line| line.strip_prefix("mpwatch_agent_ticks_total "));
    line.and_then(|value| value.parse().ok()).expect("the daemon counts its ticks")
}

/// CPU time of the daemon's main thread, which runs the tracker, in ms: in user space, and in the kernel.
fn main_thread(pid: u32) -> [f64; 2] {
    let stat = fs::read_to_string(format!("/proc/{pid}/task/{pid}/stat")).expect("the daemon runs");
    let per_second = sysconf(SysconfVar::CLK_TCK).ok().flatten().unwrap_or(100) as f64;
    let behind_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let mut fields = behind_name.split_whitespace().skip(11).map(|field| field.parse::<f64>().unwrap_or(0.0));
    [(); 2].map(|()| fields.next().unwrap_or(0.0) * 1e3 / per_second)
}
