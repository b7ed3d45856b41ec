// SPDX-License-Identifier: MIT OR Apache-2.0
//! The states of a flow, and the reasons for its end or fallback.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::words::json_words;

json_words! {
    /// State of a TCP or MPTCP socket (`include/net/tcp_states.h`); for MPTCP the states of RFC 8684 section 3.3.3.
    #[allow(missing_docs, reason = "the names of RFC 9293 section 3.3.2")]
    #[derive(Default)]
    pub enum TcpState {
        Established = "established",
        SynSent = "syn_sent",
        SynRecv = "syn_recv",
        FinWait1 = "fin_wait1",
        FinWait2 = "fin_wait2",
        TimeWait = "time_wait",
        #[default]
        Close = "close",
        CloseWait = "close_wait",
        LastAck = "last_ack",
        Listen = "listen",
        Closing = "closing",
        /// A number that this version of mpwatch does not know.
        Unknown = "unknown",
    }
}

impl TcpState {
    /// Converts the kernel's number. `ALL` has the kernel's order, which begins at 1.
    pub fn from_kernel(state: u8) -> Self {
        let index = usize::from(state).checked_sub(1);
        index.and_then(|index| Self::ALL.get(index)).copied().unwrap_or(Self::Unknown)
    }
}

json_words! {
    /// Which end opened the connection.
    pub enum Role {
        /// This host connected.
        Client = "client",
        /// This host accepted.
        Server = "server",
    }
}

json_words! {
    /// The protocol with which a connection was opened. A connection that fell back to plain TCP stays `mptcp`; its `fallback` is set.
    pub enum Protocol {
        /// Multipath TCP, version 1.
        Mptcp = "mptcp",
        /// Plain TCP. It is traced only with `--tcp`, as a baseline for comparison.
        Tcp = "tcp",
    }
}

/// The protocol that carried the payload of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CarriedBy {
    /// Multipath TCP.
    Mptcp,
    /// Plain TCP, because the connection fell back.
    Fallback,
    /// Plain TCP from the start.
    Tcp,
}

impl CarriedBy {
    /// All values, MPTCP first.
    pub const ALL: [Self; 3] = [Self::Mptcp, Self::Fallback, Self::Tcp];

    /// The name of the protocol for users.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Mptcp => "mptcp",
            Self::Fallback => "fallback to TCP",
            Self::Tcp => "tcp",
        }
    }
}

json_words! {
    /// Why a subflow ended.
    pub enum CloseReason {
        /// Both ends closed the subflow with a FIN, as part of closing the connection.
        Fin = "fin",
        /// This host sent a reset.
        ResetSent = "reset_sent",
        /// The peer, or something on the path, sent a reset.
        ResetReceived = "reset_received",
        /// Retransmissions went unanswered until the kernel gave up.
        Timeout = "timeout",
        /// An ICMP error: the peer cannot be reached.
        Unreachable = "unreachable",
        /// This host removed the subflow on purpose: an endpoint was deleted, a user-space path manager asked for the removal, or the socket was
        /// destroyed (`ss --kill`, `mpwatch control eliminate`).
        RemovedByAdmin = "removed_by_admin",
        /// The peer withdrew the address (REMOVE_ADDR, RFC 8684 section 3.4.2).
        RemovedByPeer = "removed_by_peer",
        /// The peer closed only this subflow, without withdrawing its address.
        ClosedByPeer = "closed_by_peer",
        /// The SYN was answered with a reset.
        Refused = "refused",
        /// The SYN was not answered before the subflow was closed.
        Unanswered = "unanswered",
        /// The SYN was answered without MP_JOIN: a device on the path removed the option.
        OptionRemoved = "option_removed",
        /// The kernel does not report the reason.
        Unknown = "unknown",
    }
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
            Self::RemovedByAdmin => "removed by this host (endpoint deleted, or socket destroyed)",
            Self::RemovedByPeer => "address withdrawn by the peer (REMOVE_ADDR)",
            Self::ClosedByPeer => "closed by the peer, address not withdrawn",
            Self::Refused => "refused (the SYN was answered with RST)",
            Self::Unanswered => "unanswered (no answer to the SYN)",
            Self::OptionRemoved => "MP_JOIN removed on the path",
            Self::Unknown => "unknown",
        }
    }

    /// A description of at most 16 characters, for tables.
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
            Self::Refused => "refused",
            Self::Unanswered => "unanswered",
            Self::OptionRemoved => "MP_JOIN removed",
            Self::Unknown => "cause unknown",
        }
    }

    /// Whether the subflow ended before the handshake was complete, so that it never was a path.
    pub fn is_failed_handshake(self) -> bool {
        matches!(self, Self::Refused | Self::Unanswered | Self::OptionRemoved)
    }

    /// Whether the path failed, in contrast to a subflow that was closed on purpose.
    pub fn is_failure(self) -> bool {
        matches!(self, Self::ResetSent | Self::ResetReceived | Self::Timeout | Self::Unreachable)
    }
}

json_words! {
    /// Why a connection that asked for MPTCP continues as plain TCP, as far as the kernel reports it. Names follow MIB counters if these exist.
    pub enum FallbackReason {
        /// The SYN went out without MP_CAPABLE: the kernel had switched MPTCP off for this connection (for example
        /// after a blackhole was detected, or because TCP MD5 is in use).
        NotAttempted = "not_attempted",
        /// The SYN-ACK had no MP_CAPABLE (`MPCapableFallbackSYNACK`): the peer has no MPTCP, or a middlebox removed the option.
        NoMpCapableInSynAck = "no_mp_capable_in_syn_ack",
        /// After the handshake. The kernel reports the reason only per namespace (`DSSFallback`, `MPFailRx`, ...).
        AfterHandshake = "after_handshake",
        /// The connection had fallen back before mpwatch first traced it.
        Unknown = "unknown",
    }
}

impl FallbackReason {
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
