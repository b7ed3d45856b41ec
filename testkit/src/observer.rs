// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs `mpwatch record` during the traffic of a test, and parses the report that it prints at its end.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use mpwatch_lab::{Namespace, Topology, poll_until};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use tempfile::TempDir;

use crate::command::{lines, mpwatch, program};
use crate::emulation;
use crate::json::list;

/// Timeout for tracing to start, and for sockets to close.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Timeout for the program to end. A report of 100 000 sockets as JSON takes some 15 s of CPU time, several times as long on a busy machine.
const END_TIMEOUT: Duration = Duration::from_mins(3);

/// A running `mpwatch record`.
pub struct Observer {
    child: Child,
    folder: TempDir,
}

impl Observer {
    /// Starts mpwatch and waits until it traces, so that it traces all later connections from their start. On an emulated machine
    /// it runs without the CPU ledger and without bottleneck detection, because few tests need them and loading their BPF programs takes
    /// two fifths of the start-up time there.
    pub fn start(arguments: &[&str]) -> Self {
        let mut arguments = arguments.to_vec();
        if emulation::is_emulated() {
            arguments.extend(["--ledger", "off", "--no-bottlenecks"]);
        }
        Self::start_every("200ms", &arguments)
    }

    /// As [`Observer::start`], with the ledger and bottleneck detection on every machine.
    pub fn start_complete(arguments: &[&str]) -> Self {
        Self::start_every("200ms", arguments)
    }

    /// As [`Observer::start_complete`], with another sampling interval.
    pub fn start_every(interval: &str, arguments: &[&str]) -> Self {
        let folder = TempDir::new().expect("a folder for the recording");
        let mut child = Command::new(program())
            .arg("record")
            .arg(folder.path().join("run.mpw"))
            .args(["--format", "json", "--interval", interval])
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program can be started");
        let messages = lines(child.stderr.take().expect("standard error is piped"));
        let first = messages.recv_timeout(emulation::timeout(TIMEOUT)).unwrap_or_default();
        assert!(
            first.contains("recording"),
            "mpwatch does not record: {first} {:?}",
            std::iter::from_fn(|| messages.recv_timeout(Duration::from_secs(2)).ok()).collect::<Vec<_>>()
        );
        std::thread::spawn(move || messages.iter().for_each(|message| eprintln!("{message}")));
        Self { child, folder }
    }

    /// The process id of mpwatch.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The recording, which is being written.
    pub fn recording(&self) -> PathBuf {
        self.folder.path().join("run.mpw")
    }

    /// Waits until the kernel has removed all sockets of a lab's connections, then stops mpwatch and reads its report.
    pub fn finish_after_close(self, lab: &Topology) -> Report {
        for namespace in [lab.client(), lab.server()] {
            let closed = poll_until("the last sockets to close", emulation::timeout(TIMEOUT), || {
                is_without_connections(namespace).then_some(())
            });
            closed.expect("sockets close after the traffic has ended");
        }
        self.finish()
    }

    /// Waits until the recording has the end of every connection and subflow of these labs, then stops mpwatch and reads its report. A
    /// socket leaves the kernel's list before its end is recorded, so [`Observer::finish_after_close`] is faster but may miss ends.
    pub fn finish_after_recorded_ends(self, labs: &[Topology]) -> Report {
        let recording = self.recording();
        for namespace in labs.iter().flat_map(|lab| [lab.client(), lab.server()]) {
            wait_for_recorded_ends(&recording, namespace, TIMEOUT);
        }
        self.finish()
    }

