// SPDX-License-Identifier: MIT OR Apache-2.0
//! A subflow as outputs show it: one TCP connection of an MPTCP connection, or a plain TCP connection itself.

use std::net::SocketAddr;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::cpu::CpuTimes;
use crate::endpoint::Name;
use crate::energy::FlowEnergy;
use crate::id::SubflowId;
use crate::lifecycle::{CloseReason, TcpState};
use crate::unit::{BitsPerSecond, Bytes, Micros};

/// One subflow. `null` always means "not known", never zero.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Subflow {
    /// `cookie.generation`; stable for the life of the subflow.
    pub id: SubflowId,
    /// Local address and port.
    #[schemars(with = "String")]
    pub local: SocketAddr,
    /// Remote address and port.
    #[schemars(with = "String")]
    pub remote: SocketAddr,
    /// MPTCP id of the local address (RFC 8684 section 3.2: 0 is the first subflow's).
    pub local_id: u8,
    /// MPTCP id of the remote address.
    pub remote_id: u8,
    /// Interface by which it sends, in its namespace. `null`: no route in the socket's cache.
    pub interface: Option<Name>,
    /// It opened the connection (MP_CAPABLE), or is a plain TCP connection.
    pub initial: bool,
    /// One of the two ends asked that it be used only when no other path works.
    pub backup: bool,
    /// The kernel waits in vain for acknowledgements here and reinjects on other subflows.
    pub stale: bool,
    /// TCP state.
    pub state: TcpState,
    /// When its SYN was sent or answered. `null`: before the agent came.
    #[schemars(with = "Option<String>", extend("format" = "date-time"))]
    pub created_at: Option<Timestamp>,
    /// Handshake time: SYN to SYN-ACK for the connecting end, SYN-ACK to ACK for the accepting one.
    #[serde(rename = "handshake_us")]
    pub handshake: Option<Micros>,
    /// From the opening of the connection to this subflow's ESTABLISHED. `null` for the initial subflow.
    #[serde(rename = "joined_after_us")]
    pub joined_after: Option<Micros>,
    /// Payload that the connection had carried by then, both directions. `null` for the initial subflow.
    pub joined_after_bytes: Option<Bytes>,
    /// Payload sent, retransmissions included (`tcpi_bytes_sent`).
    pub bytes_sent: Bytes,
    /// Payload acknowledged (`tcpi_bytes_acked`: an active open's SYN and a FIN count a byte each).
    pub bytes_acked: Bytes,
    /// Payload received (`tcpi_bytes_received`: a FIN counts a byte).
    pub bytes_received: Bytes,
    /// Payload sent again by TCP (`tcpi_bytes_retrans`).
    pub bytes_retransmitted: Bytes,
    /// Segments sent again, SYN and SYN-ACK included (`tcpi_total_retrans`).
    pub segments_retransmitted: u32,
    /// Those by cause. `null`: the retransmission hook is missing, or the subflow is older than the agent.
    pub retransmits: Option<Retransmits>,
    /// RTT of the segment acknowledged last.
    #[serde(rename = "rtt_us")]
    pub rtt: Option<Micros>,
    /// Smoothed RTT (RFC 6298).
    #[serde(rename = "srtt_us")]
    pub srtt: Option<Micros>,
    /// Mean deviation of the RTT (`tcpi_rttvar`).
    #[serde(rename = "rttvar_us")]
    pub rttvar: Option<Micros>,
    /// Lowest RTT of the kernel's window (5 minutes by default).
    #[serde(rename = "rtt_min_us")]
    pub rtt_min: Option<Micros>,
    /// Median of all RTT samples since the agent saw the subflow; within 6 %.
    #[serde(rename = "rtt_p50_us")]
    pub rtt_p50: Option<Micros>,
    /// 99th percentile of those.
    #[serde(rename = "rtt_p99_us")]
    pub rtt_p99: Option<Micros>,
    /// RTT samples behind the two percentiles.
    pub rtt_samples: u64,
    /// Congestion window.
    pub cwnd_segments: u32,
    /// Delivery rate of the kernel's last rate sample (`tcpi_delivery_rate`, here in bits per second).
    #[serde(rename = "delivery_bps")]
    pub delivery: Option<BitsPerSecond>,
    /// Segments marked lost so far.
    pub lost_segments: u32,
    /// Retransmission timeouts so far. `null`: a kernel before 6.7.
    pub timeouts: Option<u32>,
    /// Payload sent in the interval, retransmissions included.
    #[serde(rename = "send_bps")]
    pub send: BitsPerSecond,
    /// Payload received in the interval.
    #[serde(rename = "receive_bps")]
    pub receive: BitsPerSecond,
    /// Its part of all payload that the connection's subflows have sent, retransmissions left out. `null`: nothing sent yet.
    pub share_sent: Option<f64>,
    /// Estimate of the bytes sent on the wire, headers included.
    pub wire_bytes_sent_estimate: Bytes,
    /// Estimate of the bytes received on the wire.
    pub wire_bytes_received_estimate: Bytes,
    /// What the MPTCP scheduler did. `null`: plain TCP, or the hook is missing.
    pub scheduler: Option<Scheduler>,
    /// CPU time spent on it on this machine since tracing began. `null`: not accounted for (`--no-ledger`, or see `host.missing`).
    #[serde(rename = "cpu_ns")]
    pub cpu: Option<CpuTimes>,
    /// Energy that it has cost on this machine since tracing began. `null`: CPU time is not accounted for, or nothing of it was charged yet.
    pub energy: Option<FlowEnergy>,
    /// How and when it ended. `null` while it is open.
    pub closed: Option<Closed>,
}

impl Subflow {
    /// Payload sent, each byte once.
    pub fn unique_sent(&self) -> Bytes {
        self.bytes_sent.since(self.bytes_retransmitted)
    }

    /// Whether the peer has answered: the handshake completed, or payload was acknowledged or received.
    pub fn was_answered(&self) -> bool {
        self.handshake.is_some() || self.bytes_acked.0 + self.bytes_received.0 > 0
    }
}

/// Segments sent again, by what made TCP do it. SYN-ACKs, and segments the kernel did not tell of, are in none of the three.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Retransmits {
    /// In recovery, on acknowledgements (fast retransmit, RACK).
    pub fast: u32,
    /// After a retransmission timeout.
    pub timeout: u32,
    /// As a tail loss probe.
    pub probe: u32,
}

/// Accounting of the default MPTCP scheduler (`mptcp_subflow_get_send`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Scheduler {
    /// Rounds in which it looked at this subflow.
    pub considered: u64,
    /// Rounds after which this subflow had been given data.
    pub picked: u64,
}

/// The end of a subflow.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Closed {
    /// When it reached CLOSE.
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub at: Timestamp,
    /// Why, as far as the kernel tells.
    pub reason: CloseReason,
}
