// SPDX-License-Identifier: MIT OR Apache-2.0
//! The program under test.

use std::path::PathBuf;
use std::process::{Command, Stdio};

/// The result of a run of the program.
#[derive(Debug)]
pub struct Outcome {
    /// Exit code. `None`: a signal ended it.
    pub code: Option<i32>,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

/// The program: `$MPWATCH_BIN`, or the one that cargo built beside this test or bench.
pub fn program() -> PathBuf {
    if let Some(path) = std::env::var_os("MPWATCH_BIN") {
        return path.into();
    }
    let this = std::env::current_exe().expect("a process knows the path of its program");
    // Tests are one folder below the programs.
    let mut built = this.ancestors().skip(1).take(2).map(|folder| folder.join("mpwatch"));
    built.find(|path| path.is_file()).expect("mpwatch is not built: run `cargo build -p mpwatch`")
}

/// Runs it and waits for its end.
pub fn mpwatch(arguments: &[&str]) -> Outcome {
    let output = Command::new(program())
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .expect("the program can be started");
    Outcome {
        code: output.status.code(),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}
