// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs `mpwatch` as a user does: as a command, as a recording beside traffic, and in a terminal. Benches and tests share it. Every wait
//! has a deadline.

pub mod emulation;
pub mod tmux;

mod command;
mod json;
mod observer;

pub use command::{CommandOutput, mpwatch, program};
pub use json::{list, number, text};
pub use observer::{Observer, Report};
