// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cost of bottleneck detection with many subflows. Measures the daemon during the same traffic, first with tracing alone, then with
//! detection and its backoff.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use mpwatch_ebpf::run_statistics;
use mpwatch_lab::topology::LinkSpec;
use mpwatch_lab::traffic::{Control, Transfer, Workload};
use mpwatch_lab::{Namespace, Topology, poll_until};
use mpwatch_model::flow::bottleneck::Verdict;
use mpwatch_model::flow::connection::Connection;
use mpwatch_model::snapshot::Snapshot;
use tempfile::TempDir;

use crate::effort::{DetectionWorkload, Effort};
use crate::machine::{cpus, idle_time};
use crate::process::{cpu_percent, peak_memory};
use crate::statistics::spread;
use crate::table::{figure, markdown};
use mpwatch_testkit::{mpwatch, program};

const START_TIMEOUT: Duration = Duration::from_mins(1);
/// Duration of the traffic, longer than all measurements of a workload.
const TRAFFIC_DURATION: Duration = Duration::from_hours(1);

/// A mode in which the daemon is measured.
struct Mode {
    name: &'static str,
    options: &'static [&'static str],
    /// Number of slices before the measurement.
    settling: u32,
    /// Number of measured slices.
    slices: u32,
}

/// The backoff between evaluations of a connection reaches 30 s, its maximum, within 50 s. With slices of 2 s, 66 s are measured: two
/// periods of 30 s of backoff and 3 s of evaluation.
const MODES: [Mode; 2] = [
    Mode { name: "tracing alone", options: &["--no-bottlenecks"], settling: 3, slices: 10 },
    Mode { name: "with detection", options: &[], settling: 30, slices: 33 },
];

const HEADER: [&str; 10] = [
    "daemon",
    "active subflows",
    "pairs decided",
    "its CPU time, of one CPU",
    "its BPF programs, of one CPU",
    "its memory",
    "samples",
    "ring buffer",
    "traffic",
    "machine busy",
];

pub(crate) fn run(effort: Effort) -> String {
    let note = format!(
        "Connections with one subflow on each of several links. `mpwatch daemon --interval 1s` without a store; its CPU time is the median of \
         slices of {:?}. Time of BPF programs by the kernel's run-time statistics, which cost time themselves. Samples, and their bytes in the \
         ring buffer, as the daemon counts them.\n\n",
        effort.slice
    );
    let tables: Vec<String> = effort.workloads.iter().map(|workload| table(workload, effort)).collect();
    note + &tables.join("\n")
}

/// Measures one workload, with a daemon in each mode, and returns a table.
fn table(workload: &DetectionWorkload, effort: Effort) -> String {
    let DetectionWorkload { connections, paths, mbit_per_subflow, queue } = *workload;
    eprintln!("bench: detection with {connections} connections of {paths} subflows");
    let rate = mbit_per_subflow * f64::from(connections);
    let lab = Topology::disjoint(&vec![LinkSpec::rate(rate, queue); paths]).expect("the lab can be built");
    let mut spec = lab.traffic(Workload::upload_for(TRAFFIC_DURATION)).expect("a first path");
    spec.congestion = Some("cubic".to_owned());
    (spec.read_socket_info, spec.timeout) = (false, TRAFFIC_DURATION);
    (spec.connections, spec.concurrency) = (connections, connections);
    let control = Arc::new(Control::default());
    let traffic = Transfer::start(lab.client(), lab.server(), &spec, &control).expect("traffic begins");
    let _statistics = run_statistics::enable().expect("root may enable run-time statistics");
    let rows: Vec<_> = MODES.iter().map(|mode| measure(mode, lab.client(), &control, effort)).collect();
    drop(traffic);
    format!(
        "{connections} connections of {paths} subflows, {mbit_per_subflow} Mbit/s per subflow: links of {} Mbit/s with a queue of {queue:?}.\n\n{}",
        figure(rate),
        markdown(&HEADER, &rows)
    )
}

