// SPDX-License-Identifier: MIT OR Apache-2.0
//! `mpwatch`: traces Multipath TCP on the running kernel and shows it. This file only parses the command line, runs the
//! command and turns its outcome into an exit code.

mod attach;
mod cli;
mod clock;
mod command;
mod config;
mod daemon;
mod doctor;
mod energy;
mod exit;
mod live;
mod moment;
mod names;
mod privilege;
mod recording;
mod screen;
mod session;
mod source;

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
