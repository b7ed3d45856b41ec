// SPDX-License-Identifier: MIT OR Apache-2.0
//! What it costs to find shared bottlenecks of many subflows at once: the daemon beside the same traffic without detection, with every
//! path sampled densely all of the time (as where verdicts are open), and as it is, which lets paths rest once verdicts have been standing.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use mpwatch_ebpf::yardstick::RunStatistics;
use mpwatch_lab::topology::LinkSpec;
use mpwatch_lab::traffic::{Control, Transfer, Workload};
use mpwatch_lab::{Namespace, Topology, poll_until};
use mpwatch_model::bottleneck::Verdict;
use mpwatch_model::connection::Connection;
use mpwatch_model::snapshot::Snapshot;
use tempfile::TempDir;

use super::idle::{cpu_time, most_memory};
use super::statistics::spread;
use super::table::{figure, markdown};
use super::{Crowd, Effort, read};

/// Longest wait for anything but measurements.
const PATIENCE: Duration = Duration::from_mins(1);
/// Longer than everything.
const ENDLESS: Duration = Duration::from_hours(1);
/// A window is cut into so many, to see how they differ.
const SLICES: u32 = 10;
/// How the daemon runs.
struct Mode {
    name: &'static str,
    options: &'static [&'static str],
    /// Until what is measured is all that goes on, in units of [`Effort::crowd_slice`].
    settling: u32,
    slices: u32,
}

/// The longest rest is 64 s (where no verdict comes: else 32 s), after 12 s and four shorter ones with 5 s in between, 92 s together; a window
/// holds one of them with what is between, of a hundred connections at all stages of it.
const MODES: [Mode; 3] = [
    Mode { name: "`--no-bottlenecks`", options: &["--no-bottlenecks"], settling: 3, slices: SLICES },
    Mode { name: "densely sampled", options: &["--never-rest"], settling: 5, slices: SLICES },
    Mode { name: "settled", options: &[], settling: 48, slices: 4 * SLICES },
];

/// The daemon, with a folder of its own.
struct Daemon {
    child: Child,
    folder: TempDir,
}

impl Daemon {
    fn start(options: &[&str]) -> Self {
        let folder = TempDir::new().expect("a folder for the daemon");
        let config = folder.path().join("mpwatch.toml");
        fs::write(&config, "").expect("a file can be written");
        // A session of its own, as a service has: one process among the lab's hundreds would hardly be given a processor (sched(7), autogroup).
        let mut command = Command::new("setsid");
        // There, Ctrl-C does not reach it: it goes with this process, however that ends.
        command.args(["setpriv", "--pdeathsig", "TERM"]);
        command.arg(crate::program()).args([
            "daemon",
            "--listen",
            "127.0.0.1:0",
            "--interval",
            "1s",
            "--db",
            "",
            "--config",
        ]);
        command.arg(&config).arg("--socket").arg(socket(folder.path())).args(options);
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let daemon = Self { child: child.expect("the program can be started"), folder };
        let begun = poll_until("the daemon to trace", PATIENCE, || daemon.snapshot());
        begun.expect("the daemon traces");
        daemon
    }

