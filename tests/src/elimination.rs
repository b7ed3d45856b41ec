// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs `mpwatch control eliminate` and reads its steps.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use mpwatch_lab::{Topology, poll_until};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use crate::{emulation, program, text};

const TIMEOUT: Duration = Duration::from_mins(1);

/// A running `mpwatch control eliminate`.
pub struct Elimination {
    child: Child,
    lines: Receiver<String>,
    seen: Vec<Value>,
}

impl Elimination {
    /// Starts the command for the connections of the lab's client, and waits until it traces.
    pub fn start(lab: &Topology, options: &[&str]) -> Self {
        let mut child = Command::new(program())
            .args(["control", "eliminate", "--json", "--ledger", "off", "--interval", "250ms"])
            .args(["--netns", lab.client().name()])
            .args(options)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program can be started");
        // The program prints a line when it traces.
        let mut began = String::new();
        BufReader::new(child.stderr.take().unwrap()).read_line(&mut began).unwrap();
        assert!(began.contains("Ctrl-C stops"), "{began}");
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            stdout.lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        Self { child, lines, seen: Vec::new() }
    }

    /// The steps so far with this name.
    pub fn steps(&mut self, name: &str) -> Vec<Value> {
        let new = self.lines.try_iter().map(|line| serde_json::from_str(&line).expect("a line is an event"));
        self.seen.extend(new);
        self.seen.iter().filter(|event| text(event, "step") == name).cloned().collect()
    }

    /// Waits for this many steps with this name.
    #[track_caller]
    pub fn wait_for(&mut self, name: &str, count: usize) -> Vec<Value> {
        let reached = poll_until(name, emulation::timeout(TIMEOUT), || {
            let found = self.steps(name);
            (found.len() >= count).then_some(found)
        });
        reached.unwrap_or_else(|error| panic!("{error}: {:#?}", self.seen))
    }

    /// Interrupts the command and returns all events.
    pub fn stop(mut self) -> Vec<Value> {
        kill(Pid::from_raw(self.child.id().cast_signed()), Signal::SIGINT).unwrap();
        let status =
            poll_until("the command", emulation::timeout(TIMEOUT), || self.child.try_wait().unwrap());
        assert_eq!(status.unwrap().code(), Some(0));
        self.steps("");
        std::mem::take(&mut self.seen)
    }
}

impl Drop for Elimination {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
