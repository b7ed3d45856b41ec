// SPDX-License-Identifier: MIT OR Apache-2.0
//! The protocol of the daemon's Unix socket: a greeting, then one snapshot per line, all JSON. Clients send nothing.

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
