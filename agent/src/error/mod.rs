// SPDX-License-Identifier: MIT OR Apache-2.0
//! Errors of commands: their exit codes and messages.

pub(crate) mod exit;
pub(crate) mod failure;

pub use failure::*;
