// SPDX-License-Identifier: MIT OR Apache-2.0
//! `mpwatch record` beside traffic, and the report that it prints when it is stopped.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use mpwatch_lab::{Namespace, Topology, poll_until};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use tempfile::TempDir;

use crate::harness::pace;
use crate::harness::program::program;

/// How long a run may take to print its report after it was stopped.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A running `mpwatch record`.
pub struct Observer {
    child: Child,
    folder: TempDir,
}

impl Observer {
    /// Starts it and returns once it traces: it sees the start of every connection opened from now on. On an emulated machine it runs
    /// without the ledger and without detection: attaching their programs takes two fifths of the start there, and few tests need them.
    pub fn start(arguments: &[&str]) -> Self {
        let mut arguments = arguments.to_vec();
        if pace::is_emulated() {
            arguments.extend(["--no-ledger", "--no-bottlenecks"]);
        }
        Self::start_every("200ms", &arguments)
    }

    /// Like [`Self::start`], but with ledger and detection on every machine.
    pub fn start_whole(arguments: &[&str]) -> Self {
        Self::start_every("200ms", arguments)
    }

    /// Like [`Self::start_whole`], with another interval than 200 ms.
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
        let mut stderr = BufReader::new(child.stderr.take().expect("standard error is piped"));
        let mut line = String::new();
        stderr.read_line(&mut line).expect("standard error can be read");
        assert!(line.contains("recording"), "mpwatch did not begin to record: {line}{}", remaining(stderr));
        // A full pipe would block it.
        std::thread::spawn(move || eprint!("{}", remaining(stderr)));
        Self { child, folder }
    }

    /// Process id of the program.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits until all sockets of a lab have closed, then stops it and reads its report.
    pub fn finish_when_quiet(self, lab: &Topology) -> Report {
        for namespace in [lab.client(), lab.server()] {
            let quiet = poll_until("the last sockets to close", pace::limit(TIMEOUT), || {
                is_quiet(namespace).then_some(())
            });
            quiet.expect("sockets close when the traffic is over");
        }
        self.finish()
    }

    /// Stops it and reads its report.
    pub fn finish(mut self) -> Report {
        let mut stdout = self.child.stdout.take().expect("standard output is piped");
        let reader = std::thread::spawn(move || {
            let mut text = String::new();
            stdout.read_to_string(&mut text).map(|_| text)
        });
        let pid = Pid::from_raw(i32::try_from(self.child.id()).expect("a process id fits"));
        kill(pid, Signal::SIGINT).expect("our own child can be interrupted");
        let status = poll_until("mpwatch to end", pace::limit(TIMEOUT), || {
            self.child.try_wait().expect("our own child")
        });
        let status = status.expect("mpwatch ends when it is interrupted");
        let text = reader.join().expect("the reader does not panic").expect("standard output can be read");
        assert!(status.success(), "mpwatch failed with {status}: {text}");
        let json = serde_json::from_str(&text).unwrap_or_else(|error| panic!("no JSON ({error}): {text}"));
        let folder = std::mem::replace(&mut self.folder, TempDir::new().expect("a folder"));
        Report { json, text, folder }
    }
}

impl Drop for Observer {
    fn drop(&mut self) {
        // After `finish` it has already ended. After a panic it has not.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The report of a run.
pub struct Report {
    /// Parsed.
    pub json: Value,
    /// As printed.
    pub text: String,
    folder: TempDir,
}

impl Report {
    /// The recording of the run.
    pub fn recording(&self) -> PathBuf {
        self.folder().join("run.mpw")
    }

    /// Connections in a namespace, by its name, in the order in which they were opened.
    pub fn connections_in(&self, namespace: &str) -> Vec<&Value> {
        self.json["connections"]
            .as_array()
            .expect("a report lists connections")
            .iter()
            .filter(|connection| connection["netns"] == namespace)
            .collect()
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

/// Whether no TCP sockets exist but listening ones and those in TIME_WAIT, which no longer belong to a flow.
fn is_quiet(namespace: &Namespace) -> bool {
    const TIME_WAIT: &str = "06";
    const LISTEN: &str = "0A";
    let tables = ["/proc/thread-self/net/tcp", "/proc/thread-self/net/tcp6"];
    let read = || tables.map(|table| std::fs::read_to_string(table).expect("the socket table can be read"));
    let tables = namespace.enter(read).expect("the lab's namespace can be entered");
    let states = tables
        .iter()
        .flat_map(|table| table.lines().skip(1))
        .filter_map(|line| line.split_whitespace().nth(3));
    states.into_iter().all(|state| [TIME_WAIT, LISTEN].contains(&state))
}

fn remaining(mut stderr: impl Read) -> String {
    let mut text = String::new();
    // It is only shown: an error does not matter.
    let _ = stderr.read_to_string(&mut text);
    text
}
