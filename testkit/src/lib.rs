// SPDX-License-Identifier: MIT OR Apache-2.0
//! Support for tests and benches. They run `mpwatch` as a user does (as a command, as a recorder during traffic, in a terminal), wait for
//! conditions with a deadline ([`poll_until`]), and are skipped if they cannot run on this machine ([`skip`]). No shipped crate uses this.
//! Panics with a reason if a test cannot continue.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::missing_panics_doc, reason = "test support")]

pub mod emulation;
pub mod tmux;

mod command;
mod json;
mod observer;
mod skip;

pub use command::{CommandOutput, finish, lines, mpwatch, output, program, wait};
pub use json::{list, number, text};
pub use mpwatch_lab::poll_until;
pub use observer::{Observer, Report, established, wait_for_recorded_ends};
pub use skip::{may_run_as_root, skip};