fn measure(mode: &Mode, sender: &Namespace, control: &Control, effort: Effort) -> Vec<String> {
    eprintln!("bench: {}", mode.name);
    let daemon = Daemon::start(mode.options);
    let pid = daemon.child.id();
    thread::sleep(effort.slice * mode.settling);
    let before = daemon.snapshot().expect("the daemon answers");
    let (start, received, idle) = (Instant::now(), control.received(), idle_time());
    let percents: Vec<f64> = (0..mode.slices).map(|_| cpu_percent(pid, effort.slice)).collect();
    let seconds = start.elapsed().as_secs_f64();
    let mbit = (control.received() - received) as f64 * 8e-6 / seconds;
    let busy = 1.0 - (idle_time() - idle) / seconds / cpus() as f64;
    let after = daemon.snapshot().expect("the daemon answers");
    let rate = |counter: fn(&Snapshot) -> u64| {
        (counter(&after) - counter(&before)) as f64 / seconds_between(&before, &after)
    };
    let programs = program_percent(&before, &after);
    vec![
        mode.name.to_owned(),
        active_subflows(&after, sender).to_string(),
        decided_pairs(&after, sender),
        spread(&percents, "%"),
        programs.map_or("-".to_owned(), |percent| format!("{} %", figure(percent))),
        format!("{:.0} MiB", peak_memory(pid)),
        format!("{}/s", figure(rate(|snapshot| snapshot.counters.delay_samples))),
        format!("{} kB/s", figure(rate(|snapshot| snapshot.counters.delay_sample_bytes.0) / 1e3)),
        format!("{} Mbit/s", figure(mbit)),
        format!("{:.0} %", busy * 100.0),
    ]
}

/// The time between two snapshots in seconds, at least a nanosecond.
fn seconds_between(before: &Snapshot, after: &Snapshot) -> f64 {
    let nanoseconds = after.at.as_nanosecond() - before.at.as_nanosecond();
    nanoseconds.max(1) as f64 / 1e9
}

/// Time of the daemon's BPF programs between two snapshots, in percent of one CPU. `None`: the kernel did not measure the time.
fn program_percent(before: &Snapshot, after: &Snapshot) -> Option<f64> {
    let (before_ns, after_ns) = (before.counters.program_time?.0, after.counters.program_time?.0);
    Some((after_ns as f64 - before_ns as f64) / 1e9 / seconds_between(before, after) * 100.0)
}

fn connections<'a>(snapshot: &'a Snapshot, sender: &Namespace) -> impl Iterator<Item = &'a Connection> {
    let name = sender.name().to_owned();
    snapshot.connections.iter().filter(move |connection| connection.netns == name)
}

/// Number of subflows that send.
fn active_subflows(snapshot: &Snapshot, sender: &Namespace) -> usize {
    let subflows = connections(snapshot, sender).flat_map(|connection| &connection.subflows);
    subflows.filter(|subflow| subflow.send.is_some_and(|rate| rate.0 > 0)).count()
}

/// Number of pairs with a verdict and of all pairs, as text.
fn decided_pairs(snapshot: &Snapshot, sender: &Namespace) -> String {
    let found = connections(snapshot, sender).filter_map(|connection| connection.bottlenecks.as_ref());
    let (mut all, mut decided) = (0, 0);
    for pair in found.flat_map(|found| &found.pairs) {
        all += 1;
        decided += usize::from(pair.verdict != Verdict::Unknown);
    }
    if all == 0 { "-".to_owned() } else { format!("{decided} of {all}") }
}

/// A daemon whose files are in a temporary folder.
struct Daemon {
    child: Child,
    folder: TempDir,
}

impl Daemon {
    fn start(options: &[&str]) -> Self {
        let folder = TempDir::new().expect("a folder for the daemon");
        let config = folder.path().join("mpwatch.toml");
        fs::write(&config, "").expect("a file can be written");
        // The daemon has its own session, as a service has. Otherwise the lab's threads would compete with it (sched(7), autogroup).
        let mut command = Command::new("setsid");
        // Ctrl-C does not reach another session, so the kernel ends the daemon when this process ends.
        command.args(["setpriv", "--pdeathsig", "TERM"]).arg(program());
        command.args(["daemon", "--listen", "127.0.0.1:0", "--interval", "1s", "--db", "", "--config"]);
        command.arg(&config).arg("--socket").arg(socket(folder.path())).args(options);
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let daemon = Self { child: child.expect("the program can be started"), folder };
        let tracing = poll_until("the daemon to trace", START_TIMEOUT, || daemon.snapshot());
        tracing.expect("the daemon traces");
        daemon
    }

    /// The snapshot of the daemon's next tick. `None`: the daemon does not answer.
    fn snapshot(&self) -> Option<Snapshot> {
        let socket = socket(self.folder.path());
        let outcome = mpwatch(&["ls", "--json", "--socket", &socket.to_string_lossy()]);
        (outcome.code == Some(0)).then(|| serde_json::from_str(&outcome.stdout).ok()).flatten()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // The process is killed, because it has no data to write.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn socket(folder: &Path) -> PathBuf {
    folder.join("mpwatch.sock")
}
