// SPDX-License-Identifier: MIT OR Apache-2.0
//! Decides which extra subflows are removed `[MPTCP-D]`, and whether a removal reduced the throughput. Pure functions of snapshots and of the outcomes
//! of actions, which the caller carries out and reports. Rules: docs/control.md.

mod eliminator;
mod history;
mod select;
mod stability;

#[cfg(test)]
mod tests;

pub(crate) use eliminator::{Decision, Eliminator};
