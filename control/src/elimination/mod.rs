// SPDX-License-Identifier: MIT OR Apache-2.0
//! Decides which extra subflows to remove `[MPTCP-D]`, and whether a removal reduced the throughput. Changes nothing itself: the caller carries
//! out the actions and reports their outcomes. Rules: docs/control.md.

mod eliminator;
mod history;
mod paths;
mod select;
mod stability;

#[cfg(test)]
mod tests;

pub(crate) use eliminator::{Decision, Eliminator};
