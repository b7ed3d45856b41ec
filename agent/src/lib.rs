// SPDX-License-Identifier: MIT OR Apache-2.0
//! The program `mpwatch`: parses the command line, runs the command, returns its exit code. The program `mpwatch-study`, which uses only
//! [`shared`], and the fuzz targets use this crate as a library.

mod cli;
mod client;
mod command;
mod config;
mod daemon;
mod doctor;
mod energy;
mod error;
mod live;
mod names;
mod quantity;
mod screen;
mod system;
mod time_spec;
mod why;

#[cfg(feature = "fuzz")]
#[doc(hidden)]
#[path = "../../tests/fuzz/src/program.rs"]
pub mod fuzz;
pub mod shared;

use std::process::ExitCode;

/// Runs the program with the arguments of this process.
pub fn main() -> ExitCode {
    let cli = cli::Cli::from_words(std::env::args_os().skip(1).collect());
    shared::run_program("mpwatch", || command::run(&cli))
}
