// SPDX-License-Identifier: MIT OR Apache-2.0
//! Decodes the record of a subflow. Every pattern lists every field of the ABI, so code that forgets a field does not compile.

use mpwatch_model::id::{NetnsCookie, SocketCookie, SubflowId};
use mpwatch_model::kernel::busy::{BusyTimes, Limit};
use mpwatch_model::kernel::cpu::CpuTimes;
use mpwatch_model::kernel::endpoint::{Interface, Name};
use mpwatch_model::kernel::event::{
    EndFlags, MIN_STALL, MIN_WINDOW, Stall, SubflowRecord, TcpCounters, WORK_PER_PACKET, Waiting,
};
use mpwatch_model::kernel::histogram::{BUCKETS, HIGHEST, LOWEST_OCTAVE, RttHistogram, SUB_BUCKET_BITS};
use mpwatch_model::kernel::lifecycle::TcpState;
use mpwatch_model::unit::{Bytes, Micros, Nanos};

use super::field::{address, msk, nanos, owner};
use crate::abi;

const STALLS: usize = abi::MPW_STALLS as usize;

// The model does not include the ABI header, so it repeats these constants.
const _: () = assert!(
    BUCKETS == abi::MPW_RTT_BUCKETS as usize
        && SUB_BUCKET_BITS == abi::MPW_RTT_SUB_BUCKET_BITS
        && LOWEST_OCTAVE == abi::MPW_RTT_LOWEST_OCTAVE
        && HIGHEST == abi::MPW_RTT_MAX_US,
    "the RTT histograms of the model and of the ABI differ"
);
const _: () = assert!(WORK_PER_PACKET == abi::MPW_WORK_PER_PACKET as u64, "the work of a packet differs");
const _: () = assert!(MIN_WINDOW.0 == abi::MPW_MIN_WINDOW as u64, "the minimum windows differ");
const _: () = assert!(MIN_STALL.0 == abi::MPW_MIN_STALL_NS as u64, "the shortest stalls differ");

