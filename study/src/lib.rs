// SPDX-License-Identifier: MIT OR Apache-2.0
//! Studies: experiments of published papers, run in the lab. `experiments` declares them, `plan` orders their runs, `run` executes a run
//! (with `network`, `traffic`, `application`), `measure` computes values, `table` and `page` show results. [`published`] has the detection
//! methods of other authors, for comparison.

mod application;
mod cli;
mod closed_subflows;
mod command;
mod custom;
mod data;
mod database;
mod details;
mod experiment;
mod experiments;
pub mod fabric;
mod judge;
mod machine;
mod manual;
mod measure;
mod methods;
mod network;
mod outcome;
mod page;
mod plan;
mod programs;
pub mod published;
mod run;
mod table;
mod traffic;

use std::process::ExitCode;

use clap::Parser as _;
use mpwatch::shared::{mpwatch_with_methods, run_program};

/// Runs the program with the arguments of this process.
pub fn main() -> ExitCode {
    match cli::Cli::parse().command {
        cli::Command::Mpwatch { arguments } => mpwatch_with_methods(published::new, arguments),
        command => run_program("mpwatch-study", || command::run(&command).map(|()| ExitCode::SUCCESS)),
    }
}
