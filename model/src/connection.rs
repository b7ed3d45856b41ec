// SPDX-License-Identifier: MIT OR Apache-2.0
//! A connection as outputs show it: an MPTCP connection with its subflows, or a plain TCP connection.

use std::net::SocketAddr;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::bottleneck::Bottlenecks;
use crate::cpu::CpuTimes;
use crate::energy::FlowEnergy;
use crate::event::Process;
use crate::flow_class::FlowClass;
use crate::id::{ConnectionId, SubflowId, Token};
use crate::lifecycle::{FallbackReason, Protocol, Role, TcpState};
use crate::subflow::Subflow;
use crate::timeline::{Offset, TimelineEntry};
use crate::unit::{BitsPerSecond, Bytes, Micros};

/// One connection. `null` always means "not known", never zero.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Connection {
    /// `netns-token-birth` in hexadecimal; stable for the life of the connection and across restarts of the agent on one boot.
    pub id: ConnectionId,
    /// Local token. `null`: plain TCP, or a fallback before the handshake.
    pub token: Option<Token>,
    /// Token of the peer: the two ends of a connection have these two swapped.
    pub remote_token: Option<Token>,
    /// Name of the network namespace; `net:[inode]` where it has none.
    pub netns: String,
    /// Its inode, as `readlink /proc/PID/ns/net` shows it.
    pub netns_inode: u32,
    /// Which end this host is. `null`: a plain TCP connection older than the agent.
    pub role: Option<Role>,
    /// Local address of the initial subflow, or of the first one seen.
    #[schemars(with = "Option<String>")]
    pub local: Option<SocketAddr>,
    /// Its remote address.
    #[schemars(with = "Option<String>")]
    pub remote: Option<SocketAddr>,
    /// Who connected it, or first used it after accepting it.
    pub process: Option<Process>,
    /// Control group, as a path below the cgroup2 mount.
    pub cgroup: Option<String>,
    /// When the agent saw it open. `null`: before that.
    #[schemars(with = "Option<String>", extend("format" = "date-time"))]
    pub opened_at: Option<Timestamp>,
    /// Whether the agent saw it open. If not, counters are still totals (the kernel keeps them), times are not known.
    pub seen_open: bool,
    /// Seconds since it was opened, or since it was first seen; until it closed.
    pub age_s: f64,
    /// State of the MPTCP (or TCP) socket.
    pub state: TcpState,
    /// When it closed. `null` while it is open.
    #[schemars(with = "Option<String>", extend("format" = "date-time"))]
    pub closed_at: Option<Timestamp>,
    /// What it speaks.
    pub protocol: Protocol,
    /// Set when the connection goes on as plain TCP.
    pub fallback: Option<Fallback>,
    /// Payload sent, each byte once (`mptcpi_bytes_sent`).
    pub bytes_sent: Option<Bytes>,
    /// Payload acknowledged by the peer's MPTCP (`mptcpi_bytes_acked`: the DATA_FIN counts a byte).
    pub bytes_acked: Option<Bytes>,
    /// Payload received in order (`mptcpi_bytes_received`).
    pub bytes_received: Option<Bytes>,
    /// Payload that TCP sent again, over all subflows.
    pub bytes_retransmitted: Bytes,
    /// Payload that MPTCP sent again on another subflow: what the subflows sent beyond the connection's own bytes. `null` for
    /// plain TCP, and where a subflow may have ended before the agent came.
    pub bytes_reinjected: Option<Bytes>,
    /// The kernel's own count of the reinjections by its timer (`mptcpi_bytes_retrans`); those at a subflow's end are not in it.
    /// `null` for plain TCP, and on kernels before 6.5.
    pub mptcp_bytes_retransmitted: Option<Bytes>,
    /// Payload sent in the interval.
    #[serde(rename = "send_bps")]
    pub send: BitsPerSecond,
    /// Payload received in the interval.
    #[serde(rename = "receive_bps")]
    pub receive: BitsPerSecond,
    /// Size class by the payload carried so far `[UPD18]`.
    pub flow_class: FlowClass,
    /// CPU time spent on it on this machine since tracing began: the sum of its subflows'. `null`: not accounted for.
    #[serde(rename = "cpu_ns")]
    pub cpu: Option<CpuTimes>,
    /// Energy that it has cost on this machine since tracing began, the sum of its subflows'. `null`: CPU time is not accounted for, or nothing of it was charged yet.
    pub energy: Option<FlowEnergy>,
    /// `1 - goodput / throughput` `[UPD18]`: the part of the estimated wire bytes that was not payload delivered once.
    pub excess_ratio: Option<f64>,
    /// Jain's fairness index of the subflows' mean rates `[RN10]`. `null` with fewer than two.
    pub jain_index: Option<f64>,
    /// When the second path came and began to help `[ICPE19]`. `null`: no subflow joined, or it was not seen.
    pub second_path: Option<SecondPath>,
    /// Which subflows share a bottleneck, by this host's samples of what it sends. `null`: fewer than two subflows, or nobody looks
    /// (`--no-bottlenecks`, or see `host.missing`).
    pub bottlenecks: Option<Bottlenecks>,
    /// Subflows beyond one a bottleneck `[MPTCP-D]`: they add no throughput and cost energy. `null`: not known.
    pub extra_subflows: Option<u32>,
    /// Subflows, in the order in which they came; closed ones included.
    pub subflows: Vec<Subflow>,
    /// What happened, in order.
    pub timeline: Vec<TimelineEntry>,
}

impl Connection {
    /// Whether it is still open.
    pub fn is_open(&self) -> bool {
        self.closed_at.is_none()
    }

    /// The number by which people call a subflow: 1 is the first that came. `None`: not of this connection.
    pub fn subflow_number(&self, subflow: SubflowId) -> Option<usize> {
        self.subflows.iter().position(|candidate| candidate.id == subflow).map(|index| index + 1)
    }

    /// How people call a subflow: its number, or its id where the connection does not list it.
    pub fn subflow_name(&self, subflow: SubflowId) -> String {
        self.subflow_number(subflow).map_or_else(|| subflow.to_string(), |number| number.to_string())
    }

    /// A time counted from the opening, or from the first known event where the opening was not seen.
    pub fn offset(&self, at: Timestamp) -> Offset {
        let first = self.opened_at.or_else(|| self.timeline.first().map(|entry| entry.at));
        Offset::between(first.unwrap_or(at), at)
    }

    /// Payload of both directions, as far as it is known.
    pub fn payload(&self) -> Bytes {
        self.bytes_sent.unwrap_or_default() + self.bytes_received.unwrap_or_default()
    }
}

/// A fallback to plain TCP (RFC 8684 section 3.7).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Fallback {
    /// Why, as far as the kernel tells; never guessed.
    pub reason: FallbackReason,
}

/// The start of the second path `[ICPE19]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SecondPath {
    /// From the opening of the connection to ESTABLISHED of the first joined subflow.
    #[serde(rename = "after_us")]
    pub after: Micros,
    /// Payload that the connection had carried by then. `null`: not seen.
    pub after_bytes: Option<Bytes>,
    /// Payload that the connection had carried when joined subflows had a tenth of it. `null`: not yet.
    pub effective_after_bytes: Option<Bytes>,
}
