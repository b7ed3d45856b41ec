// SPDX-License-Identifier: MIT OR Apache-2.0
//! `mpwatch control`: the actions, one file each.

mod congestion;

use crate::cli::ControlCommand;

pub(super) fn run(command: &ControlCommand) -> anyhow::Result<()> {
    match command {
        ControlCommand::Congestion(options) => congestion::run(options),
    }
}
