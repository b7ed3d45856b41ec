// SPDX-License-Identifier: MIT OR Apache-2.0
//! `mpwatch control`: the commands that change connections. This file only picks one.

mod congestion;
mod eliminate;

use crate::cli::ControlCommand;

pub(super) fn run(command: &ControlCommand) -> anyhow::Result<()> {
    match command {
        ControlCommand::Congestion(options) => congestion::run(options),
        ControlCommand::Eliminate(options) => eliminate::run(options),
    }
}
