// SPDX-License-Identifier: MIT OR Apache-2.0
//! Describes the traffic of a run, with plain values for both ends.

use serde::{Deserialize, Serialize};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// The default port of the lab's servers.
pub const PORT: u16 = 5201;

/// The transport protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Transport {
    /// Multipath TCP.
    #[default]
    Mptcp,
    /// Plain TCP.
    Tcp,
}

/// Which end sends a bulk transfer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Sender {
    /// The client, which also opens the connection.
    #[default]
    Client,
    /// The server.
    Server,
}

/// How much to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Amount {
    /// This many bytes.
    Bytes(u64),
    /// As much as possible in this time.
    For(Duration),
}

/// Workload of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Workload {
    /// One end sends as fast as possible. For short flows, send few bytes on many connections.
    Bulk {
        /// How much to send.
        amount: Amount,
        /// The end that sends.
        sender: Sender,
    },
    /// The client sends at a fixed rate: an application-limited flow.
    Paced {
        /// Bits per second of payload.
        rate: u64,
        /// How long to send.
        duration: Duration,
    },
    /// The client sends a request, the server responds, the client waits.
    Requests {
        /// Number of requests.
        count: u64,
        /// Size of a request.
        request_bytes: u32,
        /// Size of a response.
        response_bytes: u32,
        /// Pause after a response.
        think_time: Duration,
    },
    /// Connection churn: the client sends a little and keeps the connection open for a random time.
    Churn {
        /// Bytes to send at the start.
        bytes: u64,
        /// Minimum time until the client closes the connection.
        min_lifetime: Duration,
        /// Maximum time until the client closes the connection.
        max_lifetime: Duration,
    },
}

/// How the client ends a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Close {
    /// Orderly: `DATA_FIN`, then FINs.
    #[default]
    Fin,
    /// Immediately, with a reset (`MP_FASTCLOSE` on MPTCP).
    Abort,
}

/// A run of traffic. Both ends get the same specification, also as JSON between processes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrafficSpec {
    /// The transport protocol.
    pub transport: Transport,
    /// The transport protocol of the server's socket. `None`: the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_transport: Option<Transport>,
    /// The address that the client connects to. The server listens on this port of all its addresses.
    pub server: SocketAddr,
    /// The client's address. `None`: the routes decide.
    pub client: Option<IpAddr>,
    /// Whether to use IPv4 addresses through IPv6 sockets (`::ffff:a.b.c.d`).
    pub mapped: bool,
    /// Congestion control of both ends' sockets. `None`: the default of the namespace.
    pub congestion: Option<String>,
    /// Workload of each connection.
    pub workload: Workload,
    /// Total number of connections.
    pub connections: u32,
    /// Number of connections open at the same time. Each needs a thread at both ends.
    pub concurrency: u32,
    /// How the client ends each connection.
    pub close: Close,
    /// How long the client keeps each connection open and idle before it ends it.
    pub hold: Duration,
    /// Whether each connection's report contains the kernel's information about the socket. Disable it to save memory with
    /// very many connections.
    pub read_socket_info: bool,
    /// The CPUs on which the client and the server run. They then also report their CPU time. `None`: the kernel decides.
    pub cpus: Option<[usize; 2]>,
    /// Seed of random lifetimes and contents.
    pub seed: u64,
    /// Both ends give up after this time.
    pub timeout: Duration,
}

impl Workload {
    /// The client sends this many bytes.
    #[must_use]
    pub fn upload(bytes: u64) -> Self {
        Self::Bulk { amount: Amount::Bytes(bytes), sender: Sender::Client }
    }

    /// The client sends for this long.
    #[must_use]
    pub fn upload_for(duration: Duration) -> Self {
        Self::Bulk { amount: Amount::For(duration), sender: Sender::Client }
    }

    /// The server sends this many bytes.
    #[must_use]
    pub fn download(bytes: u64) -> Self {
        Self::Bulk { amount: Amount::Bytes(bytes), sender: Sender::Server }
    }
}

impl TrafficSpec {
    /// One MPTCP connection to a server address on port [`PORT`], with a timeout of 60 s.
    #[must_use]
    pub fn new(server: IpAddr, workload: Workload) -> Self {
        Self {
            transport: Transport::Mptcp,
            server_transport: None,
            server: SocketAddr::new(server, PORT),
            client: None,
            mapped: false,
            congestion: None,
            workload,
            connections: 1,
            concurrency: 1,
            close: Close::Fin,
            hold: Duration::ZERO,
            read_socket_info: true,
            cpus: None,
            seed: 1,
            timeout: Duration::from_mins(1),
        }
    }

    /// Number of threads of each end.
    pub(super) fn workers(&self) -> u32 {
        self.concurrency.clamp(1, self.connections.max(1))
    }
}
