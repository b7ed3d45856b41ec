// SPDX-License-Identifier: MIT OR Apache-2.0
//! What one end saw of a run, connection by connection. Plain values, serialisable between processes.

use crate::oracle::Flow;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use std::time::Duration;

/// One connection as one end saw it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ConnectionReport {
    /// This end's first address and port; matches the other end's `remote`.
    pub local: SocketAddr,
    /// The other end's.
    pub remote: SocketAddr,
    /// Bytes that this end wrote.
    pub sent: u64,
    /// Bytes that this end read.
    pub received: u64,
    /// XXH3 of what it wrote; equals the other end's `received_hash`.
    pub sent_hash: u64,
    /// XXH3 of what it read.
    pub received_hash: u64,
    /// Requests answered.
    pub exchanges: u64,
    /// How long connecting took; zero on the server.
    pub connecting: Duration,
    /// From connected to closed.
    pub open: Duration,
    /// From connected until all was sent and acknowledged, or received.
    pub working: Duration,
    /// Whether the peer reset it.
    pub reset: bool,
    /// The kernel's account right before close, all data acknowledged; `None` when not asked for or refused.
    pub flow: Option<Flow>,
    /// What went wrong, or `None`. A reset by the peer counts only on the client.
    pub error: Option<String>,
}

/// One end's view of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Its connections, in order of their end.
    pub connections: Vec<ConnectionReport>,
    /// Connections that could not be opened, and why (the first 16).
    pub failures: Vec<String>,
    /// How long the whole run took.
    pub elapsed: Duration,
    /// CPU time that it used; `None` unless it was asked to keep to one CPU.
    pub cpu: Option<Duration>,
}

impl Report {
    /// Bytes written on all connections.
    #[must_use]
    pub fn sent(&self) -> u64 {
        self.connections.iter().map(|one| one.sent).sum()
    }

    /// Bytes read on all connections.
    #[must_use]
    pub fn received(&self) -> u64 {
        self.connections.iter().map(|one| one.received).sum()
    }

    /// Requests answered on all connections.
    #[must_use]
    pub fn exchanges(&self) -> u64 {
        self.connections.iter().map(|one| one.exchanges).sum()
    }

    /// The first thing that went wrong, or `None`.
    #[must_use]
    pub fn first_error(&self) -> Option<&str> {
        let of_connection = self.connections.iter().find_map(|one| one.error.as_deref());
        of_connection.or(self.failures.first().map(String::as_str))
    }

    /// Adds another worker's part.
    pub(super) fn absorb(&mut self, part: Self) {
        self.connections.extend(part.connections);
        self.failures.extend(part.failures);
    }
}
