// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs `mpwatch`, the program under test.

use std::path::PathBuf;
use std::process::{Command, Stdio};

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
    // Tests are one folder below the programs.
    let mut built = this.ancestors().skip(1).take(2).map(|folder| folder.join("mpwatch"));
    built.find(|path| path.is_file()).expect("mpwatch is not built: run `cargo build -p mpwatch`")
}

/// Runs the program to its end.
pub fn mpwatch(arguments: &[&str]) -> CommandOutput {
    let output = Command::new(program()).args(arguments).stdin(Stdio::null()).output();
    output.expect("the program can be started").into()
}
