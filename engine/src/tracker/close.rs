// SPDX-License-Identifier: MIT OR Apache-2.0
//! Why a subflow ended, and why a connection fell back, derived from the kernel side's observations. Pure.

use mpwatch_model::kernel::event::{EndFlags, SubflowRecord};
use mpwatch_model::kernel::lifecycle::{CloseReason, FallbackReason};

// errno values of Linux, the same on all architectures that mpwatch supports.
const ENETUNREACH: u32 = 101;
const ECONNABORTED: u32 = 103;
const ECONNRESET: u32 = 104;
const ETIMEDOUT: u32 = 110;
const ECONNREFUSED: u32 = 111;
const EHOSTDOWN: u32 = 112;
const EHOSTUNREACH: u32 = 113;

/// The reason, from the strongest evidence.
pub(super) fn reason(record: &SubflowRecord) -> CloseReason {
    let is_open_tcp = record.seen_open && !record.passive && !record.end.never_established;
    if record.mp_join && record.established.is_none() && is_open_tcp && record.end.reset_sent {
        return CloseReason::OptionRemoved;
    }
    reason_for(record.error, record.end)
}

/// How a socket ended that was closed in SYN_SENT. The kernel then gives it the error `ECONNRESET` without any reset.
fn of_handshake(error: u32, end: EndFlags) -> CloseReason {
    match error {
        ENETUNREACH | EHOSTDOWN | EHOSTUNREACH => CloseReason::Unreachable,
        ECONNREFUSED => CloseReason::Refused,
        _ if end.reset_received && error != ECONNRESET => CloseReason::Refused,
        _ => CloseReason::Unanswered,
    }
}

/// The event that began the end decides. The removal of a single subflow begins with a FIN; data in flight then makes the kernel report a
/// reset at both ends, although one of them received none (`TCPAbortOnData`), and on a failed path the FIN times out. A socket that is
/// destroyed on purpose (`SOCK_DESTROY`: `ss --kill`, an elimination; `bpf_sock_destroy`) has the error `ECONNABORTED`.
fn reason_for(error: u32, end: EndFlags) -> CloseReason {
    if end.never_established {
        return of_handshake(error, end);
    }
    let removed = end.removed_by_peer || end.removed_by_us;
    let by_fin = end.fin_sent_first || end.fin_received_first;
    // With unread data the kernel removes a subflow by a reset instead of a FIN.
    let by_reset = removed && (end.reset_sent || end.reset_received);
    if end.alone && (by_fin || by_reset) {
        return match end {
            EndFlags { removed_by_peer: true, .. } => CloseReason::RemovedByPeer,
            EndFlags { removed_by_us: true, .. } | EndFlags { fin_sent_first: true, .. } => {
                CloseReason::RemovedByAdmin
            }
            _ => CloseReason::ClosedByPeer,
        };
    }
    match error {
        ECONNABORTED if end.alone && !end.reset_received => CloseReason::RemovedByAdmin,
        ETIMEDOUT => CloseReason::Timeout,
        ENETUNREACH | EHOSTDOWN | EHOSTUNREACH => CloseReason::Unreachable,
        _ if end.reset_received => CloseReason::ResetReceived,
        _ if end.reset_sent => CloseReason::ResetSent,
        ECONNRESET | ECONNREFUSED => CloseReason::ResetReceived,
        _ if end.fin_sent_first || end.fin_received_first => CloseReason::Fin,
        _ => CloseReason::Unknown,
    }
}

