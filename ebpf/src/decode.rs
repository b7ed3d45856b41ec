// SPDX-License-Identifier: MIT OR Apache-2.0
//! From the bytes of the ring buffer and the iterators to model types. Pure: nothing here touches libbpf, so it is fuzzed
//! as it is. C stops here.

use std::net::{Ipv6Addr, SocketAddr};

use std::mem::offset_of;

use bytemuck::Pod;
use mpwatch_model::cpu::CpuTimes;
use mpwatch_model::endpoint::{Interface, Name, unmapped};
use mpwatch_model::event::{
    ConnectionRecord, End, KernelEvent, MskBytes, MskView, Process, Stall, SubflowRecord, TcpCounters,
};
use mpwatch_model::histogram::{BUCKETS, RttHistogram};
use mpwatch_model::id::{NetnsCookie, SocketCookie, SubflowId, Token};
use mpwatch_model::lifecycle::TcpState;
use mpwatch_model::sample::{DelaySample, SampleBatch};
use mpwatch_model::unit::{Bytes, Micros, Nanos};

use crate::abi;

const _: () =
    assert!(BUCKETS == abi::MPW_RTT_BUCKETS as usize, "the histogram of the model and of the ABI differ");

/// Bytes that are no record of ours. Counted as a loss; the stream goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// Too short to say what it is.
    #[error("a record of {0} bytes is too short to have a kind")]
    NoKind(usize),
    /// A kind that this version does not know.
    #[error("no record has kind {0}")]
    UnknownKind(u32),
    /// The length does not fit the kind.
    #[error("a record of kind {kind} has {expected} bytes, not {got}")]
    WrongLength {
        /// What it says it is.
        kind: u32,
        /// Length of that kind.
        expected: usize,
        /// Length of the bytes.
        got: usize,
    },
}

/// Length of a subflow's record in bytes, the unit of the `read_subflows` iterator.
pub const SUBFLOW_BYTES: usize = size_of::<abi::mpw_subflow>();
/// Length of a connection's record in bytes.
pub const CONNECTION_BYTES: usize = size_of::<abi::mpw_connection>();

/// Length of a batch of samples without its points.
const SAMPLES_HEAD: usize = offset_of!(abi::mpw_samples, points);

/// Decodes one record.
pub fn record(bytes: &[u8]) -> Result<KernelEvent, DecodeError> {
    let kind = bytes.first_chunk::<4>().ok_or(DecodeError::NoKind(bytes.len()))?;
    match u32::from_ne_bytes(*kind) {
        abi::MPW_RECORD_SUBFLOW => Ok(KernelEvent::Subflow(subflow(&plain(bytes, abi::MPW_RECORD_SUBFLOW)?))),
        abi::MPW_RECORD_CONNECTION => {
            Ok(KernelEvent::Connection(connection(&plain(bytes, abi::MPW_RECORD_CONNECTION)?)))
        }
        kind @ (abi::MPW_RECORD_UNCHANGED_SUBFLOW | abi::MPW_RECORD_UNCHANGED_CONNECTION) => {
            plain(bytes, kind).map(|raw| unchanged(&raw))
        }
        abi::MPW_RECORD_SAMPLES => samples(bytes).map(KernelEvent::Samples),
        other => Err(DecodeError::UnknownKind(other)),
    }
}

/// Length of the record at the front of these bytes. `None`: they are too few to tell, or no record begins here.
pub(crate) fn length(bytes: &[u8]) -> Option<usize> {
    match u32::from_ne_bytes(*bytes.first_chunk::<4>()?) {
        abi::MPW_RECORD_SUBFLOW => Some(size_of::<abi::mpw_subflow>()),
        abi::MPW_RECORD_CONNECTION => Some(size_of::<abi::mpw_connection>()),
        abi::MPW_RECORD_UNCHANGED_SUBFLOW | abi::MPW_RECORD_UNCHANGED_CONNECTION => {
            Some(size_of::<abi::mpw_unchanged>())
        }
        abi::MPW_RECORD_SAMPLES => samples_length(bytes),
        _ => None,
    }
}

fn unchanged(raw: &abi::mpw_unchanged) -> KernelEvent {
    let cookie = SocketCookie(raw.cookie);
    if raw.kind == abi::MPW_RECORD_UNCHANGED_SUBFLOW {
        KernelEvent::SubflowUnchanged(SubflowId { cookie, generation: raw.generation })
    } else {
        KernelEvent::ConnectionUnchanged(cookie)
    }
}

