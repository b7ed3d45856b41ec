// SPDX-License-Identifier: MIT OR Apache-2.0
//! `mpwatch`: observes Multipath TCP on the running kernel. Parses the command line, runs the command, returns its exit code.

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
mod names;
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

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
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
