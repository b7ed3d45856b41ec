// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is remembered of one connection, and how each record changes it.

mod cost;
mod story;

use std::collections::BTreeSet;

use mpwatch_model::cpu::CpuTimes;
use mpwatch_model::event::{ConnectionRecord, MskBytes, MskView, Process, SubflowRecord};
use mpwatch_model::id::{ConnectionId, NetnsCookie, SocketCookie, SubflowId, Token};
use mpwatch_model::timeline::{ObservedBy, TimelineEvent};
use mpwatch_model::unit::{BitsPerSecond, Bytes, Nanos};

use crate::bottleneck::Detector;

use super::subflow::{self, SubflowState, VANISHED_AFTER};

/// An entry of the timeline, on the kernel's clock.
pub(super) struct Entry {
    pub(super) at: Nanos,
    pub(super) source: ObservedBy,
    pub(super) event: TimelineEvent,
}

/// What a tick found out.
#[derive(Default)]
pub(super) struct TickOutcome {
    pub(super) vanished: u64,
    pub(super) timeline_dropped: u64,
}

/// What has come of the MPTCP socket itself, as opposed to its subflows.
#[derive(Default)]
struct Socket {
    seen: bool,
    is_final: bool,
    heard_this_tick: bool,
    silent_ticks: u32,
}

pub(super) struct Flow {
    serial: u64,
    pub(super) netns: NetnsCookie,
    pub(super) netns_inode: u32,
    token: Token,
    birth: SocketCookie,
    pub(super) msk: Option<MskView>,
    pub(super) opened: Option<Nanos>,
    pub(super) first_seen: Option<Nanos>,
    closed: Option<Nanos>,
    pub(super) owner: Option<Process>,
    pub(super) cgroup: u64,
    pub(super) subflows: Vec<SubflowState>,
    pub(super) timeline: Vec<Entry>,
    timeline_dropped: u64,
    pub(super) send: BitsPerSecond,
    pub(super) receive: BitsPerSecond,
    bytes_at_last_tick: Option<(Bytes, Bytes)>,
    /// CPU time spent on the connection and no subflow in particular, and the part of it that the subflows have got.
    cpu: Option<CpuTimes>,
    cpu_divided: CpuTimes,
    socket: Socket,
    complete_ticks: u32,
    stalls_told_to: Nanos,
    announced_ids: BTreeSet<u8>,
    removed_ids: BTreeSet<u8>,
    addresses_announced: u8,
    /// When the MPTCP socket was last looked at.
    looked: Nanos,
    pub(super) fell_back: bool,
    /// `None`: no samples came.
    pub(super) detector: Option<Box<Detector>>,
}

impl Flow {
    pub(super) fn new(serial: u64, netns: NetnsCookie, netns_inode: u32) -> Self {
        Self {
            serial,
            netns,
            netns_inode,
            token: Token(0),
            birth: SocketCookie(0),
            msk: None,
            opened: None,
            first_seen: None,
            closed: None,
            owner: None,
            cgroup: 0,
            subflows: Vec::new(),
            timeline: Vec::new(),
            timeline_dropped: 0,
            send: BitsPerSecond(0),
            receive: BitsPerSecond(0),
            bytes_at_last_tick: None,
            cpu: None,
            cpu_divided: CpuTimes::default(),
            socket: Socket { heard_this_tick: true, ..Socket::default() },
            complete_ticks: 0,
            stalls_told_to: Nanos(0),
            announced_ids: BTreeSet::new(),
            removed_ids: BTreeSet::new(),
            addresses_announced: 0,
            looked: Nanos(0),
            fell_back: false,
            detector: None,
        }
    }

    pub(super) fn serial(&self) -> u64 {
        self.serial
    }

    pub(super) fn id(&self) -> ConnectionId {
        ConnectionId { netns: self.netns, token: self.token, birth: self.birth }
    }

    /// Cookie of the MPTCP socket; zero for plain TCP.
    pub(super) fn msk_cookie(&self) -> SocketCookie {
        self.msk.as_ref().map_or(SocketCookie(0), |msk| msk.cookie)
    }

