// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernel's information about a socket. Comments name the Linux version since which newer fields exist.

use serde::{Deserialize, Serialize};
use std::net::SocketAddr;

/// A connection and its subflows, read atomically if the kernel has `MPTCP_FULL_INFO`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SocketInfo {
    /// Counters of the MPTCP connection. `None`: plain TCP.
    pub mptcp: Option<MptcpInfo>,
    /// The open subflows. For plain TCP, the socket itself.
    pub subflows: Vec<SubflowInfo>,
}

/// Fields of `struct mptcp_info`. `None`: the running kernel does not report the field.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MptcpInfo {
    /// Number of subflows besides the initial subflow.
    pub extra_subflows: u8,
    /// `MPTCP_INFO_FLAG_*`: bit 0 fallback, bit 1 remote key received.
    pub flags: u32,
    /// The local token.
    pub token: u32,
    /// Next data sequence number to send.
    pub write_seq: u64,
    /// First unacknowledged data sequence number.
    pub snd_una: u64,
    /// Next data sequence number expected.
    pub rcv_nxt: u64,
    /// Number of MPTCP retransmissions (data sent on another subflow after a timeout).
    pub retransmits: u32,
    /// Bytes reinjected (Linux 6.5).
    pub bytes_retrans: Option<u64>,
    /// Bytes sent, without reinjections (Linux 6.5).
    pub bytes_sent: Option<u64>,
    /// Bytes received in order (Linux 6.5).
    pub bytes_received: Option<u64>,
    /// Bytes acknowledged by the peer (Linux 6.5).
    pub bytes_acked: Option<u64>,
    /// Number of subflows including the first (Linux 6.10).
    pub subflows_total: Option<u8>,
}

impl MptcpInfo {
    /// Whether the connection fell back to plain TCP.
    #[must_use]
    pub fn fallback(&self) -> bool {
        self.flags & 1 != 0
    }
}

/// One subflow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubflowInfo {
    /// The kernel's id of the subflow within the connection. `None`: the kernel is older than Linux 6.5.
    pub id: Option<u32>,
    /// Local address and port.
    pub local: SocketAddr,
    /// Remote address and port.
    pub remote: SocketAddr,
    /// TCP counters.
    pub tcp: TcpInfo,
}

/// Fields of `struct tcp_info`. Times are in microseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TcpInfo {
    /// TCP state number (1 is established).
    pub state: u8,
    /// Congestion state number.
    pub ca_state: u8,
    /// Maximum segment size for sending, bytes.
    pub snd_mss: u32,
    /// Segments in flight.
    pub unacked: u32,
    /// Bytes in the send queue that were not sent yet.
    pub notsent_bytes: u32,
    /// Segments currently marked lost.
    pub lost: u32,
    /// Smoothed round-trip time.
    pub srtt_us: u32,
    /// Variation of the round-trip time.
    pub rttvar_us: u32,
    /// Minimum round-trip time.
    pub min_rtt_us: u32,
    /// Congestion window in segments.
    pub snd_cwnd: u32,
    /// Segments retransmitted, including SYNs.
    pub total_retrans: u32,
    /// Bytes acknowledged. The active side's SYN and the FIN count as one byte each.
    pub bytes_acked: u64,
    /// Bytes received. The FIN counts as one byte.
    pub bytes_received: u64,
    /// Bytes sent, including retransmissions.
    pub bytes_sent: u64,
    /// Bytes retransmitted.
    pub bytes_retrans: u64,
    /// Segments sent.
    pub segs_out: u32,
    /// Segments received.
    pub segs_in: u32,
    /// Delivery rate, bytes per second.
    pub delivery_rate: u64,
    /// Segments delivered.
    pub delivered: u32,
    /// Time with data queued or in flight.
    #[serde(default)]
    pub busy_us: u64,
    /// The part of `busy_us` in which the peer's receive window limited the sender.
    #[serde(default)]
    pub rwnd_limited_us: u64,
    /// The part of `busy_us` in which the send buffer limited the sender.
    #[serde(default)]
    pub sndbuf_limited_us: u64,
}
