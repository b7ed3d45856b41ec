// SPDX-License-Identifier: MIT OR Apache-2.0
//! Derives from the records of the BPF programs why a subflow ended, or why a connection fell back.

use mpwatch_model::flow::outage::SAME_END;
use mpwatch_model::kernel::event::{EndFlags, SubflowRecord};
use mpwatch_model::kernel::lifecycle::{CloseReason, FallbackReason};
use mpwatch_model::unit::Nanos;

// errno values of Linux. They are the same on all architectures that mpwatch supports.
const EACCES: u32 = 13;
const ENETUNREACH: u32 = 101;
const ECONNABORTED: u32 = 103;
const ECONNRESET: u32 = 104;
const ETIMEDOUT: u32 = 110;
const ECONNREFUSED: u32 = 111;
const EHOSTDOWN: u32 = 112;
const EHOSTUNREACH: u32 = 113;

/// The reason for the end of a subflow, from the strongest evidence. `connection_closed`: when its connection closed.
pub(super) fn reason(record: &SubflowRecord, connection_closed: Option<Nanos>) -> CloseReason {
    let has_connected = record.seen_open && !record.passive && !record.end.never_established;
    let EndFlags { reset_sent, reset_received, .. } = record.end;
    if record.mp_join && record.established.is_none() && has_connected {
        return match (reset_received, reset_sent) {
            (true, _) => CloseReason::Refused,
            (false, true) => CloseReason::OptionRemoved,
            (false, false) => CloseReason::Unanswered,
        };
    }
    if is_unsent(record) {
        return CloseReason::NotSent;
    }
    // After an orderly close, the kernel resets a subflow that receives data. A late reset may be the only sign that the path has failed.
    let with_end = connection_closed.zip(record.closed).is_some_and(|(end, at)| at < end + SAME_END);
    let is_orderly = record.end.in_order && !record.end.alone && with_end;
    match reason_for(record.error, record.end) {
        CloseReason::ResetSent | CloseReason::ResetReceived if is_orderly => CloseReason::Fin,
        reason => reason,
    }
}

/// Whether connect failed before the kernel sent a SYN.
pub(super) fn is_unsent(record: &SubflowRecord) -> bool {
    record.end.never_established && record.tcp.segments_out == 0
}

/// The reason for a socket that was closed in SYN_SENT. The kernel then sets the error `ECONNRESET` even without a reset.
fn of_handshake(error: u32, end: EndFlags) -> CloseReason {
    match error {
        EACCES | ENETUNREACH | EHOSTDOWN | EHOSTUNREACH => CloseReason::HostUnreachable,
        ECONNREFUSED => CloseReason::Refused,
        _ if end.reset_received && error != ECONNRESET => CloseReason::Refused,
        _ => CloseReason::Unanswered,
    }
}

/// The first event decides. The removal of a single subflow begins with a FIN. If data is in flight, the kernel then reports a reset at
/// both ends, although one end received no reset (`TCPAbortOnData`); on a failed path, the FIN times out. A socket that is destroyed on
/// purpose (`SOCK_DESTROY`: `ss --kill`, an elimination; `bpf_sock_destroy`) has the error `ECONNABORTED`.
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
    // The kernel also clears `mp_capable` if the first segment after the handshake has no option. The key of the SYN-ACK stays.
    let has_key = record.msk.as_ref().is_some_and(|msk| msk.remote_token.known().is_some());
    if !record.seen_open {
        FallbackReason::Unknown
    } else if !record.asked_mptcp {
        FallbackReason::NotAttempted
    } else if record.option_omitted {
        FallbackReason::OptionOmitted
    } else if !record.mp_capable && !record.passive && !has_key {
        FallbackReason::NoMpCapableInSynAck
    } else {
        FallbackReason::AfterHandshake
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Case, error, flags and reason, mostly measured on kernel 6.18 (`root_close.rs`). The failed path and the late reset were not measured.
    macro_rules! cases {
        ($($case:literal: $error:expr, [$($flag:ident)*] => $reason:ident;)*) => {
            [$(($case, $error, EndFlags { $($flag: true,)* ..EndFlags::default() }, CloseReason::$reason)),*]
        };
    }

    #[test]
    fn every_end_has_the_right_reason() {
        let cases = cases! {
            "closed here": 0, [fin_sent_first] => Fin;
            "closed there": 0, [fin_received_first] => Fin;
            "aborted here": 0, [reset_sent] => ResetSent;
            "killed here": ECONNABORTED, [reset_sent alone] => RemovedByAdmin;
            "killed here with the connection": ECONNABORTED, [reset_sent] => ResetSent;
            "killed there": ECONNRESET, [reset_received alone] => ResetReceived;
            "no listener": ECONNREFUSED, [reset_received never_established] => Refused;
            "join not answered, closed with the connection": ECONNRESET, [never_established] => Unanswered;
            "connect gave up": 0, [never_established] => Unanswered;
            "SYNs timed out": ETIMEDOUT, [never_established] => Unanswered;
            "no route for a join": ENETUNREACH, [never_established] => HostUnreachable;
            "no ARP answer": EHOSTUNREACH, [never_established] => HostUnreachable;
            "rejected by a firewall, IPv6": EACCES, [never_established] => HostUnreachable;
            "closed here, reset by the peer": ECONNRESET, [fin_sent_first reset_received] => ResetReceived;
            "announcement withdrawn here with data unread": 0, [alone removed_by_us reset_sent] => RemovedByAdmin;
            "announcement withdrawn there with data unread": ECONNRESET, [alone removed_by_peer reset_received] => RemovedByPeer;
            "blackhole": ETIMEDOUT, [alone] => Timeout;
            "blackhole, detected at the connection's end": ETIMEDOUT, [fin_sent_first] => Timeout;
            "link down": ENETUNREACH, [alone] => Unreachable;
            "endpoint deleted": 0, [fin_sent_first alone removed_by_us] => RemovedByAdmin;
            "endpoint deleted, data in flight": ECONNRESET, [fin_sent_first alone removed_by_us reset_received] => RemovedByAdmin;
            "endpoint of a failed path deleted": ETIMEDOUT, [fin_sent_first alone] => RemovedByAdmin;
            "REMOVE_ADDR": 0, [fin_received_first alone removed_by_peer] => RemovedByPeer;
            "REMOVE_ADDR before its FIN": 0, [fin_sent_first alone removed_by_peer] => RemovedByPeer;
            "REMOVE_ADDR, data in flight": ECONNRESET, [fin_received_first alone removed_by_peer reset_received] => RemovedByPeer;
            "the peer's path manager, address kept": 0, [fin_received_first alone] => ClosedByPeer;
            "no evidence": 0, [] => Unknown;
        };
        for (case, error, end, reason) in cases {
            assert_eq!(reason_for(error, end), reason, "{case}");
        }
    }
}