/// The pattern is in the parameter list only to keep the body short.
#[allow(clippy::too_many_lines, reason = "one line for each field of the ABI")]
pub(super) fn subflow(
    abi::mpw_subflow {
        kind: _,
        netns_inode,
        at_ns,
        netns_cookie,
        cgroup_id,
        cpu_ns,
        observed:
            abi::mpw_observed {
                cookie,
                created_ns,
                established_ns,
                first_seen_ns,
                closed_ns,
                joined_bytes,
                effective_ns,
                effective_bytes,
                sched_considered,
                sched_picked,
                progress_ns,
                ack_ns,
                busy_ns,
                bytes_resent,
                bytes_dropped,
                syn_bytes,
                work,
                window_work,
                local: raw_local,
                remote: raw_remote,
                owner: raw_owner,
                stalls: raw_stalls,
                flags,
                generation,
                handshake_us,
                retrans_fast,
                retrans_timeout,
                retrans_probe,
                packets_out,
                snd_wnd,
                ifindex,
                error,
                reset_reason,
                backoff,
                probes,
                chrono_type,
                _reserved: _,
                ifname,
                incoming_ifname,
            },
        tcp: raw_tcp,
        tcp_header_bytes,
        state,
        _reserved: _,
        msk: raw_msk,
        congestion,
        rtt_histogram,
    }: abi::mpw_subflow,
) -> SubflowRecord {
    let flag = |bit: u32| flags & bit != 0;
    let join = flag(abi::MPW_SF_MP_JOIN);
    // TCP may be established although the peer refuses the MP_JOIN, or never acknowledges the join.
    let is_usable = if join { flag(abi::MPW_SF_FULLY_ESTABLISHED) } else { !flag(abi::MPW_SF_ASKED_JOIN) };
    let established = nanos(established_ns).filter(|_| is_usable);
    let state = TcpState::from_kernel(state);
    let is_joining = join && !is_usable && state != TcpState::Close;
    let handshake = (created_ns != 0 && handshake_us != 0).then(|| Micros(handshake_us.into()));
    let counters = tcp(raw_tcp, bytes_resent, bytes_dropped, flag(abi::MPW_SF_HAS_TOTAL_RTO));
    let ((local, local_id), (remote, remote_id)) = (address(raw_local), address(raw_remote));
    SubflowRecord {
        at: Nanos(at_ns),
        id: SubflowId { cookie: SocketCookie(cookie), generation },
        netns: NetnsCookie(netns_cookie),
        netns_inode,
        cgroup: cgroup_id,
        msk: flag(abi::MPW_SF_MPTCP).then(|| msk(raw_msk)),
        created: nanos(created_ns),
        established,
        first_seen: Nanos(first_seen_ns),
        closed: nanos(closed_ns),
        handshake: established.and(handshake),
        joined_bytes: established.map(|_| Bytes(joined_bytes)),
        syn_bytes: Bytes(syn_bytes),
        effective: nanos(effective_ns).map(|at| (at, Bytes(effective_bytes))),
        considered: sched_considered,
        picked: sched_picked,
        progress: nanos(progress_ns),
        unacked: flag(abi::MPW_SF_UNACKED),
        waiting: waiting(packets_out, snd_wnd, [backoff, probes], [ack_ns, busy_ns], chrono_type),
        stalls: stalls(raw_stalls),
        retransmits_fast: retrans_fast,
        retransmits_timeout: retrans_timeout,
        retransmits_probe: retrans_probe,
        work,
        window_work,
        cpu: flag(abi::MPW_SF_HAS_CPU).then(|| CpuTimes::from_classes(cpu_ns, true)),
        // The kernel does not reset its clocks when a socket connects again.
        tcp: TcpCounters { busy: counters.busy.filter(|_| generation == 0), ..counters },
        local,
        remote,
        local_id,
        remote_id,
        congestion: (congestion[0] != 0).then(|| Name::from_kernel(congestion)),
        interface: (ifindex != 0).then(|| Interface { index: ifindex, name: Name::from_kernel(ifname) }),
        incoming_interface: (incoming_ifname[0] != 0).then(|| Name::from_kernel(incoming_ifname)),
        owner: owner(raw_owner),
        state: if is_joining { TcpState::SynSent } else { state },
        error,
        reset_reason,
        tcp_header: tcp_header_bytes,
        seen_open: flag(abi::MPW_SF_SEEN_OPEN),
        mp_capable: flag(abi::MPW_SF_MP_CAPABLE),
        mp_join: join || flag(abi::MPW_SF_ASKED_JOIN),
        asked_mptcp: flag(abi::MPW_SF_ASKED_MPTCP),
        option_omitted: flag(abi::MPW_SF_OPTION_OMITTED),
        passive: flag(abi::MPW_SF_PASSIVE),
        backup: flag(abi::MPW_SF_BACKUP_BY_PEER | abi::MPW_SF_BACKUP_BY_US),
        stale: flag(abi::MPW_SF_STALE),
        last: flag(abi::MPW_SF_FINAL),
        end: end(flags),
        rtts: RttHistogram::from_counts(rtt_histogram),
    }
}

fn waiting(
    in_flight: u32,
    window: u32,
    [backoff, probes]: [u8; 2],
    [ack, busy]: [u64; 2],
    chrono_type: u8,
) -> Waiting {
    let (window, limit) = (Bytes(window.into()), limit(chrono_type));
    Waiting { in_flight, window, backoff, probes, last_ack: nanos(ack), busy_since: nanos(busy), limit }
}

/// What limits the sender, from `enum tcp_chrono`.
fn limit(chrono_type: u8) -> Option<Limit> {
    let limits = [Limit::Network, Limit::ReceiveWindow, Limit::SendBuffer];
    usize::from(chrono_type).checked_sub(1).and_then(|index| limits.get(index).copied())
}

