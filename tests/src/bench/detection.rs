// SPDX-License-Identifier: MIT OR Apache-2.0
//! What it costs to find shared bottlenecks of many subflows at once: the daemon beside the same traffic without detection, with every
//! path sampled densely all of the time (as where verdicts are open), and as it is, which lets paths rest once verdicts have been standing.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use mpwatch_ebpf::yardstick::RunStatistics;
use mpwatch_lab::topology::Quality;
use mpwatch_lab::traffic::{Control, Transfer, Workload};
use mpwatch_lab::{Namespace, Topology, poll_until};
use mpwatch_model::bottleneck::Verdict;
use mpwatch_model::connection::Connection;
use mpwatch_model::snapshot::Snapshot;
use serde_json::Value;
use tempfile::TempDir;

use super::idle::{cpu_time, most_memory};
use super::statistics::spread;
use super::table::{figure, markdown};
use super::{Effort, read};
use crate::Observer;

/// Subflows of each connection, each with a path of its own.
const PATHS: usize = 8;
/// Of each path, for its part of every connection; and how long it may queue.
const MBIT_A_SUBFLOW: f64 = 0.6;
const QUEUE: Duration = Duration::from_millis(150);
/// Longest wait for anything but measurements.
const PATIENCE: Duration = Duration::from_mins(1);
/// Longer than everything.
const ENDLESS: Duration = Duration::from_hours(1);
/// A window is cut into so many, to see how they differ.
const SLICES: u32 = 10;
/// A batch of samples as it lies in the ring: the ring's own head, that of the batch, and each point (mpwatch_abi.h).
const BATCH_BYTES: usize = 8 + 40;
const POINT_BYTES: usize = 24;

/// How the daemon runs.
struct Mode {
    name: &'static str,
    options: &'static [&'static str],
    /// Until what is measured is all that goes on, in units of [`Effort::crowd_slice`].
    settling: u32,
    slices: u32,
}

/// The longest rest is 32 s, after three that are half as long each; a window holds two of them with what is between.
const MODES: [Mode; 3] = [
    Mode { name: "`--no-bottlenecks`", options: &["--no-bottlenecks"], settling: 3, slices: SLICES },
    Mode { name: "densely sampled", options: &["--never-rest"], settling: 5, slices: SLICES },
    Mode { name: "settled", options: &[], settling: 24, slices: 4 * SLICES },
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
        let mut command = Command::new(crate::program());
        command.args(["daemon", "--listen", "127.0.0.1:0", "--interval", "1s", "--db", "", "--config"]);
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
    let connections = effort.crowd;
    eprintln!("bench: bottlenecks of {connections} connections of {PATHS} subflows");
    let path = Quality::rate(MBIT_A_SUBFLOW * f64::from(connections), QUEUE);
    let lab = Topology::disjoint(&[path; PATHS]).expect("the lab can be built");
    let mut spec = lab.traffic(Workload::upload_for(ENDLESS)).expect("a first path");
    spec.congestion = Some("cubic".to_owned());
    (spec.account, spec.deadline) = (false, ENDLESS);
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
    note(effort) + &markdown(&header, &rows)
}

fn note(effort: Effort) -> String {
    format!(
        "{} connections of {PATHS} subflows, one on each of {PATHS} links of {:.0} Mbit/s with a queue of {QUEUE:?}. `mpwatch daemon --interval 1s` without \
         a store; its CPU time is the median of {:?} each. Programs by the kernel's run statistics, which cost time themselves. Points and their ring \
         by `mpwatch record` on the same traffic, afterwards.\n\n",
        effort.crowd,
        MBIT_A_SUBFLOW * f64::from(effort.crowd),
        effort.crowd_slice
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
    let memory = most_memory(pid);
    drop(daemon);
    let flow =
        if mode.options.contains(&"--no-bottlenecks") { Flow::default() } else { points(mode, effort) };
    vec![
        mode.name.to_owned(),
        active(&after, sender).to_string(),
        judged(&after, sender),
        spread(&percents, "%"),
        Some(programs(&before, &after)).filter(|part| part.is_finite()).map_or("-".to_owned(), percent),
        format!("{memory:.0} MiB"),
        format!("{}/s", figure(flow.points)),
        format!("{} kB/s", figure(flow.bytes / 1e3)),
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

/// Percent of one CPU that the daemon's programs took between two snapshots.
fn programs(before: &Snapshot, after: &Snapshot) -> f64 {
    let time = |snapshot: &Snapshot| snapshot.counters.program_time.map_or(f64::NAN, |time| time.0 as f64);
    let at = |snapshot: &Snapshot| snapshot.at.as_nanosecond() as f64;
    (time(after) - time(before)) / (at(after) - at(before)) * 100.0
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

/// What goes through the ring of samples, a second.
#[derive(Default)]
struct Flow {
    points: f64,
    bytes: f64,
}

/// Of a recording of its own, over the last window.
fn points(mode: &Mode, effort: Effort) -> Flow {
    let observer = Observer::start_every("1s", mode.options);
    let window = effort.crowd_slice * mode.slices;
    thread::sleep(effort.crowd_slice * mode.settling + window);
    // Its folder goes with it.
    let report = observer.finish();
    let counted = count(&report.recording(), window).expect("a recording can be read");
    Flow {
        points: counted.0 as f64 / window.as_secs_f64(),
        bytes: (counted.0 * POINT_BYTES + counted.1 * BATCH_BYTES) as f64 / window.as_secs_f64(),
    }
}

/// Points, and the batches that they came in, in the last part of a recording.
fn count(recording: &Path, window: Duration) -> std::io::Result<(usize, usize)> {
    let mut batches: Vec<(u64, usize)> = Vec::new();
    for line in BufReader::new(zstd::Decoder::new(File::open(recording)?)?).lines() {
        let line = line?;
        if line.starts_with("{\"samples\"") {
            let event: Value = serde_json::from_str(&line)?;
            let points = event["samples"]["points"].as_array().map_or(&[][..], Vec::as_slice);
            let last = points.last().and_then(|point| point[0].as_u64()).unwrap_or(0);
            batches.push((last, points.len()));
        }
    }
    let end = batches.iter().map(|(at, _)| *at).max().unwrap_or(0);
    let from = end.saturating_sub(u64::try_from(window.as_nanos()).unwrap_or(u64::MAX));
    let inside = batches.iter().filter(|(at, _)| *at >= from);
    Ok(inside.fold((0, 0), |(points, batches), (_, count)| (points + count, batches + 1)))
}

/// Seconds that CPUs have been idle, all together.
fn idle_time() -> f64 {
    let stat = read("/proc/stat");
    let field = |place: usize| stat.split_whitespace().nth(place)?.parse::<f64>().ok();
    // user nice system idle iowait, in hundredths
    (field(4).unwrap_or(0.0) + field(5).unwrap_or(0.0)) / 100.0
}
