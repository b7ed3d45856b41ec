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

crate::words! {
    /// The protocol that carried the payload of a connection.
    #[derive(Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "snake_case")]
    pub enum CarriedBy {
        /// Multipath TCP.
        Mptcp = "mptcp",
        /// Plain TCP, because the connection fell back.
        Fallback = "fallback to TCP",
        /// Plain TCP from the start.
        Tcp = "tcp",
    }
}

json_words! {
    /// Why a subflow ended.
    pub enum CloseReason {
        /// Both ends closed the subflow with a FIN, as part of closing the connection; or the subflow was reset after both ends had acknowledged
        /// the end of all data (DATA_FIN).
        Fin = "fin" => "closed normally (FIN)",
        /// This host sent a reset.
        ResetSent = "reset_sent" => "reset by this host (RST sent)",
        /// The peer, or something on the path, sent a reset.
        ResetReceived = "reset_received" => "reset by the peer or the path (RST received)",
        /// Retransmissions went unanswered until the kernel gave up.
        Timeout = "timeout" => "timed out",
        /// An ICMP error: the peer cannot be reached.
        Unreachable = "unreachable" => "peer unreachable",
        /// This host removed the subflow on purpose: an endpoint was deleted, a user-space path manager asked for the removal, or the socket was
        /// destroyed (`ss --kill`, `mpwatch control eliminate`).
        RemovedByAdmin = "removed_by_admin" => "removed by this host (endpoint deleted, or socket destroyed)",
        /// The peer withdrew the address (REMOVE_ADDR, RFC 8684 section 3.4.2).
        RemovedByPeer = "removed_by_peer" => "address withdrawn by the peer (REMOVE_ADDR)",
        /// The peer closed only this subflow, without withdrawing its address.
        ClosedByPeer = "closed_by_peer" => "closed by the peer, address not withdrawn",
        /// The SYN was answered with a reset.
        Refused = "refused" => "refused (the handshake was answered with RST)",
        /// The SYN, or the ACK of a join, was not answered before the subflow was closed.
        Unanswered = "unanswered" => "unanswered (no answer to the SYN)",
        /// The SYN failed: there is no route, the host does not exist on the link (no ARP answer), or an ICMP error answered.
        HostUnreachable = "host_unreachable" => "host unreachable (no route, no ARP answer, or an ICMP error)",
        /// Connect failed on this host before a SYN was sent: the local address and port were in use (`EADDRNOTAVAIL`), or there was no route
        /// (`ENETUNREACH`).
        NotSent = "not_sent" => "no SYN was sent (EADDRNOTAVAIL: no free port, ENETUNREACH: no route)",
        /// The SYN was answered without MP_JOIN: a device on the path removed the option.
        OptionRemoved = "option_removed" => "MP_JOIN removed on the path",
        /// It ended while mpwatch was not running. Its time of the end is when mpwatch last observed it.
        Unobserved = "unobserved" => "it ended while mpwatch was not running",
        /// The kernel does not report the reason.
        Unknown = "unknown" => "unknown",
    }
}

impl CloseReason {
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
            Self::HostUnreachable => "host unreachable",
            Self::NotSent => "no SYN sent",
            Self::OptionRemoved => "MP_JOIN removed",
            Self::Unobserved => "not observed",
            Self::Unknown => "cause unknown",
        }
    }

    /// Whether the subflow ended before the handshake was complete, so that it never was a path.
    pub fn is_failed_handshake(self) -> bool {
        use CloseReason::{HostUnreachable, NotSent, OptionRemoved, Refused, Unanswered};
        matches!(self, Refused | Unanswered | HostUnreachable | NotSent | OptionRemoved)
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
        NotAttempted = "not_attempted" => "MPTCP was not asked for in the SYN",
        /// The SYN-ACK had no MP_CAPABLE (`MPCapableFallbackSYNACK`): the peer has no MPTCP, or a middlebox removed the option.
        NoMpCapableInSynAck = "no_mp_capable_in_syn_ack" => "no MP_CAPABLE in the SYN-ACK",
        /// The SYNs with MP_CAPABLE were not answered, and the kernel sent the next SYN without the option (`MPCapableSYNTXDrop`).
        OptionOmitted = "option_omitted" => "SYNs with MP_CAPABLE were not answered, so the kernel omitted the option",
        /// After the handshake. The kernel reports the reason only per namespace (`DSSFallback`, `MPFailRx`, ...).
        AfterHandshake = "after_handshake" => "after the handshake, cause not reported by the kernel",
        /// The connection had fallen back before mpwatch first traced it.
        Unknown = "unknown" => "cause unknown",
    }
}