/// The kernel's clock of the network runs only while no other clock runs; the result sums them, as `tcp_get_info_chrono_stats()` does.
fn busy([network, receive_window, send_buffer]: [u64; 3]) -> BusyTimes {
    let [receive_window, send_buffer] = [receive_window, send_buffer].map(Nanos);
    BusyTimes { total: Nanos(network) + receive_window + send_buffer, receive_window, send_buffer }
}

fn end(flags: u32) -> EndFlags {
    let flag = |bit: u32| flags & bit != 0;
    EndFlags {
        reset_sent: flag(abi::MPW_SF_RST_SENT),
        reset_received: flag(abi::MPW_SF_RST_RECEIVED),
        fin_sent_first: flag(abi::MPW_SF_FIN_SENT_FIRST),
        fin_received_first: flag(abi::MPW_SF_FIN_RECEIVED_FIRST),
        alone: flag(abi::MPW_SF_ENDED_ALONE),
        removed_by_peer: flag(abi::MPW_SF_RM_ADDR_RECEIVED),
        removed_by_us: flag(abi::MPW_SF_RM_ADDR_SENT),
        never_established: flag(abi::MPW_SF_NEVER_ESTABLISHED),
        fin_received: flag(abi::MPW_SF_FIN_RECEIVED),
        in_order: flag(abi::MPW_SF_CLOSED_IN_ORDER),
    }
}

/// The kernel counts a segment each time TCP passes it to the queueing discipline, even if the discipline refuses it. In the
/// result, only `bytes_refused` counts refused attempts.
fn tcp(raw: abi::mpw_tcp, bytes_resent: u64, bytes_dropped: u64, counts_timeouts: bool) -> TcpCounters {
    let abi::mpw_tcp {
        bytes_sent,
        bytes_acked,
        bytes_received,
        bytes_retrans,
        payload_sent,
        chrono_ns,
        srtt_us,
        rttvar_us,
        rtt_min_us,
        rtt_us,
        total_retrans,
        lost,
        snd_cwnd,
        delivered,
        rate_delivered,
        rate_interval_us,
        mss,
        segs_out,
        segs_in,
        data_segs_out,
        data_segs_in,
        total_rto,
    } = raw;
    // `bytes_resent` 0: no retransmission, or `tcp_retransmit_skb` is not traced.
    let retransmitted = if bytes_resent == 0 { bytes_retrans } else { bytes_resent.min(bytes_retrans) };
    let sent = payload_sent.min(bytes_sent.saturating_sub(bytes_retrans)) + retransmitted;
    let refused = bytes_sent.saturating_sub(sent);
    TcpCounters {
        bytes_sent: Bytes(sent),
        bytes_refused: Bytes(refused),
        bytes_dropped: Bytes(bytes_dropped.saturating_sub(refused)),
        bytes_acked: Bytes(bytes_acked),
        bytes_received: Bytes(bytes_received),
        bytes_retransmitted: Bytes(retransmitted),
        srtt: Micros(srtt_us.into()),
        rttvar: Micros(rttvar_us.into()),
        rtt_min: Micros(rtt_min_us.into()),
        rtt: Micros(rtt_us.into()),
        segments_retransmitted: total_retrans,
        lost,
        cwnd: snd_cwnd,
        delivered,
        rate_delivered,
        rate_interval: Micros(rate_interval_us.into()),
        mss,
        segments_out: segs_out,
        segments_in: segs_in,
        data_segments_out: data_segs_out,
        data_segments_in: data_segs_in,
        timeouts: counts_timeouts.then_some(total_rto),
        busy: Some(busy(chrono_ns)),
    }
}