fn plain<T: Pod>(bytes: &[u8], kind: u32) -> Result<T, DecodeError> {
    bytemuck::try_pod_read_unaligned(bytes).map_err(|_| DecodeError::WrongLength {
        kind,
        expected: size_of::<T>(),
        got: bytes.len(),
    })
}

fn subflow(raw: &abi::mpw_subflow) -> SubflowRecord {
    let flag = |bit: u32| raw.flags & bit != 0;
    let is_mptcp = flag(abi::MPW_SF_MPTCP);
    SubflowRecord {
        at: Nanos(raw.at_ns),
        id: SubflowId { cookie: SocketCookie(raw.cookie), generation: raw.generation },
        netns: NetnsCookie(raw.netns_cookie),
        netns_inode: raw.netns_inode,
        cgroup: raw.cgroup_id,
        msk: is_mptcp.then(|| msk(&raw.msk)),
        created: nanos(raw.created_ns),
        established: nanos(raw.established_ns),
        first_seen: Nanos(raw.first_seen_ns),
        closed: nanos(raw.closed_ns),
        handshake: (raw.established_ns != 0 && raw.created_ns != 0)
            .then_some(Micros(raw.handshake_us.into())),
        joined_bytes: (raw.established_ns != 0).then_some(Bytes(raw.joined_bytes)),
        effective: nanos(raw.effective_ns).map(|at| (at, Bytes(raw.effective_bytes))),
        considered: raw.sched_considered,
        picked: raw.sched_picked,
        progress: nanos(raw.progress_ns),
        unacked: flag(abi::MPW_SF_UNACKED),
        stalls: stalls(raw),
        retransmits_fast: raw.retrans_fast,
        retransmits_timeout: raw.retrans_timeout,
        retransmits_probe: raw.retrans_probe,
        cpu: flag(abi::MPW_SF_HAS_CPU).then(|| CpuTimes::from_classes(raw.cpu_ns, true)),
        tcp: tcp(&raw.tcp, flag(abi::MPW_SF_HAS_TOTAL_RTO)),
        local: address(&raw.local),
        remote: address(&raw.remote),
        local_id: raw.local.id,
        remote_id: raw.remote.id,
        interface: (raw.ifindex != 0)
            .then(|| Interface { index: raw.ifindex, name: Name::from_kernel(raw.ifname) }),
        owner: owner(&raw.owner),
        state: TcpState::from_kernel(raw.state),
        error: raw.error,
        reset_reason: raw.reset_reason,
        tcp_header: raw.tcp_header_bytes,
        seen_open: flag(abi::MPW_SF_SEEN_OPEN),
        mp_capable: flag(abi::MPW_SF_MP_CAPABLE),
        mp_join: flag(abi::MPW_SF_MP_JOIN),
        asked_mptcp: flag(abi::MPW_SF_ASKED_MPTCP),
        passive: flag(abi::MPW_SF_PASSIVE),
        backup: flag(abi::MPW_SF_BACKUP_BY_PEER | abi::MPW_SF_BACKUP_BY_US),
        stale: flag(abi::MPW_SF_STALE),
        last: flag(abi::MPW_SF_FINAL),
        end: end(raw.flags),
        rtts: RttHistogram::from_counts(raw.rtt_histogram),
    }
}

/// A batch ends behind its last point. `None`: it is cut off before that can be told, or claims more points than there is room for.
fn samples_length(bytes: &[u8]) -> Option<usize> {
    let count = bytes.get(offset_of!(abi::mpw_samples, count)..SAMPLES_HEAD)?;
    let count = u32::from_ne_bytes(*count.first_chunk::<4>()?);
    (count <= abi::MPW_POINTS).then(|| SAMPLES_HEAD + count as usize * size_of::<abi::mpw_point>())
}

fn samples(bytes: &[u8]) -> Result<SampleBatch, DecodeError> {
    let (kind, got) = (abi::MPW_RECORD_SAMPLES, bytes.len());
    let expected = samples_length(bytes).unwrap_or(SAMPLES_HEAD);
    if got != expected || samples_length(bytes).is_none() {
        return Err(DecodeError::WrongLength { kind, expected, got });
    }
    let mut raw = abi::mpw_samples::default();
    bytemuck::bytes_of_mut(&mut raw)[..got].copy_from_slice(bytes);
    let point = |point: &abi::mpw_point| DelaySample {
        at: Nanos(point.at_us.wrapping_mul(1_000).wrapping_add(raw.boot_offset_ns)),
        rtt: Micros(point.rtt_us.into()),
        delivered: point.delivered,
        lost: point.lost,
        cut: point.cut != 0,
    };
    Ok(SampleBatch {
        id: SubflowId { cookie: SocketCookie(raw.cookie), generation: raw.generation },
        samples: raw.points.iter().take(raw.count as usize).map(point).collect(),
    })
}

