// SPDX-License-Identifier: MIT OR Apache-2.0
//! A recording tells what the live run told, to the byte, in every format; also after the recorder was killed.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use mpwatch_lab::topology::{How, PathSpec, Quality, TopologySpec};
use mpwatch_lab::traffic::{self, Control, Spec, Transfer, Transport, Workload};
use mpwatch_lab::{Topology, poll_until};
use mpwatch_tests::{Held, Observer, Outcome, list, may_run_as_root, mpwatch, number, program, text};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use tempfile::TempDir;

const PATIENCE: Duration = Duration::from_secs(30);
const BYTES: u64 = 6_000_000;

/// `mpwatch record` in one of its formats.
struct Recorder {
    child: Child,
    file: PathBuf,
    format: &'static str,
}

impl Recorder {
    /// Returns once it traces.
    fn start(folder: &Path, format: &'static str) -> Self {
        Self::into_file(folder.join(format!("{format}.mpw")), format, "200ms")
    }

    fn into_file(file: PathBuf, format: &'static str, interval: &str) -> Self {
        let mut child = Command::new(program())
            .arg("record")
            .arg(&file)
            .args(["--format", format, "--interval", interval])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program can be started");
        let mut said = String::new();
        BufReader::new(child.stderr.take().unwrap()).read_line(&mut said).unwrap();
        assert!(said.contains("recording"), "{said}");
        Self { child, file, format }
    }

    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(i32::try_from(self.child.id()).unwrap()), signal).unwrap();
    }

    /// What it printed in the end. Call it after the signal.
    fn printed(mut self) -> String {
        let mut stdout = self.child.stdout.take().unwrap();
        let reader = std::thread::spawn(move || {
            let mut text = String::new();
            stdout.read_to_string(&mut text).map(|_| text)
        });
        poll_until("the recorder to end", PATIENCE, || self.child.try_wait().unwrap()).unwrap();
        reader.join().unwrap().unwrap()
    }

    fn path(&self) -> &str {
        self.file.to_str().unwrap()
    }

    /// Waits until the end of every connection of a lab, and of each of its subflows, is on the disk.
    fn wait_for_the_end_in(&self, lab: &Topology) {
        let over = |netns: &str| {
            let told = mpwatch(&["replay", self.path(), "--format", "json", "--netns", netns]);
            let report: Value = serde_json::from_str(&told.stdout).ok()?;
            let closed = |one: &Value| {
                let ended = |subflow: &Value| subflow["closed"].is_object();
                one["closed_at"].is_string() && list(one, "subflows").iter().all(ended)
            };
            let connections = list(&report, "connections");
            (!connections.is_empty() && connections.iter().all(closed)).then_some(())
        };
        poll_until("the client's end to be recorded", PATIENCE, || over(lab.client().name())).unwrap();
        let server_spoke_mptcp = || {
            let told = mpwatch(&["replay", self.path(), "--format", "json", "--netns", lab.server().name()]);
            told.stdout.contains(lab.server().name())
        };
        if server_spoke_mptcp() {
            poll_until("the server's end to be recorded", PATIENCE, || over(lab.server().name())).unwrap();
        }
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        // Only does something after a panic.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Two paths of a rate that makes a transfer last a second, with a little delay.
fn two_paths() -> Topology {
    let quality = |rtt| Quality::rate(30.0, Duration::from_millis(50)).rtt(Duration::from_millis(rtt));
    let paths = [10, 20].map(|rtt| PathSpec { quality: quality(rtt), ..PathSpec::default() }).to_vec();
    Topology::build(&TopologySpec { paths, quick_timeouts: true, ..TopologySpec::default() }).unwrap()
}

/// An upload over two paths of which the first dies half way.
fn failover(lab: &Topology) {
    let control = Arc::new(Control::default());
    let spec = lab.traffic(Workload::upload(BYTES)).unwrap();
    let transfer = Transfer::start(lab.client(), lab.server(), &spec, &control).unwrap();
    let half = || (control.received() > BYTES / 2).then_some(());
    poll_until("half of it to arrive", PATIENCE, half).unwrap();
    lab.path(0).unwrap().kill(How::LinkDown).unwrap();
    let outcome = transfer.join().unwrap();
    assert_eq!((outcome.client.first_error(), outcome.server.received()), (None, BYTES));
}

#[test]
fn a_replay_prints_what_the_recorder_printed() {
    if !may_run_as_root() {
        return;
    }
    let folder = TempDir::new().unwrap();
    let recorders = ["text", "json", "csv"].map(|format| Recorder::start(folder.path(), format));
    let lab = two_paths();
    failover(&lab);
    for recorder in &recorders {
        recorder.signal(Signal::SIGINT);
    }
    for recorder in recorders {
        let (file, format) = (recorder.path().to_owned(), recorder.format);
        let printed = recorder.printed();
        assert!(printed.contains(lab.client().name()), "{printed}");
        let replayed = mpwatch(&["replay", &file, "--format", format]);
        assert_eq!((replayed.code, replayed.stderr.as_str()), (Some(0), ""));
        assert!(replayed.stdout == printed, "{format}: recorded\n{printed}\nreplayed\n{}", replayed.stdout);
    }
}

#[test]
fn filters_apply_to_a_replay_as_they_do_to_a_live_run() {
    if !may_run_as_root() {
        return;
    }
    let folder = TempDir::new().unwrap();
    let recorder = Recorder::start(folder.path(), "json");
    let lab = two_paths();
    failover(&lab);
    recorder.wait_for_the_end_in(&lab);
    recorder.signal(Signal::SIGINT);
    let file = recorder.path().to_owned();
    recorder.printed();
    let replayed = mpwatch(&["replay", &file, "--format", "json", "--netns", lab.client().name()]);
    let report: Value = serde_json::from_str(&replayed.stdout).unwrap();
    let [connection] = list(&report, "connections") else { panic!("not one: {report:#}") };
    assert_eq!(text(connection, "netns"), lab.client().name());
    let snapshots = mpwatch(&["replay", &file, "--snapshots", "--netns", lab.client().name()]);
    let last = snapshots.stdout.lines().rfind(|line| line.contains(text(connection, "id"))).unwrap();
    let last: Value = serde_json::from_str(last).unwrap();
    assert_eq!(number(&last["connections"][0], "bytes_sent"), BYTES, "its last snapshot has its finals");
}

/// An upload that is done and stays open, and is on the disk while its recorder still runs.
struct Recorded {
    recorder: Recorder,
    upload: Held,
    _folder: TempDir,
}

impl Recorded {
    fn start() -> Self {
        let folder = TempDir::new().unwrap();
        let recorder = Recorder::start(folder.path(), "json");
        let held = Self { recorder, upload: Held::upload(BYTES), _folder: folder };
        let file = held.recorder.file.clone();
        // What the recorder held back would be lost with it.
        let told = || (held.told(&file).1 == Some(BYTES)).then_some(());
        poll_until("a tick after the transfer to be on the disk", PATIENCE, told).unwrap();
        held
    }

    /// What a replay says, and the bytes that it knows the client to have sent.
    fn told(&self, file: &Path) -> (Outcome, Option<u64>) {
        let netns = self.upload.client();
        let outcome = mpwatch(&["replay", file.to_str().unwrap(), "--format", "json", "--netns", netns]);
        let report: Option<Value> = serde_json::from_str(&outcome.stdout).ok();
        let sent = report.and_then(|report| report["connections"][0]["bytes_sent"].as_u64());
        (outcome, sent)
    }
}

#[test]
fn a_recorder_that_is_killed_leaves_a_file_that_can_be_replayed() {
    if !may_run_as_root() {
        return;
    }
    let mut held = Recorded::start();
    held.recorder.signal(Signal::SIGKILL);
    held.recorder.child.wait().unwrap();
    let (outcome, sent) = held.told(&held.recorder.file);
    assert_eq!((outcome.code, sent), (Some(0), Some(BYTES)), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("ends abruptly"), "{}", outcome.stderr);
}

#[test]
fn a_torn_recording_is_told_up_to_where_it_is_complete() {
    if !may_run_as_root() {
        return;
    }
    let mut held = Recorded::start();
    held.recorder.signal(Signal::SIGINT);
    held.recorder.child.wait().unwrap();
    let whole = std::fs::read(&held.recorder.file).unwrap();
    let torn = held.recorder.file.with_extension("torn");
    std::fs::write(&torn, &whole[..whole.len() - 20]).unwrap();
    let (outcome, sent) = held.told(&torn);
    assert_eq!((outcome.code, sent), (Some(0), Some(BYTES)), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("ends abruptly"), "{}", outcome.stderr);
    // However little there is of it: an error or a report, never a panic.
    for length in (0..whole.len()).step_by(whole.len() / 40) {
        std::fs::write(&torn, &whole[..length]).unwrap();
        let (outcome, _) = held.told(&torn);
        assert!([Some(0), Some(1)].contains(&outcome.code), "{length} bytes: {}", outcome.stderr);
    }
}

/// The client asks for MPTCP, the server is a plain TCP one.
fn fallback(lab: &Topology) {
    let spec = lab.traffic(Workload::upload(100_000)).unwrap();
    let control = Arc::new(Control::default());
    let (plain, shared) = (Spec { transport: Transport::Tcp, ..spec.clone() }, Arc::clone(&control));
    let server = lab.server().spawn("server", move || traffic::run_server(&plain, &shared)).unwrap();
    let client = lab.client().spawn("client", move || {
        let report = traffic::run_client(&spec, &control);
        control.cancel();
        report
    });
    assert_eq!(mpwatch_lab::join(client.unwrap()).unwrap().first_error(), None);
    mpwatch_lab::join(server).unwrap();
}

/// Of what is idle a snapshot tells only that it is unchanged; that must keep it alive for longer than silence would.
#[test]
fn an_idle_connection_stays_open_with_its_totals() {
    if !may_run_as_root() {
        return;
    }
    let lab = two_paths();
    let observer = Observer::start_every("100ms", &[]);
    let control = Arc::new(Control::holding());
    let spec = lab.traffic(Workload::upload(BYTES)).unwrap();
    let transfer = Transfer::start(lab.client(), lab.server(), &spec, &control).unwrap();
    poll_until("everything to arrive", PATIENCE, || (control.held() == 1).then_some(())).unwrap();
    // Idling is what is tested: more ticks than make a silent flow count as gone.
    std::thread::sleep(Duration::from_millis(1_600));
    let report = observer.finish();
    control.release();
    transfer.join().unwrap();
    let totals = [(lab.client(), "bytes_sent"), (lab.server(), "bytes_received")];
    for connection in totals.map(|(end, bytes)| (report.only_connection_in(end.name()), bytes)) {
        let (connection, bytes) = connection;
        assert_eq!(number(connection, bytes), BYTES, "{connection:#}");
        assert!(connection["closed_at"].is_null(), "{connection:#}");
        let subflows = list(connection, "subflows");
        assert!(subflows.len() == 2 && subflows.iter().all(|s| s["closed"].is_null()), "{connection:#}");
        assert!(subflows.iter().all(|s| s["send_bps"] == 0 && s["receive_bps"] == 0), "{connection:#}");
    }
    assert_eq!(number(&report.json["losses"], "vanished"), 0);
}

/// Runs something to its end.
fn run(lab: &Topology, workload: Workload) {
    let spec = lab.traffic(workload).unwrap();
    let outcome = traffic::run(lab.client(), lab.server(), &spec).unwrap();
    assert_eq!(outcome.client.first_error(), None);
}

/// What happens in a lab.
type Traffic<'a> = &'a dyn Fn(&Topology);

/// How the recordings under `tests/fixtures/events` were made; its README has the command.
#[test]
#[ignore = "writes into the source tree"]
fn make_the_recordings_of_the_replay_tests() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/events");
    let think = Duration::from_millis(20);
    let requests = Workload::Requests { count: 30, up: 200, down: 10_000, think };
    let runs: [(&str, Traffic<'_>, usize); 4] = [
        ("two_paths", &|lab| run(lab, Workload::upload(BYTES)), 2),
        ("failover", &failover, 2),
        ("requests", &|lab| run(lab, requests), 2),
        ("fallback", &fallback, 1),
    ];
    for (name, traffic, connections) in runs {
        let file = folder.join(format!("{name}.mpw"));
        // Other MPTCP traffic on the machine would be in the recording too.
        let alone = (0..20).any(|_| record_into(&file, traffic) == connections);
        assert!(alone, "{name}: there is always other MPTCP traffic on this machine");
        let size = file.metadata().unwrap().len();
        assert!(size < 150_000, "{name} is too large for the source tree: {size} bytes");
    }
}

/// Returns how many connections are in the recording.
fn record_into(file: &Path, traffic: Traffic<'_>) -> usize {
    let recorder = Recorder::into_file(file.to_owned(), "json", "500ms");
    let lab = two_paths();
    traffic(&lab);
    recorder.wait_for_the_end_in(&lab);
    recorder.signal(Signal::SIGINT);
    let report: Value = serde_json::from_str(&recorder.printed()).unwrap();
    list(&report, "connections").len()
}
