// SPDX-License-Identifier: MIT OR Apache-2.0
//! Report of one end of a run, with values per connection. It can be sent between processes.

use crate::oracle::SocketInfo;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use std::time::Duration;

/// One connection, as observed by one end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ConnectionReport {
    /// This end's address and port on the first path; equal to the other end's `remote`.
    pub local: SocketAddr,
    /// The other end's address and port on the first path.
    pub remote: SocketAddr,
    /// Bytes written.
    pub sent: u64,
    /// Bytes read.
    pub received: u64,
    /// XXH3 of the bytes written; equal to the other end's `received_hash`.
    pub sent_hash: u64,
    /// XXH3 of the bytes read.
    pub received_hash: u64,
    /// Number of requests with a response.
    pub exchanges: u64,
    /// Duration of connect(2); zero on the server.
    pub connect_time: Duration,
    /// Time from connected to closed.
    pub open_time: Duration,
    /// Time from connected until all data was received, or sent and acknowledged.
    pub transfer_time: Duration,
    /// Time from connected until the last byte was read; zero if nothing was read.
    pub receive_time: Duration,
    /// Whether the peer reset the connection.
    pub reset: bool,
    /// The kernel's information just before the close, with all data acknowledged unless a path has failed. `None`: not requested, or not available.
    pub socket_info: Option<SocketInfo>,
    /// The error that ended the connection. `None`: no error. A reset by the peer is an error only on the client.
    pub error: Option<String>,
}

/// The report of one end of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TrafficReport {
    /// The connections, per worker in the order in which they ended.
    pub connections: Vec<ConnectionReport>,
    /// Errors of connections without a report, because they could not be opened or prepared. At the client, the first 16 of each worker.
    pub failures: Vec<String>,
    /// Duration of the run.
    pub elapsed: Duration,
    /// CPU time of the threads of this end. `None`: the specification does not pin this end to a CPU.
    pub cpu_time: Option<Duration>,
}

impl TrafficReport {
    /// Bytes written on all connections.
    #[must_use]
    pub fn sent(&self) -> u64 {
        self.connections.iter().map(|connection| connection.sent).sum()
    }

    /// Bytes read on all connections.
    #[must_use]
    pub fn received(&self) -> u64 {
        self.connections.iter().map(|connection| connection.received).sum()
    }

    /// Number of requests with a response on all connections.
    #[must_use]
    pub fn exchanges(&self) -> u64 {
        self.connections.iter().map(|connection| connection.exchanges).sum()
    }

    /// The first error. `None`: no error.
    #[must_use]
    pub fn first_error(&self) -> Option<&str> {
        let of_connection = self.connections.iter().find_map(|connection| connection.error.as_deref());
        of_connection.or(self.failures.first().map(String::as_str))
    }

    /// Adds the report of another worker.
    pub(super) fn merge(&mut self, part: Self) {
        self.connections.extend(part.connections);
        self.failures.extend(part.failures);
        if let Some(time) = part.cpu_time {
            *self.cpu_time.get_or_insert_default() += time;
        }
    }
}
