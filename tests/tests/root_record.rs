// SPDX-License-Identifier: MIT OR Apache-2.0
//! A replay prints exactly what the recorder printed, in every format. A recording can be replayed after its recorder was killed.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::Duration;

use mpwatch_lab::topology::PathFailure;
use mpwatch_lab::traffic::{self, Control, TrafficSpec, Transfer, Transport, Workload};
use mpwatch_lab::{Topology, poll_until};
use mpwatch_tests::failover::{self, BYTES};
use mpwatch_tests::{
    CommandOutput, Observer, OpenConnection, lines, list, may_run_as_root, mpwatch, number, program, text,
    wait, wait_for_recorded_ends,
};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use tempfile::TempDir;

const TIMEOUT: Duration = Duration::from_secs(30);

/// A running `mpwatch record` with an output format.
struct Recorder {
    child: Child,
    messages: Receiver<String>,
    file: PathBuf,
    format: &'static str,
}

impl Recorder {
    /// Starts a recorder and returns when it traces.
    fn start(folder: &Path, format: &'static str) -> Self {
        Self::into_file(folder.join(format!("{format}.mpw")), format, "200ms").tracing()
    }

    /// Starts a recorder.
    fn into_file(file: PathBuf, format: &'static str, interval: &str) -> Self {
        let mut child = Command::new(program())
            .arg("record")
            .arg(&file)
            .args(["--force", "--format", format, "--interval", interval])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program can be started");
        let messages = lines(child.stderr.take().unwrap());
        Self { child, messages, file, format }
    }

    /// Returns when the recorder traces.
    fn tracing(self) -> Self {
        let first = self.messages.recv_timeout(TIMEOUT).unwrap();
        assert!(first.contains("recording"), "{first}");
        self
    }

    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(i32::try_from(self.child.id()).unwrap()), signal).unwrap();
    }

    /// Waits for the end of the recorder and returns its output. Call this after a signal.
    fn output(mut self) -> String {
        let mut stdout = self.child.stdout.take().unwrap();
        let reader = std::thread::spawn(move || std::io::read_to_string(&mut stdout));
        wait(&mut self.child);
        reader.join().unwrap().unwrap()
    }

    fn path(&self) -> &str {
        self.file.to_str().unwrap()
    }

    /// Waits until the recording on disk contains the close of every connection and subflow of a lab.
    fn wait_for_closes_in(&self, lab: &Topology) {
        wait_for_recorded_ends(&self.file, lab.client(), TIMEOUT);
        let server_uses_mptcp = || {
            let replayed =
                mpwatch(&["replay", self.path(), "--format", "json", "--netns", lab.server().name()]);
            replayed.stdout.contains(lab.server().name())
        };
        if server_uses_mptcp() {
            wait_for_recorded_ends(&self.file, lab.server(), TIMEOUT);
        }
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        // Has an effect only after a panic.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_replay_prints_the_report_of_the_recorder() {
    if !may_run_as_root() {
        return;
    }
    let folder = TempDir::new().unwrap();
    let recorders = ["text", "json", "csv"]
        .map(|format| Recorder::into_file(folder.path().join(format), format, "200ms"));
    let lab = failover::two_paths();
    let recorders = recorders.map(Recorder::tracing);
    failover::upload(&lab, PathFailure::LinkDown);
    for recorder in &recorders {
        recorder.signal(Signal::SIGINT);
    }
    for recorder in recorders {
        let (file, format) = (recorder.path().to_owned(), recorder.format);
        let printed = recorder.output();
        assert!(printed.contains(lab.client().name()), "{printed}");
        let replayed = mpwatch(&["replay", &file, "--format", format]);
        assert_eq!((replayed.code, replayed.stderr.as_str()), (Some(0), ""));
        assert!(replayed.stdout == printed, "{format}: recorded\n{printed}\nreplayed\n{}", replayed.stdout);
    }
}

/// Values that must be equal in the output of two programs that trace the same connection.
fn story(connection: &Value) -> Value {
    let of = |subflow: &Value| {
        let bytes =
            ["bytes_sent", "bytes_received", "bytes_retransmitted"].map(|field| number(subflow, field));
        serde_json::json!([subflow["local"], subflow["remote"], bytes, number(subflow, "path_failures")])
    };
    let bytes = ["bytes_sent", "bytes_received", "bytes_reinjected"].map(|field| number(connection, field));
    serde_json::json!({
        "bytes": bytes,
        "subflows": list(connection, "subflows").iter().map(of).collect::<Vec<_>>(),
    })
}

/// Events of a timeline from tracepoints, without their times: each program relates the kernel's clock to the calendar by itself, and the
/// lengths of stalls differ by microseconds.
fn traced_events(connection: &Value) -> Vec<Value> {
    let traced = list(connection, "timeline").iter().filter(|entry| entry["source"] == "tracepoint");
    let without_time = |entry: &Value| {
        let mut entry = entry.as_object().unwrap().clone();
        entry.retain(|field, _| !["at", "gap_us", "timeout_us"].contains(&field.as_str()));
        entry.into()
    };
    traced.map(without_time).collect()
}

