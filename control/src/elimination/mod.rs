// SPDX-License-Identifier: MIT OR Apache-2.0
//! Decides which extra subflows are removed `[MPTCP-D]`, and whether a removal did harm. Pure functions of snapshots and of what the caller
//! reports about its actions; the caller carries them out. Rules: docs/control.md.

mod eliminator;
mod history;
mod select;
mod stability;
mod state;

#[cfg(test)]
mod tests;

pub use eliminator::{Decision, Eliminator, Outcome};
pub use state::{ConnectionState, SubflowState};
