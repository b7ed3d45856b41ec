// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs `mpwatch` as a user does: once, as a recording beside traffic, or in a terminal. Benches and tests share it. Nothing here waits
//! without a deadline.

pub mod pace;
pub mod tmux;

mod observer;
mod program;

pub use observer::{Observer, Report};
pub use program::{Outcome, mpwatch, program};