fn end(flags: u32) -> End {
    let flag = |bit: u32| flags & bit != 0;
    End {
        reset_sent: flag(abi::MPW_SF_RST_SENT),
        reset_received: flag(abi::MPW_SF_RST_RECEIVED),
        fin_sent_first: flag(abi::MPW_SF_FIN_SENT_FIRST),
        fin_received_first: flag(abi::MPW_SF_FIN_RECEIVED_FIRST),
        alone: flag(abi::MPW_SF_ENDED_ALONE),
        removed_by_peer: flag(abi::MPW_SF_RM_ADDR_RECEIVED),
        removed_by_us: flag(abi::MPW_SF_RM_ADDR_SENT),
        never_established: flag(abi::MPW_SF_NEVER_ESTABLISHED),
    }
}

fn connection(raw: &abi::mpw_connection) -> ConnectionRecord {
    ConnectionRecord {
        at: Nanos(raw.at_ns),
        netns: NetnsCookie(raw.netns_cookie),
        netns_inode: raw.netns_inode,
        cgroup: raw.cgroup_id,
        opened: nanos(raw.opened_ns),
        first_seen: Nanos(raw.first_seen_ns),
        closed: nanos(raw.closed_ns),
        msk: msk(&raw.msk),
        cpu: (raw.msk.flags & abi::MPW_MSK_HAS_CPU != 0).then(|| CpuTimes::from_classes(raw.cpu_ns, true)),
        owner: owner(&raw.owner),
        last: raw.msk.flags & abi::MPW_MSK_FINAL != 0,
    }
}

fn msk(raw: &abi::mpw_msk) -> MskView {
    let flag = |bit: u32| raw.flags & bit != 0;
    MskView {
        cookie: SocketCookie(raw.cookie),
        token: Token(raw.token),
        remote_token: Token(raw.remote_token),
        state: TcpState::from_kernel(raw.state),
        server_side: flag(abi::MPW_MSK_SERVER_SIDE),
        fallback: flag(abi::MPW_MSK_FALLBACK),
        bytes: (!flag(abi::MPW_MSK_BYTES_UNKNOWN)).then(|| MskBytes {
            sent: Bytes(raw.bytes_sent),
            received: Bytes(raw.bytes_received),
            acked: Bytes(raw.bytes_acked),
            retransmitted: flag(abi::MPW_MSK_HAS_RETRANS).then_some(Bytes(raw.bytes_retrans)),
        }),
        addresses_announced: raw.add_addr_signaled,
        addresses_accepted: raw.add_addr_accepted,
        announced: (raw.announced.ip != [0; 16]).then(|| (raw.announced.id, address(&raw.announced))),
        removed_ids: raw.removed_ids.iter().copied().take(raw.removed_count.into()).collect(),
    }
}

fn tcp(raw: &abi::mpw_tcp, counts_timeouts: bool) -> TcpCounters {
    TcpCounters {
        bytes_sent: Bytes(raw.bytes_sent),
        bytes_acked: Bytes(raw.bytes_acked),
        bytes_received: Bytes(raw.bytes_received),
        bytes_retransmitted: Bytes(raw.bytes_retrans),
        srtt: Micros(raw.srtt_us.into()),
        rttvar: Micros(raw.rttvar_us.into()),
        rtt_min: Micros(raw.rtt_min_us.into()),
        rtt: Micros(raw.rtt_us.into()),
        segments_retransmitted: raw.total_retrans,
        lost: raw.lost,
        cwnd: raw.snd_cwnd,
        ssthresh: raw.snd_ssthresh,
        delivered: raw.delivered,
        delivered_ce: raw.delivered_ce,
        rate_delivered: raw.rate_delivered,
        rate_interval: Micros(raw.rate_interval_us.into()),
        mss: raw.mss,
        segments_out: raw.segs_out,
        segments_in: raw.segs_in,
        data_segments_out: raw.data_segs_out,
        data_segments_in: raw.data_segs_in,
        packets_out: raw.packets_out,
        timeouts: counts_timeouts.then_some(raw.total_rto),
    }
}

