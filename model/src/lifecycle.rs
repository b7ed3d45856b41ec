// SPDX-License-Identifier: MIT OR Apache-2.0
//! The states of a flow, and why it ended or fell back.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// State of a TCP or MPTCP socket (`include/net/tcp_states.h`); for MPTCP the states of RFC 8684 section 3.3.3.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "the names of RFC 9293 section 3.3.2")]
pub enum TcpState {
    Established,
    SynSent,
    SynRecv,
    FinWait1,
    FinWait2,
    TimeWait,
    #[default]
    Close,
    CloseWait,
    LastAck,
    Listen,
    Closing,
    /// A number that this version does not know.
    Unknown,
}

impl TcpState {
    /// From the kernel's number.
    pub fn from_kernel(state: u8) -> Self {
        match state {
            1 => Self::Established,
            2 => Self::SynSent,
            3 => Self::SynRecv,
            4 => Self::FinWait1,
            5 => Self::FinWait2,
            6 => Self::TimeWait,
            7 => Self::Close,
            8 => Self::CloseWait,
            9 => Self::LastAck,
            10 => Self::Listen,
            11 => Self::Closing,
            _ => Self::Unknown,
        }
    }

    /// Its name in outputs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Established => "established",
            Self::SynSent => "syn_sent",
            Self::SynRecv => "syn_recv",
            Self::FinWait1 => "fin_wait1",
            Self::FinWait2 => "fin_wait2",
            Self::TimeWait => "time_wait",
            Self::Close => "close",
            Self::CloseWait => "close_wait",
            Self::LastAck => "last_ack",
            Self::Listen => "listen",
            Self::Closing => "closing",
            Self::Unknown => "unknown",
        }
    }
}

/// Which end opened the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// This host connected.
    Client,
    /// This host accepted.
    Server,
}

impl Role {
    /// Its name in outputs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Server => "server",
        }
    }
}

/// The protocol. An MPTCP connection that fell back stays `mptcp`; its `fallback` is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Protocol {
    /// Multipath TCP, version 1.
    Mptcp,
    /// Plain TCP, traced with `--tcp` as the baseline.
    Tcp,
}

impl Protocol {
    /// Its name in outputs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Mptcp => "mptcp",
            Self::Tcp => "tcp",
        }
    }
}

/// Why a subflow ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CloseReason {
    /// Both ends closed it with a FIN, as part of closing the connection.
    Fin,
    /// This host sent a reset.
    ResetSent,
    /// The peer, or something on the path, sent a reset.
    ResetReceived,
    /// Retransmissions went unanswered until the kernel gave up.
    Timeout,
    /// An ICMP error: the peer cannot be reached.
    Unreachable,
    /// This host's path manager removed it: an endpoint was deleted, or a user-space manager asked for it.
    RemovedByAdmin,
    /// The peer withdrew the address (REMOVE_ADDR, RFC 8684 section 3.4.2).
    RemovedByPeer,
    /// The peer closed only this subflow, without withdrawing its address.
    ClosedByPeer,
    /// The kernel does not report it.
    Unknown,
}

impl CloseReason {
    /// A short description.
    pub fn description(self) -> &'static str {
        match self {
            Self::Fin => "closed normally (FIN)",
            Self::ResetSent => "reset by this host (RST sent)",
            Self::ResetReceived => "reset by the peer or the path (RST received)",
            Self::Timeout => "timed out",
            Self::Unreachable => "peer unreachable",
            Self::RemovedByAdmin => "removed by this host's path manager (endpoint deleted)",
            Self::RemovedByPeer => "address withdrawn by the peer (REMOVE_ADDR)",
            Self::ClosedByPeer => "closed by the peer, address not withdrawn",
            Self::Unknown => "unknown",
        }
    }

    /// All values.
    pub const ALL: [Self; 9] = [
        Self::Fin,
        Self::ResetSent,
        Self::ResetReceived,
        Self::Timeout,
        Self::Unreachable,
        Self::RemovedByAdmin,
        Self::RemovedByPeer,
        Self::ClosedByPeer,
        Self::Unknown,
    ];

    /// Its name in JSON, in the store and as a label.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Fin => "fin",
            Self::ResetSent => "reset_sent",
            Self::ResetReceived => "reset_received",
            Self::Timeout => "timeout",
            Self::Unreachable => "unreachable",
            Self::RemovedByAdmin => "removed_by_admin",
            Self::RemovedByPeer => "removed_by_peer",
            Self::ClosedByPeer => "closed_by_peer",
            Self::Unknown => "unknown",
        }
    }

    /// At most 16 characters, for a table.
    pub fn short(self) -> &'static str {
        match self {
            Self::Fin => "FIN",
            Self::ResetSent => "RST sent",
            Self::ResetReceived => "RST received",
            Self::Timeout => "timed out",
            Self::Unreachable => "unreachable",
            Self::RemovedByAdmin => "removed here",
            Self::RemovedByPeer => "removed by peer",
            Self::ClosedByPeer => "closed by peer",
            Self::Unknown => "cause unknown",
        }
    }

    /// Whether the path failed, rather than being closed on purpose.
    pub fn is_failure(self) -> bool {
        matches!(self, Self::ResetSent | Self::ResetReceived | Self::Timeout | Self::Unreachable)
    }
}

/// Why a connection that asked for MPTCP continues as plain TCP, as far as the kernel reports it. Names follow the kernel's MIB counters
/// where one fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FallbackReason {
    /// The SYN went out without MP_CAPABLE: the kernel had switched MPTCP off for this connection (for example
    /// after a blackhole was detected, or because TCP MD5 is in use).
    NotAttempted,
    /// The SYN-ACK had no MP_CAPABLE (`MPCapableFallbackSYNACK`): the peer has no MPTCP, or a middlebox removed the option.
    NoMpCapableInSynAck,
    /// After the handshake; the kernel does not report why (`DSSFallback`, `MPFailRx`, ... count it for the namespace).
    AfterHandshake,
    /// Already fallen back when the agent first saw it.
    Unknown,
}

impl FallbackReason {
    /// All values.
    pub const ALL: [Self; 4] =
        [Self::NotAttempted, Self::NoMpCapableInSynAck, Self::AfterHandshake, Self::Unknown];

    /// Its name in JSON, in the store and as a label.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NotAttempted => "not_attempted",
            Self::NoMpCapableInSynAck => "no_mp_capable_in_syn_ack",
            Self::AfterHandshake => "after_handshake",
            Self::Unknown => "unknown",
        }
    }

    /// A short description.
    pub fn description(self) -> &'static str {
        match self {
            Self::NotAttempted => "MPTCP was not asked for in the SYN",
            Self::NoMpCapableInSynAck => "no MP_CAPABLE in the SYN-ACK",
            Self::AfterHandshake => "after the handshake, cause not reported by the kernel",
            Self::Unknown => "cause unknown",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_equal_the_json_values() {
        for reason in CloseReason::ALL {
            assert_eq!(serde_json::to_value(reason).unwrap(), reason.as_str());
        }
        for reason in FallbackReason::ALL {
            assert_eq!(serde_json::to_value(reason).unwrap(), reason.as_str());
        }
    }
}