/// Why the connection with this initial subflow fell back to plain TCP.
pub(super) fn fallback_reason(record: &SubflowRecord) -> FallbackReason {
    if !record.seen_open {
        FallbackReason::Unknown
    } else if !record.asked_mptcp {
        FallbackReason::NotAttempted
    } else if !record.mp_capable && !record.passive {
        FallbackReason::NoMpCapableInSynAck
    } else {
        FallbackReason::AfterHandshake
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOTHING: EndFlags = EndFlags {
        reset_sent: false,
        reset_received: false,
        fin_sent_first: false,
        fin_received_first: false,
        alone: false,
        removed_by_peer: false,
        removed_by_us: false,
        never_established: false,
        fin_received: false,
    };
    const SENT: EndFlags = EndFlags { fin_sent_first: true, ..NOTHING };
    const RECEIVED: EndFlags = EndFlags { fin_received_first: true, ..NOTHING };
    const SILENT: EndFlags = EndFlags { never_established: true, ..NOTHING };
    const REFUSED: EndFlags = EndFlags { reset_received: true, never_established: true, ..NOTHING };

    /// Case, error, observations, reason: mostly from kernel 6.18 (`root_close.rs`). The failed path and the late reset are derived.
    const TABLE: &[(&str, u32, EndFlags, CloseReason)] = &[
        ("closed here", 0, SENT, CloseReason::Fin),
        ("closed there", 0, RECEIVED, CloseReason::Fin),
        ("aborted here", 0, EndFlags { reset_sent: true, ..NOTHING }, CloseReason::ResetSent),
        (
            "killed here",
            ECONNABORTED,
            EndFlags { reset_sent: true, alone: true, ..NOTHING },
            CloseReason::RemovedByAdmin,
        ),
        (
            "killed here with the connection",
            ECONNABORTED,
            EndFlags { reset_sent: true, ..NOTHING },
            CloseReason::ResetSent,
        ),
        (
            "killed there",
            ECONNRESET,
            EndFlags { reset_received: true, alone: true, ..NOTHING },
            CloseReason::ResetReceived,
        ),
        ("no listener", ECONNREFUSED, REFUSED, CloseReason::Refused),
        ("join not answered, closed with the connection", ECONNRESET, SILENT, CloseReason::Unanswered),
        ("connect gave up", 0, SILENT, CloseReason::Unanswered),
        ("SYNs timed out", ETIMEDOUT, SILENT, CloseReason::Unanswered),
        ("no route for a join", ENETUNREACH, SILENT, CloseReason::Unreachable),
        (
            "closed here, reset by the peer",
            ECONNRESET,
            EndFlags { reset_received: true, ..SENT },
            CloseReason::ResetReceived,
        ),
        (
            "announcement withdrawn here with data unread",
            0,
            EndFlags { alone: true, removed_by_us: true, reset_sent: true, ..NOTHING },
            CloseReason::RemovedByAdmin,
        ),
        (
            "announcement withdrawn there with data unread",
            ECONNRESET,
            EndFlags { alone: true, removed_by_peer: true, reset_received: true, ..NOTHING },
            CloseReason::RemovedByPeer,
        ),
        ("blackhole", ETIMEDOUT, EndFlags { alone: true, ..NOTHING }, CloseReason::Timeout),
        ("blackhole, detected at the connection's end", ETIMEDOUT, SENT, CloseReason::Timeout),
        ("link down", ENETUNREACH, EndFlags { alone: true, ..NOTHING }, CloseReason::Unreachable),
        (
            "endpoint deleted",
            0,
            EndFlags { alone: true, removed_by_us: true, ..SENT },
            CloseReason::RemovedByAdmin,
        ),
        (
            "endpoint deleted, data in flight",
            ECONNRESET,
            EndFlags { alone: true, removed_by_us: true, reset_received: true, ..SENT },
            CloseReason::RemovedByAdmin,
        ),
        (
            "endpoint of a failed path deleted",
            ETIMEDOUT,
            EndFlags { alone: true, ..SENT },
            CloseReason::RemovedByAdmin,
        ),
        (
            "REMOVE_ADDR",
            0,
            EndFlags { alone: true, removed_by_peer: true, ..RECEIVED },
            CloseReason::RemovedByPeer,
        ),
        (
            "REMOVE_ADDR before its FIN",
            0,
            EndFlags { alone: true, removed_by_peer: true, ..SENT },
            CloseReason::RemovedByPeer,
        ),
        (
            "REMOVE_ADDR, data in flight",
            ECONNRESET,
            EndFlags { alone: true, removed_by_peer: true, reset_received: true, ..RECEIVED },
            CloseReason::RemovedByPeer,
        ),
        (
            "the peer's path manager, address kept",
            0,
            EndFlags { alone: true, ..RECEIVED },
            CloseReason::ClosedByPeer,
        ),
        ("nothing seen", 0, NOTHING, CloseReason::Unknown),
    ];

    #[test]
    fn every_end_has_the_right_reason() {
        for &(case, error, end, reason) in TABLE {
            assert_eq!(reason_for(error, end), reason, "{case}");
        }
    }
}
