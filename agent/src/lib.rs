// SPDX-License-Identifier: MIT OR Apache-2.0
//! The program `mpwatch`: parses the command line, runs the command, returns its exit code. A library only so that the fuzz targets
//! reach the program's parsers; it has no other users.

mod attach;
mod capability;
mod cli;
mod clock;
mod command;
mod config;
mod daemon;
mod doctor;
mod energy;
mod error;
mod exit;
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
mod signals;
mod source;
mod time_spec;
mod windows;

#[doc(hidden)]
pub mod fuzz;

use std::process::ExitCode;

use clap::Parser;

/// Runs the program with the arguments of this process.
pub fn main() -> ExitCode {
    let cli = cli::Cli::parse();
    match command::run(&cli) {
        Ok(code) => code,
        Err(error) if exit::is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("mpwatch: {}", exit::message(&error));
            exit::code(&error)
        }
    }
}