    pub(super) fn subflow_ids(&self) -> impl Iterator<Item = SubflowId> + '_ {
        self.subflows.iter().map(|subflow| subflow.record.id)
    }

    /// When the connection closed: its own socket, or else (plain TCP, or a socket that was never seen) its last subflow.
    pub(super) fn closed_at(&self) -> Option<Nanos> {
        if self.socket.seen {
            return self.closed;
        }
        let ends: Option<Vec<Nanos>> =
            self.subflows.iter().map(|subflow| subflow.end.map(|(at, _)| at)).collect();
        ends?.into_iter().max()
    }

    /// Nothing more will come: every final counter is in. The records of a connection and of its subflows come in any order,
    /// so the one of an MPTCP socket is waited for even if nothing of that socket was seen yet.
    fn is_complete(&self) -> bool {
        let is_tcp = self.msk.is_none();
        let socket_done = is_tcp || self.socket.is_final || self.socket.silent_ticks >= VANISHED_AFTER;
        // A connection is refused, or closes, before its subflow does: that one's finals are still to come.
        let has_subflow = !self.subflows.is_empty() || self.socket.silent_ticks >= VANISHED_AFTER;
        let subflows_done = has_subflow && self.subflows.iter().all(SubflowState::is_final);
        socket_done && self.closed_at().is_some() && subflows_done
    }

    /// Complete for a whole interval: one more subflow's final may come a tick later than all that was known before it.
    pub(super) fn is_forgettable(&self) -> bool {
        self.complete_ticks >= 2
    }

    /// Complete for so long that what is still missing will not come.
    pub(super) fn is_long_complete(&self) -> bool {
        self.complete_ticks >= VANISHED_AFTER
    }

    /// A socket that is still about to connect has nothing to show.
    pub(super) fn is_presentable(&self) -> bool {
        self.first_seen.is_some()
    }

    /// Payload of the connection, each byte once, in and out. Where nobody counts it for the connection (plain TCP, or fallen
    /// back on a kernel without such counters), its one subflow's is all there is. `None`: nothing is known yet.
    pub(super) fn bytes(&self) -> Option<(Bytes, Bytes)> {
        let counted = self.msk.as_ref().and_then(|msk| msk.bytes);
        counted.map(|bytes| (bytes.sent, bytes.received)).or_else(|| {
            let tcp = self.only_subflow()?;
            Some((tcp.unique_sent(), tcp.record.tcp.bytes_received.since(tcp.fin_received())))
        })
    }

    /// The subflow that carries everything, where it is known that there can be no other.
    pub(super) fn only_subflow(&self) -> Option<&SubflowState> {
        self.subflows.first().filter(|_| self.msk.is_none() || self.fell_back)
    }

    pub(super) fn on_connection(&mut self, record: &ConnectionRecord) {
        self.socket.heard_this_tick = true;
        self.owner = record.owner.or(self.owner);
        self.cpu = subflow::larger(self.cpu, record.cpu);
        if record.cgroup != 0 {
            self.cgroup = record.cgroup;
        }
        if !self.socket.seen {
            self.socket.seen = true;
            self.opened = record.opened;
            self.open_at(record.opened, record.first_seen);
        }
        self.take_msk(&record.msk, record.at);
        if record.last && !self.socket.is_final {
            self.socket.is_final = true;
            self.closed = record.closed.or(Some(record.at));
            self.tell(record.closed.unwrap_or(record.at), ObservedBy::Tracepoint, TimelineEvent::Closed);
        }
    }

    /// `now`: time of the last tick, for what shows only by comparing samples.
    pub(super) fn on_subflow(&mut self, record: &SubflowRecord, now: Nanos) {
        if record.cgroup != 0 {
            self.cgroup = record.cgroup;
        }
        match &record.msk {
            Some(msk) => self.take_msk(msk, record.at),
            None => self.take_tcp(record),
        }
        if self.first_seen.is_none() {
            self.open_at(None, record.first_seen);
        }
        let place = self.subflows.iter().position(|subflow| subflow.record.id == record.id);
        let place = place.unwrap_or_else(|| self.add_subflow(record));
        self.compare(place, record, now);
        let subflow = &mut self.subflows[place];
        let was_established = subflow.record.established.is_some();
        subflow.update(record);
        if let (false, Some(at)) = (was_established, record.established) {
            self.tell(at, ObservedBy::Tracepoint, TimelineEvent::SubflowEstablished { subflow: record.id });
        }
        self.note_end(place);
    }

    /// A subflow, or else the connection's own socket, is still as its last record says.
    pub(super) fn on_unchanged(&mut self, subflow: Option<SubflowId>) {
        let Some(id) = subflow else {
            self.socket.heard_this_tick = true;
            return;
        };
        if let Some(subflow) = self.subflows.iter_mut().find(|subflow| subflow.record.id == id) {
            subflow.on_unchanged();
        }
    }

    pub(super) fn on_tick(&mut self, now: Nanos, interval: Nanos) -> TickOutcome {
        let mut outcome = TickOutcome {
            timeline_dropped: std::mem::take(&mut self.timeline_dropped),
            ..TickOutcome::default()
        };
        self.divide_cpu();
        for place in 0..self.subflows.len() {
            let known = self.subflows[place].end.is_some();
            if self.subflows[place].on_tick(interval) {
                outcome.vanished += 1;
                if !known {
                    self.tell_end(place);
                }
            }
        }
        outcome.vanished += u64::from(self.socket_vanished(now));
        self.tell_stalls();
        self.update_rates(interval);
        self.complete_ticks = if self.is_complete() { self.complete_ticks + 1 } else { 0 };
        outcome
    }

    fn socket_vanished(&mut self, now: Nanos) -> bool {
        self.socket.silent_ticks = if self.socket.heard_this_tick { 0 } else { self.socket.silent_ticks + 1 };
        self.socket.heard_this_tick = false;
        let vanished =
            self.socket.seen && !self.socket.is_final && self.socket.silent_ticks == VANISHED_AFTER;
        if vanished && self.closed.is_none() {
            self.closed = Some(now);
            self.tell(now, ObservedBy::Sampled, TimelineEvent::Closed);
        }
        vanished
    }

    fn update_rates(&mut self, interval: Nanos) {
        let now = self.bytes();
        let seen_open = self.opened.is_some();
        if let (Some((sent, received)), Some((sent_before, received_before))) =
            (now, self.bytes_at_last_tick.or(seen_open.then_some((Bytes(0), Bytes(0)))))
        {
            self.send = sent.since(sent_before).per(interval);
            self.receive = received.since(received_before).per(interval);
        }
        self.bytes_at_last_tick = now.or(self.bytes_at_last_tick);
    }

    fn open_at(&mut self, opened: Option<Nanos>, first_seen: Nanos) {
        let first = self.first_seen.is_none();
        self.first_seen.get_or_insert(first_seen);
        match opened {
            Some(at) => self.tell(at, ObservedBy::Tracepoint, TimelineEvent::Opened),
            None if first && self.subflows.is_empty() => {
                self.tell(first_seen, ObservedBy::Sampled, TimelineEvent::Adopted);
            }
            None => {}
        }
        if opened.is_some() {
            self.timeline.retain(|entry| entry.event != TimelineEvent::Adopted);
        }
    }

    fn take_tcp(&mut self, record: &SubflowRecord) {
        if self.first_seen.is_none() {
            self.opened = record.created.filter(|_| record.seen_open);
            self.open_at(self.opened, record.first_seen);
        }
        self.birth = record.id.cookie;
        self.owner = record.owner.or(self.owner);
    }

    /// The newest view of the MPTCP socket. Its byte counters only grow: a socket that is being torn down reads as zero.
    fn take_msk(&mut self, msk: &MskView, at: Nanos) {
        let mut merged = msk.clone();
        if let Some(old) = &self.msk {
            merged.cookie = if msk.cookie.0 == 0 { old.cookie } else { msk.cookie };
            merged.token = if msk.token.0 == 0 { old.token } else { msk.token };
            merged.remote_token = if msk.remote_token.0 == 0 { old.remote_token } else { msk.remote_token };
            merged.server_side |= old.server_side;
            merged.fallback |= old.fallback;
            merged.bytes = larger(old.bytes, msk.bytes);
            if self.socket.is_final {
                merged.state = old.state;
            }
        }
        // An id that was shown must not change; a part of it that was not known yet may be filled in.
        if self.token.0 == 0 {
            self.token = merged.token;
        }
        if self.birth.0 == 0 {
            self.birth = merged.cookie;
        }
        self.tell_addresses(&merged, at);
        self.msk = Some(merged);
    }

    fn add_subflow(&mut self, record: &SubflowRecord) -> usize {
        let mut subflow = SubflowState::new(record);
        // What an update compares with: nothing has been told of it yet.
        subflow.record.established = None;
        subflow.record.stale = false;
        subflow.record.last = false;
        self.subflows.push(subflow);
        let id = record.id;
        if let Some(at) = record.created {
            self.tell(at, ObservedBy::Tracepoint, TimelineEvent::SubflowOpened { subflow: id });
        }
        self.subflows.len() - 1
    }
}

fn larger(old: Option<MskBytes>, new: Option<MskBytes>) -> Option<MskBytes> {
    let (Some(old), Some(new)) = (old, new) else { return new.or(old) };
    Some(MskBytes {
        sent: old.sent.max(new.sent),
        received: old.received.max(new.received),
        acked: old.acked.max(new.acked),
        retransmitted: old.retransmitted.max(new.retransmitted),
    })
}