/// Oldest first.
fn stalls(mut raw: [abi::mpw_stall; STALLS]) -> Vec<Stall> {
    raw.sort_by_key(|stall| stall.from_ns);
    let stalls = raw.into_iter().filter(|stall| stall.to_ns != 0);
    stalls
        .map(|abi::mpw_stall { from_ns, to_ns, unacked, _reserved }| {
            let unacked = (unacked != abi::MPW_STALL_UNUSED).then_some(unacked != 0);
            Stall { from: Nanos(from_ns), to: Nanos(to_ns), unacked }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stalls_are_in_order_of_time() {
        let stall = |from_ns, to_ns| abi::mpw_stall { from_ns, to_ns, ..Default::default() };
        let raw = [stall(5, 9), stall(2, 3), stall(0, 0), stall(3, 5)];
        let order: Vec<u64> = stalls(raw).iter().map(|stall| stall.from.0).collect();
        assert_eq!(order, [2, 3, 5], "an empty place is not a stall");
    }

    #[test]
    fn a_join_is_established_once_the_peer_has_acknowledged_it() {
        let decoded = |flags, state| {
            let observed = abi::mpw_observed { established_ns: 1, flags, ..Default::default() };
            let record = subflow(abi::mpw_subflow { observed, state, ..Default::default() });
            (record.established.is_some(), record.state)
        };
        let (established, closed) = (1, 7);
        let join = abi::MPW_SF_MP_JOIN | abi::MPW_SF_ASKED_JOIN;
        let acknowledged = join | abi::MPW_SF_FULLY_ESTABLISHED;
        assert_eq!(decoded(join, established), (false, TcpState::SynSent));
        assert_eq!(decoded(acknowledged, established), (true, TcpState::Established));
        assert_eq!(decoded(join | abi::MPW_SF_RST_RECEIVED, closed), (false, TcpState::Close));
        assert_eq!(decoded(abi::MPW_SF_MP_CAPABLE, established), (true, TcpState::Established));
    }

    #[test]
    fn the_clocks_of_the_kernel_are_decoded_unless_a_former_connection_used_the_socket() {
        let decoded = |generation, chrono_type| {
            let observed = abi::mpw_observed { generation, chrono_type, busy_ns: 9, ..Default::default() };
            let tcp = abi::mpw_tcp { chrono_ns: [5, 3, 1], ..Default::default() };
            let record = subflow(abi::mpw_subflow { observed, tcp, ..Default::default() });
            (record.tcp.busy, record.waiting.limit)
        };
        let busy = BusyTimes { total: Nanos(9), receive_window: Nanos(3), send_buffer: Nanos(1) };
        assert_eq!(decoded(0, 0), (Some(busy), None));
        assert_eq!(decoded(0, 1), (Some(busy), Some(Limit::Network)));
        assert_eq!(decoded(0, 2), (Some(busy), Some(Limit::ReceiveWindow)));
        assert_eq!(decoded(0, 3), (Some(busy), Some(Limit::SendBuffer)));
        assert_eq!(decoded(1, 0).0, None);
    }

    /// Payload sent, retransmitted, refused and dropped, given the counters of the kernel and of the BPF programs.
    fn counters(
        bytes_sent: u64,
        bytes_retrans: u64,
        payload_sent: u64,
        [resent, dropped]: [u64; 2],
    ) -> [u64; 4] {
        let raw = abi::mpw_tcp { bytes_sent, bytes_retrans, payload_sent, ..abi::mpw_tcp::default() };
        let tcp = tcp(raw, resent, dropped, true);
        [tcp.bytes_sent, tcp.bytes_retransmitted, tcp.bytes_refused, tcp.bytes_dropped].map(|bytes| bytes.0)
    }

    #[test]
    fn segments_that_a_local_queue_refused_were_not_sent() {
        assert_eq!(counters(3_000, 200, 2_800, [200, 0]), [3_000, 200, 0, 0], "nothing refused");
        assert_eq!(
            counters(15_000, 4_000, 3_000, [50, 11_950]),
            [3_050, 50, 11_950, 0],
            "new data and retransmissions refused"
        );
        assert_eq!(
            counters(3_000, 200, 2_801, [0, 0]),
            [3_000, 200, 0, 0],
            "opening not traced: the SYN counts as a byte"
        );
        assert_eq!(
            counters(3_800, 800, 3_000, [800, 800]),
            [3_800, 800, 0, 800],
            "parts of large packets dropped"
        );
    }
}
