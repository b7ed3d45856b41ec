// SPDX-License-Identifier: MIT OR Apache-2.0
//! The daemon's Unix socket: its protocol and the client of the commands that show snapshots.

pub(crate) mod client;
pub(crate) mod protocol;