/// Oldest first, out of the ring in which the kernel side keeps them.
fn stalls(raw: &abi::mpw_subflow) -> Vec<Stall> {
    let capacity = raw.stalls.len();
    let count = raw.stall_count as usize;
    let oldest = count.saturating_sub(capacity);
    (oldest..count)
        .map(|n| &raw.stalls[n % capacity])
        .map(|stall| Stall {
            from: Nanos(stall.from_ns),
            to: Nanos(stall.to_ns),
            unacked: stall.unacked != 0,
        })
        .collect()
}

fn nanos(value: u64) -> Option<Nanos> {
    (value != 0).then_some(Nanos(value))
}

fn address(raw: &abi::mpw_address) -> SocketAddr {
    unmapped(Ipv6Addr::from(raw.ip), raw.port)
}

fn owner(raw: &abi::mpw_owner) -> Option<Process> {
    (raw.pid != 0).then(|| Process { pid: raw.pid, comm: Name::from_kernel(raw.comm) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_no_record_is_an_error_with_a_reason() {
        assert_eq!(record(&[]), Err(DecodeError::NoKind(0)));
        assert_eq!(record(&[9, 0, 0, 0]), Err(DecodeError::UnknownKind(9)));
        let short = record(&abi::MPW_RECORD_CONNECTION.to_ne_bytes()).unwrap_err();
        assert_eq!(short, DecodeError::WrongLength { kind: 2, expected: CONNECTION_BYTES, got: 4 });
    }

    #[test]
    fn an_empty_record_knows_nothing() {
        let raw = abi::mpw_subflow { kind: abi::MPW_RECORD_SUBFLOW, ..Default::default() };
        let Ok(KernelEvent::Subflow(subflow)) = record(bytemuck::bytes_of(&raw)) else {
            panic!("no subflow")
        };
        assert_eq!(
            (subflow.msk, subflow.created, subflow.interface, subflow.owner),
            (None, None, None, None)
        );
        assert_eq!(subflow.tcp.timeouts, None);
        assert!(subflow.stalls.is_empty());
    }

    #[test]
    fn stalls_come_out_in_order_after_the_ring_wrapped() {
        let mut raw = abi::mpw_subflow { stall_count: 6, ..Default::default() };
        for n in 2..6_u32 {
            raw.stalls[n as usize % 4].from_ns = n.into();
        }
        let order: Vec<u64> = stalls(&raw).iter().map(|stall| stall.from.0).collect();
        assert_eq!(order, [2, 3, 4, 5]);
    }

    #[test]
    fn samples_are_the_points_that_are_set_on_the_boot_clock() {
        let mut raw = abi::mpw_samples {
            kind: abi::MPW_RECORD_SAMPLES,
            cookie: 9,
            count: 1,
            boot_offset_ns: 500,
            ..Default::default()
        };
        raw.points[0] = abi::mpw_point { at_us: 3, rtt_us: 20, delivered: 7, lost: 1, cut: 1 };
        let sent = |raw: &abi::mpw_samples, points: usize| {
            let length = SAMPLES_HEAD + points * size_of::<abi::mpw_point>();
            record(&bytemuck::bytes_of(raw)[..length])
        };
        let Ok(KernelEvent::Samples(samples)) = sent(&raw, 1) else { panic!("no samples") };
        let point = DelaySample { at: Nanos(3_500), rtt: Micros(20), delivered: 7, lost: 1, cut: true };
        assert_eq!((samples.id.cookie, samples.samples), (SocketCookie(9), vec![point]));
        assert!(sent(&raw, 0).is_err() && sent(&raw, 2).is_err(), "it has one point");
        assert!(record(&bytemuck::bytes_of(&raw)[..SAMPLES_HEAD - 1]).is_err());
        for count in [abi::MPW_POINTS + 1, u32::MAX] {
            raw.count = count;
            assert!(sent(&raw, 32).is_err(), "{count} points");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_decode_or_fail_but_never_panic(mut bytes in proptest::collection::vec(any::<u8>(), 0..SUBFLOW_BYTES + 8), kind in 0u8..7, exact in any::<bool>()) {
            if let Some(first) = bytes.first_chunk_mut::<4>() {
                *first = u32::from(kind).to_ne_bytes();
            }
            let expected = length(&bytes);
            let is_known = bytes.len() >= 4 && (1..=5).contains(&kind);
            // Of samples, how long they are stands behind their kind.
            let is_right = if kind == 5 { is_known || expected.is_none() } else { expected.is_some() == is_known };
            prop_assert!(is_right, "{:?} of kind {}", expected, kind);
            if let (true, Some(expected)) = (exact, expected) {
                bytes.resize(expected, 0xa5);
            }
            prop_assert_eq!(record(&bytes).is_ok(), expected == Some(bytes.len()));
        }
    }
}
