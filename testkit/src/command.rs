// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs `mpwatch`, the program under test, and other commands. Every wait has a deadline.

use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use mpwatch_lab::poll_until;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::emulation;

/// Timeout of a command. It is long enough for a study of a few cells, and for a report of 100 000 sockets on a busy machine.
const END_TIMEOUT: Duration = Duration::from_mins(5);

/// Exit code and output of a command.
#[derive(Debug)]
pub struct CommandOutput {
    /// Exit code. `None`: ended by a signal.
    pub code: Option<i32>,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

impl From<std::process::Output> for CommandOutput {
    fn from(output: std::process::Output) -> Self {
        Self {
            code: output.status.code(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

/// Path of the program: `$MPWATCH_BIN`, or the program that cargo built into the folder of this test or bench.
pub fn program() -> PathBuf {
    if let Some(path) = std::env::var_os("MPWATCH_BIN") {
        return path.into();
    }
    let this = std::env::current_exe().expect("a process knows the path of its program");
    // cargo puts tests one folder below the programs.
    let mut built = this.ancestors().skip(1).take(2).map(|folder| folder.join("mpwatch"));
    built.find(|path| path.is_file()).expect("mpwatch is not built: run `cargo build -p mpwatch`")
}

/// Runs the program to its end.
pub fn mpwatch(arguments: &[&str]) -> CommandOutput {
    output(Command::new(program()).args(arguments)).into()
}

/// Runs a command without input to its end. After a timeout it is killed, and the test fails.
#[track_caller]
pub fn output(command: &mut Command) -> Output {
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    finish(child.unwrap_or_else(|error| panic!("{command:?} cannot be started: {error}")))
}

/// As [`output`], for a command that has been started with pipes.
#[track_caller]
pub fn finish(child: Child) -> Output {
    let pid = Pid::from_raw(child.id().cast_signed());
    let (sender, ended) = channel();
    std::thread::spawn(move || sender.send(child.wait_with_output()));
    let output = ended.recv_timeout(emulation::timeout(END_TIMEOUT)).unwrap_or_else(|_| {
        // The process may have ended just now.
        let _ = kill(pid, Signal::SIGKILL);
        panic!("process {pid} does not end");
    });
    output.expect("the output can be read")
}

/// Waits until a process has ended. After a timeout the test fails.
#[track_caller]
pub fn wait(child: &mut Child) -> ExitStatus {
    let ended = poll_until("a process to end", emulation::timeout(END_TIMEOUT), || {
        child.try_wait().expect("a child process")
    });
    ended.unwrap()
}

/// The lines of a process's output, read by a thread, so that the process never waits for the test and the test may wait with a timeout.
pub fn lines(output: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, lines) = channel();
    std::thread::spawn(move || {
        // The thread ends when the output ends, or when the receiver is dropped.
        let _ = BufReader::new(output).lines().map_while(Result::ok).try_for_each(|line| sender.send(line));
    });
    lines
}
