// SPDX-License-Identifier: MIT OR Apache-2.0
//! Describes the traffic of a run. Both ends use the same description.

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

/// The end that sends a bulk transfer.
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
    /// This number of bytes.
    Bytes(u64),
    /// As many bytes as possible in this time.
    For(Duration),
}

/// The workload of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Workload {
    /// One end sends as fast as possible. A short flow is a bulk transfer of few bytes.
    Bulk {
        /// How much to send.
        amount: Amount,
        /// The end that sends.
        sender: Sender,
    },
    /// The client sends at a fixed rate, as an application-limited flow.
    Paced {
        /// Bits per second of payload.
        rate: u64,
        /// How long to send.
        duration: Duration,
    },
    /// The client repeats: it sends a request, receives the response and waits.
    Requests {
        /// Number of requests.
        count: u64,
        /// Payload size of a request in bytes.
        request_bytes: u32,
        /// Payload size of a response in bytes.
        response_bytes: u32,
        /// Pause after a response.
        think_time: Duration,
    },
    /// Connection churn: the client sends some bytes and keeps the connection open for a random time.
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
    /// An orderly close with `DATA_FIN` and FINs.
    #[default]
    Fin,
    /// An immediate close with a reset (`MP_FASTCLOSE` on MPTCP).
    Abort,
}

/// The specification of a run of traffic. Both ends get the same specification; between processes it is sent as JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrafficSpec {
    /// The transport protocol.
    pub transport: Transport,
    /// The transport protocol of the server's socket. `None`: the same as `transport`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_transport: Option<Transport>,
    /// The address to which the client connects. The server listens on this port of all its addresses.
    pub server: SocketAddr,
    /// The client's source address. `None`: the kernel chooses it by its routes.
    pub client: Option<IpAddr>,
    /// Whether to use IPv4 addresses through IPv6 sockets (`::ffff:a.b.c.d`).
    pub mapped: bool,
    /// Congestion control of the sockets at both ends. `None`: the default of the namespace.
    pub congestion: Option<String>,
    /// Workload of each connection.
    pub workload: Workload,
    /// Total number of connections.
    pub connections: u32,
    /// Number of connections that are open at the same time. Each needs a thread at both ends.
    pub concurrency: u32,
    /// How the client ends each connection.
    pub close: Close,
    /// Time for which the client keeps each connection open and idle before it closes it.
    pub hold: Duration,
    /// Whether each connection's report contains the kernel's information about the socket. `false` saves memory with
    /// very many connections.
    pub read_socket_info: bool,
    /// The CPUs on which client and server run; both then report their CPU time. `None`: any CPU, and no report of CPU time.
    pub cpus: Option<[usize; 2]>,
    /// Seed of random lifetimes and payload.
    pub seed: u64,
    /// Time after which both ends stop.
    pub timeout: Duration,
}

impl Workload {
    /// A bulk transfer of `bytes` from the client.
    #[must_use]
    pub fn upload(bytes: u64) -> Self {
        Self::Bulk { amount: Amount::Bytes(bytes), sender: Sender::Client }
    }

    /// A bulk transfer from the client that lasts for `duration`.
    #[must_use]
    pub fn upload_for(duration: Duration) -> Self {
        Self::Bulk { amount: Amount::For(duration), sender: Sender::Client }
    }

    /// A bulk transfer of `bytes` from the server.
    #[must_use]
    pub fn download(bytes: u64) -> Self {
        Self::Bulk { amount: Amount::Bytes(bytes), sender: Sender::Server }
    }
}

impl TrafficSpec {
    /// One MPTCP connection to port [`PORT`] of a server, with a timeout of 60 s.
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

    /// Number of worker threads at each end.
    pub(super) fn workers(&self) -> u32 {
        self.concurrency.clamp(1, self.connections.max(1))
    }
}