    /// What it says at its next tick.
    fn snapshot(&self) -> Option<Snapshot> {
        let socket = socket(self.folder.path());
        let outcome = crate::mpwatch(&["ls", "--json", "--socket", &socket.to_string_lossy()]);
        (outcome.code == Some(0)).then(|| serde_json::from_str(&outcome.stdout).ok()).flatten()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // It has nothing to finish.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn socket(folder: &Path) -> PathBuf {
    folder.join("mpwatch.sock")
}

pub(super) fn run(effort: Effort) -> String {
    let tables: Vec<String> = effort.crowds.iter().map(|crowd| table(crowd, effort)).collect();
    note(effort) + &tables.join("\n")
}

fn note(effort: Effort) -> String {
    format!(
        "Connections of some subflows, one on each of as many links. `mpwatch daemon --interval 1s` without a store; its CPU time is the median \
         of {:?} each. Programs by the kernel's run statistics, which cost time themselves. Points, and what they take of their ring, as the daemon \
         counts them.\n\n",
        effort.crowd_slice
    )
}

/// One crowd, with a daemon in each of the modes.
fn table(crowd: &Crowd, effort: Effort) -> String {
    let Crowd { connections, paths, mbit_a_subflow, queue } = *crowd;
    eprintln!("bench: bottlenecks of {connections} connections of {paths} subflows");
    let rate = mbit_a_subflow * f64::from(connections);
    let lab = Topology::disjoint(&vec![LinkSpec::rate(rate, queue); paths]).expect("the lab can be built");
    let mut spec = lab.traffic(Workload::upload_for(ENDLESS)).expect("a first path");
    spec.congestion = Some("cubic".to_owned());
    (spec.read_socket_info, spec.timeout) = (false, ENDLESS);
    (spec.connections, spec.concurrency) = (connections, connections);
    let control = Arc::new(Control::default());
    let traffic = Transfer::start(lab.client(), lab.server(), &spec, &control).expect("traffic begins");
    let _statistics = RunStatistics::switch_on().expect("the kernel counts for root");
    let rows: Vec<_> = MODES.iter().map(|mode| measure(mode, lab.client(), &control, effort)).collect();
    drop(traffic);
    let header = [
        "the daemon",
        "active subflows",
        "pairs judged",
        "its CPU time, of one CPU",
        "its programs, of one CPU",
        "its memory",
        "points",
        "ring",
        "traffic",
        "machine busy",
    ];
    format!(
        "{connections} connections of {paths} subflows, {mbit_a_subflow} Mbit/s for each: links of {} Mbit/s with a queue of {queue:?}.\n\n{}",
        figure(rate),
        markdown(&header, &rows)
    )
}

fn measure(mode: &Mode, sender: &Namespace, control: &Control, effort: Effort) -> Vec<String> {
    eprintln!("bench: {}", mode.name);
    let daemon = Daemon::start(mode.options);
    let pid = daemon.child.id();
    thread::sleep(effort.crowd_slice * mode.settling);
    let before = daemon.snapshot().expect("the daemon answers");
    let (begun, received, idle) = (Instant::now(), control.received(), idle_time());
    let percents: Vec<f64> = (0..mode.slices).map(|_| slice(pid, effort.crowd_slice)).collect();
    let seconds = begun.elapsed().as_secs_f64();
    let mbit = (control.received() - received) as f64 * 8e-6 / seconds;
    let cpus = thread::available_parallelism().map_or(1.0, |count| count.get() as f64);
    let busy = 1.0 - (idle_time() - idle) / seconds / cpus;
    let after = daemon.snapshot().expect("the daemon answers");
    let a_second = |of: fn(&Snapshot) -> u64| (of(&after) - of(&before)) as f64 / between(&before, &after);
    vec![
        mode.name.to_owned(),
        active(&after, sender).to_string(),
        judged(&after, sender),
        spread(&percents, "%"),
        Some(programs(&before, &after)).filter(|part| part.is_finite()).map_or("-".to_owned(), percent),
        format!("{:.0} MiB", most_memory(pid)),
        format!("{}/s", figure(a_second(|snapshot| snapshot.counters.points))),
        format!("{} kB/s", figure(a_second(|snapshot| snapshot.counters.points_bytes.0) / 1e3)),
        format!("{} Mbit/s", figure(mbit)),
        format!("{:.0} %", busy * 100.0),
    ]
}

fn percent(value: f64) -> String {
    format!("{} %", figure(value))
}

/// Percent of one CPU that a process takes for so long.
fn slice(pid: u32, length: Duration) -> f64 {
    let before = (Instant::now(), cpu_time(pid));
    thread::sleep(length);
    cpu_time(pid).saturating_sub(before.1).as_secs_f64() / before.0.elapsed().as_secs_f64() * 100.0
}

/// Seconds from one snapshot to the next; never none.
fn between(before: &Snapshot, after: &Snapshot) -> f64 {
    let nanoseconds = after.at.as_nanosecond() - before.at.as_nanosecond();
    nanoseconds.max(1) as f64 / 1e9
}

/// Percent of one CPU that the daemon's programs took between two snapshots.
fn programs(before: &Snapshot, after: &Snapshot) -> f64 {
    let time = |snapshot: &Snapshot| snapshot.counters.program_time.map_or(f64::NAN, |time| time.0 as f64);
    (time(after) - time(before)) / 1e9 / between(before, after) * 100.0
}

fn connections<'a>(snapshot: &'a Snapshot, sender: &Namespace) -> impl Iterator<Item = &'a Connection> {
    let name = sender.name().to_owned();
    snapshot.connections.iter().filter(move |connection| connection.netns == name)
}

/// Subflows that send.
fn active(snapshot: &Snapshot, sender: &Namespace) -> usize {
    let subflows = connections(snapshot, sender).flat_map(|connection| &connection.subflows);
    subflows.filter(|subflow| subflow.send.0 > 0).count()
}

/// Pairs with a verdict, of all.
fn judged(snapshot: &Snapshot, sender: &Namespace) -> String {
    let found = connections(snapshot, sender).filter_map(|connection| connection.bottlenecks.as_ref());
    let (mut all, mut judged) = (0, 0);
    for pair in found.flat_map(|found| &found.pairs) {
        all += 1;
        judged += usize::from(pair.verdict != Verdict::Unknown);
    }
    if all == 0 { "-".to_owned() } else { format!("{judged} of {all}") }
}

/// Seconds that CPUs have been idle, all together.
fn idle_time() -> f64 {
    let stat = read("/proc/stat");
    let field = |place: usize| stat.split_whitespace().nth(place)?.parse::<f64>().ok();
    // user nice system idle iowait, in hundredths
    (field(4).unwrap_or(0.0) + field(5).unwrap_or(0.0)) / 100.0
}