    /// Stops mpwatch and reads its report.
    pub fn finish(mut self) -> Report {
        let mut stdout = self.child.stdout.take().expect("standard output is piped");
        let reader = std::thread::spawn(move || {
            let mut text = String::new();
            stdout.read_to_string(&mut text).map(|_| text)
        });
        let pid = Pid::from_raw(i32::try_from(self.child.id()).expect("a process id fits"));
        kill(pid, Signal::SIGINT).expect("a child process can be interrupted");
        let status = poll_until("mpwatch to end", emulation::timeout(END_TIMEOUT), || {
            self.child.try_wait().expect("a child process")
        });
        let status = status.expect("mpwatch ends when it is interrupted");
        let text = reader.join().expect("the reader does not panic").expect("standard output can be read");
        assert!(status.success(), "mpwatch failed with {status}: {text}");
        let json =
            serde_json::from_str(&text).unwrap_or_else(|error| panic!("invalid JSON ({error}): {text}"));
        let folder = std::mem::replace(&mut self.folder, TempDir::new().expect("a folder"));
        Report { json, text, folder }
    }
}

impl Drop for Observer {
    fn drop(&mut self) {
        // Needed only after a panic: `finish` has waited for the end of the program.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The report of mpwatch.
pub struct Report {
    /// The report as JSON.
    pub json: Value,
    /// The report as mpwatch printed it.
    pub text: String,
    folder: TempDir,
}

impl Report {
    /// The recording of the run.
    pub fn recording(&self) -> PathBuf {
        self.folder().join("run.mpw")
    }

    /// Connections in a namespace, in the order in which they were opened.
    pub fn connections_in(&self, namespace: &str) -> Vec<&Value> {
        list(&self.json, "connections").iter().filter(|connection| connection["netns"] == namespace).collect()
    }

    /// The only connection in a namespace.
    #[track_caller]
    pub fn only_connection_in(&self, namespace: &str) -> &Value {
        let all = self.connections_in(namespace);
        assert_eq!(all.len(), 1, "connections in {namespace}: {all:#?}");
        all[0]
    }

    fn folder(&self) -> &Path {
        self.folder.path()
    }
}

/// Waits until a recording on disk, which is still being written, has the end of every connection and subflow of a namespace.
pub fn wait_for_recorded_ends(recording: &Path, namespace: &Namespace, timeout: Duration) {
    let all_ended = || {
        let file = recording.to_str().expect("a path in UTF-8");
        let replayed = mpwatch(&["replay", file, "--format", "json", "--netns", namespace.name()]);
        let report: Value = serde_json::from_str(&replayed.stdout).ok()?;
        let has_ended = |connection: &Value| {
            let is_closed = |subflow: &Value| subflow["closed"].is_object();
            connection["closed_at"].is_string() && list(connection, "subflows").iter().all(is_closed)
        };
        let connections = list(&report, "connections");
        (!connections.is_empty() && connections.iter().all(has_ended)).then_some(())
    };
    let ended = poll_until("all ends to be recorded", emulation::timeout(timeout), all_ended);
    ended.unwrap_or_else(|error| panic!("{}: {error}", namespace.name()));
}

/// Whether a namespace has only TCP sockets in LISTEN and TIME_WAIT.
fn is_without_connections(namespace: &Namespace) -> bool {
    const TIME_WAIT: &str = "06";
    const LISTEN: &str = "0A";
    tcp_states(namespace).iter().all(|state| [TIME_WAIT, LISTEN].contains(&state.as_str()))
}

/// Number of TCP sockets in ESTABLISHED in a namespace, such as open subflows whose handshake is complete.
pub fn established(namespace: &Namespace) -> usize {
    const ESTABLISHED: &str = "01";
    tcp_states(namespace).iter().filter(|state| *state == ESTABLISHED).count()
}

/// The state of each TCP socket in a namespace, as the kernel writes it.
fn tcp_states(namespace: &Namespace) -> Vec<String> {
    let tables = ["/proc/thread-self/net/tcp", "/proc/thread-self/net/tcp6"];
    let read = || tables.map(|table| std::fs::read_to_string(table).expect("the socket table can be read"));
    let tables = namespace.enter(read).expect("the lab's namespace can be entered");
    let lines = tables.iter().flat_map(|table| table.lines().skip(1));
    lines.filter_map(|line| line.split_whitespace().nth(3)).map(str::to_owned).collect()
}
