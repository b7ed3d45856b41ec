// SPDX-License-Identifier: MIT OR Apache-2.0
//! Synthetic events.

use mpwatch_model::host::energy::power::MachinePower;
use mpwatch_model::host::machine::Host;
use mpwatch_model::id::{NetnsCookie, SocketCookie, SubflowId, Token};
use mpwatch_model::kernel::cpu::LedgerMode;
use mpwatch_model::kernel::event::{
    ConnectionRecord, EndFlags, KernelEvent, MskBytes, MskView, Start, SubflowRecord, TcpCounters, Tick,
    Traces, Waiting,
};
use mpwatch_model::kernel::histogram::RttHistogram;
use mpwatch_model::kernel::lifecycle::TcpState;
use mpwatch_model::snapshot::Snapshot;
use mpwatch_model::unit::{Bytes, Micros, Nanos};

use crate::tracker::{Closed, Tracker};

pub(super) const SECOND: u64 = 1_000_000_000;

pub(super) fn tracker(closed: Closed) -> Tracker {
    tracker_with(closed, Traces::ALL)
}

pub(super) fn tracker_with(closed: Closed, traces: Traces) -> Tracker {
    let machine = Some(MachinePower { cpus: 2, calibrated: Vec::new() });
    Tracker::new(
        Start {
            setup: std::sync::Arc::default(),
            host: Host::default(),
            boot_epoch_ns: 0,
            at: Nanos(SECOND),
            traces,
            backoff: true,
            ledger: LedgerMode::Exact,
            machine,
        },
        closed,
    )
}

pub(super) fn msk(sent: u64) -> MskView {
    MskView {
        cookie: SocketCookie(7),
        token: Token(0xabcd),
        remote_token: Token(0x1234),
        state: TcpState::Established,
        server_side: false,
        fallback: false,
        bytes: Some(MskBytes {
            sent: Bytes(sent),
            received: Bytes(0),
            acked: Bytes(sent),
            retransmitted: Some(Bytes(0)),
        }),
        bytes_are_apart: false,
        unsent: Bytes(0),
        unacked: Bytes(0),
        window: None,
        addresses_announced: 0,
        addresses_accepted: 0,
        announced: None,
        removed_ids: Vec::new(),
    }
}

pub(super) fn connection(at: u64, sent: u64) -> ConnectionRecord {
    ConnectionRecord {
        at: Nanos(at),
        netns: NetnsCookie(1),
        netns_inode: 2,
        cgroup: 0,
        opened: Some(Nanos(SECOND)),
        first_seen: Nanos(SECOND),
        closed: None,
        msk: msk(sent),
        cpu: None,
        owner: None,
        last: false,
        addresses: None,
    }
}

pub(super) fn subflow(cookie: u64, at: u64, sent: u64) -> SubflowRecord {
    SubflowRecord {
        at: Nanos(at),
        id: SubflowId { cookie: SocketCookie(cookie), generation: 0 },
        netns: NetnsCookie(1),
        netns_inode: 2,
        cgroup: 0,
        msk: Some(msk(sent)),
        created: Some(Nanos(SECOND)),
        established: Some(Nanos(SECOND + 1_000_000)),
        first_seen: Nanos(SECOND),
        closed: None,
        handshake: Some(Micros(1_000)),
        joined_bytes: Some(Bytes(0)),
        syn_bytes: Bytes(0),
        work: 0,
        window_work: 0,
        effective: None,
        considered: 0,
        picked: 0,
        progress: None,
        unacked: false,
        waiting: Waiting::default(),
        stalls: Vec::new(),
        retransmits_fast: 0,
        retransmits_timeout: 0,
        retransmits_probe: 0,
        cpu: None,
        tcp: TcpCounters { bytes_sent: Bytes(sent), bytes_acked: Bytes(sent), ..TcpCounters::default() },
        local: "10.0.0.1:1000".parse().unwrap(),
        remote: "10.0.0.2:80".parse().unwrap(),
        local_id: 0,
        remote_id: 0,
        interface: None,
        incoming_interface: None,
        congestion: None,
        owner: None,
        state: TcpState::Established,
        error: 0,
        reset_reason: 0,
        tcp_header: 32,
        seen_open: true,
        mp_capable: true,
        mp_join: false,
        asked_mptcp: true,
        option_omitted: false,
        passive: false,
        backup: false,
        stale: false,
        last: false,
        end: EndFlags::default(),
        rtts: RttHistogram::default(),
    }
}

pub(super) fn closed_connection(at: u64, sent: u64) -> KernelEvent {
    let mut record = connection(at, sent);
    (record.closed, record.last, record.msk.state) = (Some(Nanos(at)), true, TcpState::Close);
    KernelEvent::Connection(record)
}

pub(super) fn closed_subflow(cookie: u64, at: u64, sent: u64) -> KernelEvent {
    let mut record = subflow(cookie, at, sent);
    (record.closed, record.last, record.state) = (Some(Nanos(at)), true, TcpState::Close);
    record.end.fin_sent_first = true;
    KernelEvent::Subflow(record)
}

pub(super) fn tick(tracker: &mut Tracker, at: u64) -> Snapshot {
    tracker.apply(&KernelEvent::Tick(Tick { at: Nanos(at), ..Tick::default() }));
    tracker.end_tick()
}
