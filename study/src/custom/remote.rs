// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs the command that starts an end, possibly on another machine, and exchanges lines with the end.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::bail;
use mpwatch::shared::{Failure, KERNEL, PERMISSION, RUNTIME};
use serde::de::DeserializeOwned;

use super::between::Endpoint;
use super::message::{EndpointRequest, Side};

/// Time between two checks of the stop flag.
const CHECK_INTERVAL: Duration = Duration::from_millis(50);
/// Exit code of a shell that did not find a program.
const NOT_FOUND: i32 = 127;

/// The process of a command. When the value is dropped, its standard input is closed, and the process ends.
pub(super) struct Remote<'a> {
    side: Side,
    endpoint: &'a Endpoint,
    child: Child,
    /// `None`: closed, because the process has ended or the value is being dropped.
    input: Option<ChildStdin>,
    lines: Receiver<String>,
    errors: Receiver<String>,
}

impl<'a> Remote<'a> {
    /// Starts the command and sends the request.
    pub(super) fn start(
        side: Side,
        endpoint: &'a Endpoint,
        request: &EndpointRequest,
    ) -> anyhow::Result<Self> {
        let words = endpoint.words();
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|error| {
            let (name, words) = (side.name(), words.join(" "));
            Failure::usage(format!(
                "cannot start the {name}'s command `{words}`: {error}; correct [{name}] command in the file"
            ))
        })?;
        let (output, mut error_output) = (child.stdout.take(), child.stderr.take());
        let (sender, lines) = mpsc::channel();
        thread::spawn(move || {
            let lines = output
                .map(BufReader::new)
                .into_iter()
                .flat_map(|output| output.lines().map_while(Result::ok));
            lines.map(|line| sender.send(line)).all(|sent| sent.is_ok())
        });
        let (sender, errors) = mpsc::channel();
        thread::spawn(move || {
            let mut text = Vec::new();
            let _ = error_output.as_mut().map(|output| output.read_to_end(&mut text));
            sender.send(String::from_utf8_lossy(&text).into_owned())
        });
        let input = child.stdin.take();
        let mut remote = Self { side, endpoint, child, input, lines, errors };
        remote.send(&serde_json::to_string(request)?);
        Ok(remote)
    }

    /// Sends a line. If the process has ended, the next call of `answer` returns the reason.
    pub(super) fn send(&mut self, line: &str) {
        if let Some(input) = &mut self.input {
            let _ = writeln!(input, "{line}").and_then(|()| input.flush());
        }
    }

    /// Waits for the next answer.
    pub(super) fn answer<T: DeserializeOwned>(
        &mut self,
        timeout: Duration,
        stop: &AtomicBool,
    ) -> anyhow::Result<T> {
        let deadline = Instant::now() + timeout;
        while !stop.load(Ordering::Relaxed) {
            match self.lines.recv_timeout(CHECK_INTERVAL) {
                Ok(line) => return serde_json::from_str(&line).map_err(|_| self.not_an_answer(&line).into()),
                Err(RecvTimeoutError::Disconnected) => return Err(self.ended()),
                Err(RecvTimeoutError::Timeout) if Instant::now() > deadline => {
                    bail!("the {} did not answer within {} s", self.side.name(), timeout.as_secs())
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
        bail!("interrupted")
    }

    fn not_an_answer(&self, line: &str) -> Failure {
        let (name, start) = (self.side.name(), line.chars().take(60).collect::<String>());
        let what = format!("the {name}'s command wrote `{start}` to standard output instead of an answer");
        Failure {
            code: RUNTIME,
            message: format!(
                "{what}; its shell must print nothing, and mpwatch must be the same version there"
            ),
        }
    }

    /// The reason why the process ended without an answer. A reason that also affects other runs becomes a `Failure`, which ends the study.
    fn ended(&mut self) -> anyhow::Error {
        self.input = None;
        let code = self.child.wait().ok().and_then(|status| status.code());
        let errors = self.errors.recv_timeout(Duration::from_secs(1)).unwrap_or_default();
        let last = errors.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("it wrote no error");
        let (name, words) = (self.side.name(), self.endpoint.words().join(" "));
        let message = format!("the {name}'s command `{words}` failed: {last}");
        match code {
            Some(code) if code == i32::from(PERMISSION) => Failure { code: PERMISSION, message }.into(),
            Some(code) if code == i32::from(KERNEL) => Failure { code: KERNEL, message }.into(),
            Some(NOT_FOUND) => {
                let advice = format!(
                    "install mpwatch there, or set its path: [{name}] mpwatch = \"/path/to/mpwatch\""
                );
                Failure::usage(format!("{message}; {advice}")).into()
            }
            _ => anyhow::anyhow!(message),
        }
    }
}

impl Drop for Remote<'_> {
    fn drop(&mut self) {
        self.input = None;
        // An end exits within a tick after its input is closed. If it does not exit, it is killed, because it must not outlive the study.
        let deadline = Instant::now() + Duration::from_secs(2);
        while Instant::now() < deadline {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            thread::sleep(CHECK_INTERVAL);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
