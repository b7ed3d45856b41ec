// SPDX-License-Identifier: MIT OR Apache-2.0
//! The program `mpwatch`: parses the command line, runs the command, returns its exit code. A library only so that the fuzz targets
//! reach the program's parsers; it has no other users.

mod attach;
mod budget;
mod capability;
mod cli;
mod clock;
mod command;
mod compression;
mod config;
mod cost;
mod credentials;
mod daemon;
mod doctor;
mod energy;
mod error;
mod exit;
#[cfg(any(feature = "http-client", feature = "parquet"))]
mod export;
mod journal;
mod live;
mod lock;
mod mib;
mod names;
mod owners;
mod pace;
mod paths;
mod privilege;
mod procfs;
mod protocol;
mod quantity;
mod recording;
mod screen;
mod session;
mod setup;
mod sheet;
mod signals;
mod simulation;
mod source;
#[cfg(feature = "control")]
mod study;
mod time_spec;
mod windows;

#[cfg(feature = "fuzz")]
#[doc(hidden)]
pub mod fuzz;

use std::process::ExitCode;

/// Runs the program with the arguments of this process.
pub fn main() -> ExitCode {
    let cli = cli::Cli::of_process();
    let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    let outcome = config::environment::check(names).map_err(anyhow::Error::from);
    match outcome.and_then(|()| command::run(&cli)) {
        Ok(code) => code,
        Err(error) if exit::is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("mpwatch: {}", exit::message(&error));
            exit::code(&error)
        }
    }
}
