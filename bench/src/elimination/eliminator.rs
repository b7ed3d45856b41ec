// SPDX-License-Identifier: MIT OR Apache-2.0
//! A running `mpwatch control eliminate`.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::thread::{self, JoinHandle};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use mpwatch_testkit::program;

/// The process and the thread that reads its steps. The process is killed when the value is dropped.
pub(super) struct Elimination {
    child: Child,
    steps: Option<JoinHandle<Vec<Value>>>,
}

impl Elimination {
    /// Starts the command for a network namespace, and waits until it traces.
    pub(super) fn start(netns: &str, options: &[&str]) -> std::io::Result<Self> {
        let mut child = Command::new(program())
            .args(["control", "eliminate", "--json", "--ledger", "off", "--netns", netns])
            .args(options)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let mut messages = BufReader::new(child.stderr.take().expect("standard error is piped"));
        let mut first = String::new();
        messages.read_line(&mut first)?;
        thread::spawn(move || {
            messages.lines().map_while(Result::ok).for_each(|message| eprintln!("{message}"));
        });
        let output = BufReader::new(child.stdout.take().expect("standard output is piped"));
        let steps = thread::spawn(move || {
            let lines = output.lines().map_while(Result::ok);
            lines.filter_map(|line| serde_json::from_str(&line).ok()).collect()
        });
        if !first.contains("Ctrl-C stops") {
            return Err(std::io::Error::other(first));
        }
        Ok(Self { child, steps: Some(steps) })
    }

    /// Interrupts the command and returns its steps.
    pub(super) fn stop(mut self) -> std::io::Result<Vec<Value>> {
        kill(Pid::from_raw(self.child.id().cast_signed()), Signal::SIGINT)?;
        self.child.wait()?;
        let steps = self.steps.take().and_then(|thread| thread.join().ok());
        steps.ok_or_else(|| std::io::Error::other("the thread that reads steps panicked"))
    }
}

impl Drop for Elimination {
    fn drop(&mut self) {
        // Fails if the process has already ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
