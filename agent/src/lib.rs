// SPDX-License-Identifier: MIT OR Apache-2.0
//! The program `mpwatch`: parses the command line, runs the command, returns its exit code. A library for the program `mpwatch-study`,
//! which uses [`shared`] only, and for the fuzz targets.

mod attach;
mod budget;
mod capability;
mod cli;
mod clock;
mod command;
mod companion;
mod config;
mod cost;
mod daemon;
#[cfg(feature = "http-client")]
mod delivery;
mod doctor;
mod energy;
mod error;
mod exit;
mod journal;
mod live;
mod lock;
mod mib;
mod names;
mod owners;
mod paths;
mod playback;
mod privilege;
mod procfs;
mod program;
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
mod time_spec;
mod windows;

#[cfg(feature = "fuzz")]
#[doc(hidden)]
pub mod fuzz;
pub mod shared;

use std::process::ExitCode;

/// Runs the program with the arguments of this process.
pub fn main() -> ExitCode {
    let cli = cli::Cli::from_words(std::env::args_os().skip(1).collect());
    program::run("mpwatch", || command::run(&cli))
}
