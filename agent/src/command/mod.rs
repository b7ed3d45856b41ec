// SPDX-License-Identifier: MIT OR Apache-2.0
//! The commands, one file each. This file runs the requested command.

mod calibrate;
mod compare;
#[cfg(feature = "control")]
mod control;
mod daemon;
mod database;
mod demo;
#[cfg(any(feature = "clickhouse", feature = "otlp", feature = "parquet"))]
mod export;
mod files;
mod filter;
mod live_view;
pub(crate) mod man;
pub(crate) mod output;
mod record;
mod replay;
mod report;
mod selftest;
pub(crate) mod sheet;
mod show;
mod top;
mod trace;
mod why;

use std::process::ExitCode;

use clap::CommandFactory;

#[cfg(feature = "control")]
use crate::cli::ControlCommand;
use crate::cli::{Cli, Command};
use crate::doctor;
use crate::system::companion;

pub(crate) fn run(cli: &Cli) -> anyhow::Result<ExitCode> {
    cli.method().map_or(Ok(()), companion::require)?;
    match &cli.command {
        None => top::run(&cli.top)?,
        Some(Command::Top(options)) => top::run(options)?,
        Some(Command::Ls(options)) => show::list(options)?,
        Some(Command::Show(options)) => show::connection(options)?,
        Some(Command::Why(options)) => why::run(options)?,
        Some(Command::Daemon(options)) => daemon::run(options)?,
        Some(Command::Config(command)) => daemon::config(command)?,
        Some(Command::Record(options)) => record::run(options)?,
        Some(Command::Replay(options)) => replay::run(options)?,
        Some(Command::Report(options)) => report::run(options)?,
        Some(Command::Compare(options)) => compare::run(options)?,
        #[cfg(any(feature = "clickhouse", feature = "otlp", feature = "parquet"))]
        Some(Command::Export(command)) => export::run(command)?,
        Some(Command::Doctor(options)) => return doctor::run(options),
        Some(Command::Calibrate(options)) => return calibrate::run(options),
        Some(Command::Demo(options)) => demo::run(options)?,
        Some(Command::Selftest { json }) => return selftest::run(*json),
        Some(Command::Study { arguments }) => {
            return Err(companion::replace_process(arguments.clone(), "`mpwatch study`").into());
        }
        #[cfg(feature = "control")]
        Some(Command::Control(ControlCommand::Congestion { quiet })) => control::congestion::run(*quiet)?,
        #[cfg(feature = "control")]
        Some(Command::Control(ControlCommand::Eliminate(options))) => control::eliminate::run(options)?,
        Some(Command::Completions { shell }) => {
            // Write to memory first: `generate` panics when it cannot write.
            let mut script = Vec::new();
            clap_complete::generate(*shell, &mut Cli::command(), "mpwatch", &mut script);
            output::print(&String::from_utf8_lossy(&script))?;
        }
        Some(Command::Man(options)) => man::run(options)?,
    }
    Ok(ExitCode::SUCCESS)
}
