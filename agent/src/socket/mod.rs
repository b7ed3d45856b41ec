// SPDX-License-Identifier: MIT OR Apache-2.0
//! The daemon's Unix socket: its protocol, and the client of the commands that show snapshots. The daemon sends a greeting, then one snapshot
//! per line, all JSON; clients send nothing.

pub(crate) mod client;

use serde::{Deserialize, Serialize};

/// Version of the protocol. A client accepts no other.
pub(crate) const VERSION: u32 = 1;

/// The first line.
#[derive(Serialize, Deserialize)]
pub(crate) struct Greeting {
    /// Version of the protocol.
    pub(crate) proto: u32,
    /// Version of mpwatch.
    pub(crate) version: String,
}

impl Default for Greeting {
    fn default() -> Self {
        Self { proto: VERSION, version: env!("CARGO_PKG_VERSION").to_owned() }
    }
}
