// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs `mpwatch` as a user does: as a command, as a recording beside traffic, and in a terminal. Benches and tests share it. Every wait
//! has a deadline.

pub mod pace;
pub mod tmux;

mod observer;
mod program;

pub use observer::{Observer, Report};
pub use program::{Outcome, mpwatch, program};
