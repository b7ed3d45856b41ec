// SPDX-License-Identifier: MIT OR Apache-2.0
//! The frame of a program: checks the environment, runs a command, prints its error and returns its exit code.

use std::process::ExitCode;

use crate::config::environment;
use crate::error::exit;

/// Runs a command of the program with this name.
pub fn run(name: &str, command: impl FnOnce() -> anyhow::Result<ExitCode>) -> ExitCode {
    let variables = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    let outcome = environment::check(variables).map_err(anyhow::Error::from);
    match outcome.and_then(|()| command()) {
        Ok(code) => code,
        Err(error) if exit::is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{name}: {}", exit::message(&error));
            exit::code(&error)
        }
    }
}