#[test]
fn a_demo_and_a_recorder_in_parallel_report_the_same() {
    if !may_run_as_root() {
        return;
    }
    let folder = TempDir::new().unwrap();
    let recording = Recorder::start(folder.path(), "json");
    let demo = mpwatch(&["demo", "failover", "--headless", "--seconds", "4", "--json"]);
    assert_eq!(demo.code, Some(0), "{}", demo.stderr);
    recording.signal(Signal::SIGINT);
    let [shown, recorded] =
        [demo.stdout, recording.output()].map(|json| serde_json::from_str::<Value>(&json).unwrap());
    let shown = list(&shown, "connections");
    assert_eq!(shown.len(), 2, "both ends");
    for connection in shown {
        let all = list(&recorded, "connections").iter();
        let other =
            all.clone().find(|other| other["id"] == connection["id"]).expect("the connection is recorded");
        assert_eq!(story(other), story(connection), "{}", text(connection, "role"));
        // The demo ends earlier than the subflow over the failed path, whose end only the recorder records.
        let (later, earlier) = (traced_events(other), traced_events(connection));
        assert_eq!(later[..earlier.len().min(later.len())], earlier, "{}", text(connection, "role"));
    }
    let client = shown.iter().find(|connection| connection["role"] == "client").unwrap();
    let failed = |subflow: &Value| number(subflow, "path_failures") > 0;
    assert!(list(client, "subflows").iter().any(failed), "a failed path: {client:#}");
}

#[test]
fn filters_apply_to_a_replay_as_they_do_to_a_live_run() {
    if !may_run_as_root() {
        return;
    }
    let folder = TempDir::new().unwrap();
    let recorder = Recorder::start(folder.path(), "json");
    let lab = failover::two_paths();
    run(&lab, Workload::upload(BYTES));
    recorder.wait_for_closes_in(&lab);
    recorder.signal(Signal::SIGINT);
    let file = recorder.path().to_owned();
    recorder.output();
    let replayed = mpwatch(&["replay", &file, "--format", "json", "--netns", lab.client().name()]);
    let report: Value = serde_json::from_str(&replayed.stdout).unwrap();
    let [connection] = list(&report, "connections") else { panic!("expected one connection: {report:#}") };
    assert_eq!(text(connection, "netns"), lab.client().name());
    let snapshots = mpwatch(&["replay", &file, "--snapshots", "--netns", lab.client().name()]);
    let last = snapshots.stdout.lines().rfind(|line| line.contains(text(connection, "id"))).unwrap();
    let last: Value = serde_json::from_str(last).unwrap();
    assert_eq!(
        number(&last["connections"][0], "bytes_sent"),
        BYTES,
        "the last snapshot has the final counters"
    );
}

/// A finished upload whose connection is open, with a running recorder that has written the upload to disk.
struct RecordedUpload {
    recorder: Recorder,
    upload: OpenConnection,
    _folder: TempDir,
}

impl RecordedUpload {
    fn start() -> Self {
        let folder = TempDir::new().unwrap();
        let recorder = Recorder::start(folder.path(), "json");
        let recording = Self { recorder, upload: OpenConnection::after_upload(BYTES), _folder: folder };
        let file = recording.recorder.file.clone();
        // A killed recorder loses unwritten data.
        let is_written = || (recording.replay(&file).1 == Some(BYTES)).then_some(());
        poll_until("the recording of the whole transfer", TIMEOUT, is_written).unwrap();
        recording
    }

    /// Replays the recording. Returns the output and the client's sent bytes in it.
    fn replay(&self, file: &Path) -> (CommandOutput, Option<u64>) {
        let netns = self.upload.client();
        let outcome = mpwatch(&["replay", file.to_str().unwrap(), "--format", "json", "--netns", netns]);
        let report: Option<Value> = serde_json::from_str(&outcome.stdout).ok();
        let sent = report.and_then(|report| report["connections"][0]["bytes_sent"].as_u64());
        (outcome, sent)
    }
}

#[test]
fn the_recording_of_a_killed_recorder_can_be_replayed() {
    if !may_run_as_root() {
        return;
    }
    let mut recording = RecordedUpload::start();
    recording.recorder.signal(Signal::SIGKILL);
    wait(&mut recording.recorder.child);
    let (outcome, sent) = recording.replay(&recording.recorder.file);
    assert_eq!((outcome.code, sent), (Some(1), Some(BYTES)), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("ends abruptly"), "{}", outcome.stderr);
}

#[test]
fn a_truncated_recording_is_replayed_as_far_as_it_is_complete() {
    if !may_run_as_root() {
        return;
    }
    let mut recording = RecordedUpload::start();
    recording.recorder.signal(Signal::SIGINT);
    wait(&mut recording.recorder.child);
    let whole = std::fs::read(&recording.recorder.file).unwrap();
    let truncated = recording.recorder.file.with_extension("truncated");
    std::fs::write(&truncated, &whole[..whole.len() - 20]).unwrap();
    let (outcome, sent) = recording.replay(&truncated);
    assert_eq!((outcome.code, sent), (Some(1), Some(BYTES)), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("ends abruptly"), "{}", outcome.stderr);
    // At every length the result is an error or a report, not a panic.
    for length in (0..whole.len()).step_by(whole.len() / 40) {
        std::fs::write(&truncated, &whole[..length]).unwrap();
        let (outcome, _) = recording.replay(&truncated);
        assert_eq!(outcome.code, Some(1), "{length} bytes: {}", outcome.stderr);
    }
}

/// An MPTCP client connects to a plain TCP server.
fn fallback(lab: &Topology) {
    let spec = lab.traffic(Workload::upload(100_000)).unwrap();
    let control = Arc::new(Control::default());
    let (plain, shared) = (TrafficSpec { transport: Transport::Tcp, ..spec.clone() }, Arc::clone(&control));
    let server = lab.server().spawn("server", move || traffic::run_server(&plain, &shared)).unwrap();
    let client = lab.client().spawn("client", move || {
        let report = traffic::run_client(&spec, &control);
        control.cancel();
        report
    });
    assert_eq!(mpwatch_lab::join(client.unwrap()).unwrap().first_error(), None);
    mpwatch_lab::join(server).unwrap();
}

/// For an idle flow the kernel side reports only that it is unchanged. The tracker must not treat it as gone.
#[test]
fn an_idle_connection_stays_open_with_its_totals() {
    if !may_run_as_root() {
        return;
    }
    let lab = failover::two_paths();
    let observer = Observer::start_every("100ms", &[]);
    let control = Arc::new(Control::holding());
    let spec = lab.traffic(Workload::upload(BYTES)).unwrap();
    let transfer = Transfer::start(lab.client(), lab.server(), &spec, &control).unwrap();
    poll_until("everything to arrive", TIMEOUT, || (control.held() == 1).then_some(())).unwrap();
    // The sleep has more ticks than the limit after which a flow without reports counts as gone. There is no condition to wait for.
    std::thread::sleep(Duration::from_millis(1_100));
    let report = observer.finish();
    control.release();
    transfer.join().unwrap();
    let ends = [(lab.client(), "bytes_sent"), (lab.server(), "bytes_received")];
    for connection in ends.map(|(end, bytes)| (report.only_connection_in(end.name()), bytes)) {
        let (connection, bytes) = connection;
        assert_eq!(number(connection, bytes), BYTES, "{connection:#}");
        assert!(connection["closed_at"].is_null(), "{connection:#}");
        let subflows = list(connection, "subflows");
        assert!(subflows.len() == 2 && subflows.iter().all(|s| s["closed"].is_null()), "{connection:#}");
        assert!(subflows.iter().all(|s| s["send_bps"] == 0 && s["receive_bps"] == 0), "{connection:#}");
    }
    assert_eq!(number(&report.json["losses"], "vanished"), 0);
}

/// Runs a workload to its end.
fn run(lab: &Topology, workload: Workload) {
    let spec = lab.traffic(workload).unwrap();
    let outcome = traffic::run(lab.client(), lab.server(), &spec).unwrap();
    assert_eq!(outcome.client.first_error(), None);
}

/// A function that runs traffic in a lab.
type Traffic<'a> = &'a dyn Fn(&Topology);

/// Writes the recordings in `tests/fixtures/events`; the README there has the command.
#[test]
#[ignore = "writes into the source tree"]
fn make_the_recordings_of_the_replay_tests() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/events");
    let think = Duration::from_millis(20);
    let requests =
        Workload::Requests { count: 30, request_bytes: 200, response_bytes: 10_000, think_time: think };
    let runs: [(&str, Traffic<'_>, usize); 4] = [
        ("two_paths", &|lab| run(lab, Workload::upload(BYTES)), 2),
        ("failover", &|lab| failover::upload(lab, PathFailure::LinkDown), 2),
        ("requests", &|lab| run(lab, requests), 2),
        ("fallback", &fallback, 1),
    ];
    for (name, traffic, connections) in runs {
        let file = folder.join(format!("{name}.mpw"));
        // Other MPTCP traffic on the machine would be in the recording.
        let is_clean = (0..20).any(|_| record_into(&file, traffic) == connections);
        assert!(is_clean, "{name}: other MPTCP traffic on this machine is in every recording");
        let size = file.metadata().unwrap().len();
        assert!(size < 150_000, "{name} is too large for the source tree: {size} bytes");
    }
}

/// Records traffic. Returns the number of connections in the recording.
fn record_into(file: &Path, traffic: Traffic<'_>) -> usize {
    let recorder = Recorder::into_file(file.to_owned(), "json", "500ms").tracing();
    let lab = failover::two_paths();
    traffic(&lab);
    recorder.wait_for_closes_in(&lab);
    recorder.signal(Signal::SIGINT);
    let report: Value = serde_json::from_str(&recorder.output()).unwrap();
    list(&report, "connections").len()
}
