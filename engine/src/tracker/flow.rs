// SPDX-License-Identifier: MIT OR Apache-2.0
//! The state of one connection, and how each record changes it.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;

use mpwatch_model::flow::observed::Observed;
use mpwatch_model::flow::subflow::DroppedSubflows;
use mpwatch_model::flow::timeline::TimelineEvent;
use mpwatch_model::host::machine::Losses;
use mpwatch_model::id::{ConnectionId, NetnsCookie, SocketCookie, SubflowId, Token};
use mpwatch_model::kernel::event::{ConnectionRecord, MskView, Process, SubflowRecord};
use mpwatch_model::kernel::lifecycle::TcpState;
use mpwatch_model::unit::{Bytes, Micros, Nanos};
use mpwatch_model::why::answer::Cause;
use serde::{Deserialize, Serialize};

use super::addresses::Addresses;
use super::close;
use super::cpu::ConnectionCpu;
use super::explanation::{self, Explained};
use super::observed::{Life, Observation, Totals};
use super::path::Interval;
use super::socket::{self, Socket};
use super::subflow::{self, SubflowState};
use super::timeline::Timeline;

/// A REMOVE_ADDR may arrive this long after the FIN or reset of the subflow that it removes.
const REMOVE_ADDR_DELAY: Nanos = Nanos(1_000_000_000);

/// Time since the last activity of a connection, as numbers of ticks and of charges.
#[derive(Clone, Copy, Default, Serialize, Deserialize)]
pub(super) struct Quiet {
    pub(super) ticks: u32,
    /// Number of charges of CPU time.
    pub(super) charges: u32,
}

/// One connection. An idle connection is stored serialized, without its timeline.
#[derive(Clone, Default, Serialize, Deserialize)]
pub(super) struct Flow {
    pub(super) serial: u64,
    pub(super) netns: NetnsCookie,
    pub(super) netns_inode: u32,
    token: Token,
    birth: SocketCookie,
    pub(super) msk: Option<MskView>,
    pub(super) opened: Option<Nanos>,
    pub(super) first_seen: Option<Nanos>,
    closed: Option<Nanos>,
    pub(super) owner: Option<Process>,
    addresses_of_socket: Option<(SocketAddr, SocketAddr)>,
    pub(super) cgroup: u64,
    /// The initial subflow first, then in the order of their first records.
    pub(super) subflows: Vec<SubflowState>,
    pub(super) dropped: Option<Box<DroppedSubflows>>,
    pub(super) dropped_ids: VecDeque<SubflowId>,
    #[serde(skip)]
    pub(super) timeline: Timeline,
    observation: Observation,
    cpu: ConnectionCpu,
    pub(super) socket: Socket,
    pub(super) quiet: Quiet,
    /// Number of consecutive ticks at which the connection was complete.
    pub(super) complete_ticks: u32,
    /// End of the last stall on the timeline.
    pub(super) stalls_until: Nanos,
    addresses: Addresses,
    pub(super) fell_back: bool,
    pub(super) explained: Explained,
    /// Start of the current outage. `None`: there is no outage.
    pub(super) outage_since: Option<Nanos>,
    /// Time of the last tick at which progress was evaluated.
    pub(super) evaluated_at: Nanos,
    /// The longest retransmission timeout of the subflows at the last evaluation. `None`: no RTT was known.
    pub(super) timeout: Option<Micros>,
    /// Time of the last tick at which no data waited for a path, and of the last tick at which the peer's window was closed.
    pub(super) calm_at: Nanos,
    pub(super) limited_at: Nanos,
    /// Times of the last tick before the peer's window closed, and of the first tick at which it was open again (until then: the maximum).
    pub(super) limited_since: Nanos,
    pub(super) limited_until: Nanos,
    /// Payload acknowledged on all subflows together, at the last tick.
    pub(super) acked: Bytes,
    /// Payload with a DATA_ACK (`None`: not counted by the kernel), and time of the last tick at which it grew or no DATA_ACK was missing.
    pub(super) delivered: Option<Bytes>,
    pub(super) delivered_at: Nanos,
}

impl Flow {
    pub(super) fn new(serial: u64, netns: NetnsCookie, netns_inode: u32) -> Self {
        Self { serial, netns, netns_inode, ..Self::default() }
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

    /// When the MPTCP socket closed or, for plain TCP and for a socket without records, when the last subflow closed.
    pub(super) fn closed_at(&self) -> Option<Nanos> {
        if self.socket.is_known {
            return self.closed;
        }
        let ends: Option<Vec<Nanos>> =
            self.subflows.iter().map(|subflow| subflow.end.map(|(at, _)| at)).collect();
        ends?.into_iter().max()
    }

    /// Whether all final records have arrived. They arrive in any order, so the final record of the MPTCP socket may be its only record.
    fn is_complete(&self) -> bool {
        let is_tcp = self.msk.is_none();
        let socket_done = is_tcp || self.socket.is_final || self.socket.is_gone();
        // The MPTCP socket of a refused or closed connection ends before its subflow, whose final record follows.
        let has_subflow = !self.subflows.is_empty() || self.socket.is_gone();
        let subflows_done = has_subflow && self.subflows.iter().all(SubflowState::is_final);
        socket_done && self.closed_at().is_some() && subflows_done
    }

    /// Whether the connection is reported. Reporting begins when its socket has connected.
    pub(super) fn is_reportable(&self) -> bool {
        self.first_seen.is_some()
    }

    /// Whether it needs an explanation and was not asked about.
    pub(super) fn needs_explanation(&self, now: Nanos) -> bool {
        let is_established = self.msk.as_ref().is_some_and(|msk| msk.state == TcpState::Established);
        if self.explained.was_asked(self.fell_back) || !is_established || !self.is_reportable() {
            return false;
        }
        let is_quiet = self.quiet.ticks > 1 && !self.is_waiting();
        let is_due = is_quiet || now.since(self.began(now)) >= explanation::AGE;
        let subflows = || self.subflows.iter().map(|subflow| &subflow.record);
        is_due
            && !subflows().any(explanation::is_joining)
            && subflows().any(explanation::has_carried_data)
            && self.lacks_path()
    }

    /// Whether no second path ever joined, or the connection fell back for a known reason.
    fn lacks_path(&self) -> bool {
        let mut subflows = self.subflows.iter().map(|subflow| &subflow.record);
        if self.fell_back {
            return subflows.next().is_some_and(explanation::fell_back_for_known_reason);
        }
        !subflows.any(explanation::has_joined)
    }

    /// Why it has one path or fell back. `None`: it was not found out, or a second path joined since.
    pub(super) fn cause(&self) -> Option<&Arc<Cause>> {
        self.explained.answer(self.fell_back).filter(|_| self.lacks_path())
    }

    /// Local and remote address of the initial subflow.
    pub(super) fn addresses(&self) -> Option<(SocketAddr, SocketAddr)> {
        let initial = self.subflows.iter().find(|subflow| subflow.is_initial());
        initial.map(|subflow| (subflow.record.local, subflow.record.remote)).or(self.addresses_of_socket)
    }

    pub(super) fn on_connection(&mut self, record: &ConnectionRecord) {
        self.quiet = Quiet::default();
        self.socket.seen.note();
        self.owner = record.owner.or(self.owner);
        self.addresses_of_socket = record.addresses.or(self.addresses_of_socket);
        self.cpu.total = subflow::larger(self.cpu.total, record.cpu);
        if record.cgroup != 0 {
            self.cgroup = record.cgroup;
        }
        if !self.socket.is_known {
            self.socket.is_known = true;
            self.opened = record.opened;
            self.open_at(record.opened, record.first_seen);
        }
        self.apply_msk(&record.msk, record.at, None);
        if record.last && !self.socket.is_final {
            self.socket.is_final = true;
            self.closed = record.closed.or(Some(record.at));
            self.timeline.traced(record.closed.unwrap_or(record.at), TimelineEvent::Closed);
            (0..self.subflows.len()).for_each(|index| self.note_end(index));
        }
        self.note_fallback(record.at);
    }

    /// `now`: time of the last tick, for changes that show only in sampled records.
    pub(super) fn on_subflow(&mut self, record: &SubflowRecord, now: Nanos) {
        self.quiet = Quiet::default();
        if record.cgroup != 0 {
            self.cgroup = record.cgroup;
        }
        match &record.msk {
            Some(msk) => self.apply_msk(msk, record.at, Some(record.id)),
            None => self.apply_tcp(record),
        }
        if self.first_seen.is_none() {
            self.open_at(None, record.first_seen);
        }
        let index = self.subflows.iter().position(|subflow| subflow.record.id == record.id);
        let index = index.unwrap_or_else(|| self.add_subflow(record));
        let at = record.at.max(now);
        let subflow = &mut self.subflows[index];
        let old = &subflow.record;
        if !old.last && old.backup != record.backup && record.closed.is_none() {
            let event = TimelineEvent::PriorityChanged { subflow: record.id, backup: record.backup };
            self.timeline.sampled(at, event);
        }
        let was_established = subflow.record.established.is_some();
        subflow.update(record);
        if let (false, Some(at)) = (was_established, record.established) {
            self.timeline.traced(at, TimelineEvent::SubflowEstablished { subflow: record.id });
        }
        self.note_fallback(at);
        self.note_end(index);
    }

    /// Adds a fallback to the timeline once the initial subflow is answered: its record shows the reason. The kernel marks the fallback
    /// already in SYN_SENT if it omits MP_CAPABLE after unanswered SYNs.
    fn note_fallback(&mut self, at: Nanos) {
        let fallback = self.msk.as_ref().is_some_and(|msk| msk.fallback);
        let is_answered =
            |record: &&SubflowRecord| record.state != TcpState::SynSent && !record.end.never_established;
        let initial = self.subflows.first().map(|subflow| &subflow.record).filter(is_answered);
        if let (true, false, Some(initial)) = (fallback, self.fell_back, initial) {
            self.fell_back = true;
            self.timeline.fell_back(initial, at);
        }
    }

    /// Adds the end of a subflow to the timeline, or corrects its reason.
    fn note_end(&mut self, index: usize) {
        let subflow = &mut self.subflows[index];
        if subflow.note_end(self.closed) {
            self.report_end(index);
        } else if let (Some((_, reason)), id) = (subflow.end, subflow.record.id) {
            self.timeline.correct_reason(id, reason);
        }
    }

    fn report_end(&mut self, index: usize) {
        let subflow = &self.subflows[index];
        if let Some((at, reason)) = subflow.end {
            self.timeline.traced(at, TimelineEvent::SubflowClosed { subflow: subflow.record.id, reason });
            if self.msk.is_none() {
                self.timeline.traced(at, TimelineEvent::Closed);
            }
        }
    }

    /// Notes that the last record of a subflow is still current. `None`: the last record of the MPTCP socket.
    pub(super) fn on_unchanged(&mut self, subflow: Option<SubflowId>) {
        let Some(id) = subflow else {
            self.socket.seen.note();
            return;
        };
        if let Some(subflow) = self.subflows.iter_mut().find(|subflow| subflow.record.id == id) {
            subflow.seen.note();
        }
    }

    pub(super) fn on_tick(&mut self, ticks: Interval<'_>, lost: &mut Losses) {
        let (now, interval) = (ticks.now, ticks.suspensions.awake(ticks.previous, ticks.now));
        self.cpu.divide(&mut self.subflows, self.opened.is_some());
        let waits = self.msk.as_ref().is_some_and(socket::waits_for_window);
        let closed = self.closed_at();
        for index in 0..self.subflows.len() {
            let had_ended = self.subflows[index].end.is_some();
            if self.subflows[index].on_tick(now, interval, waits, closed) {
                lost.vanished += 1;
                if !had_ended {
                    self.report_end(index);
                }
            }
        }
        lost.vanished += u64::from(self.end_tick_of_socket(now));
        self.report_stalls(ticks.suspensions);
        self.evaluate_progress(ticks);
        lost.timeline_dropped += self.timeline.take_dropped();
        if let Some(totals) = self.totals() {
            let life = self.life(now);
            self.observation.on_tick(totals, life, now, interval);
        }
        self.complete_ticks = if self.is_complete() { self.complete_ticks + 1 } else { 0 };
        self.quiet.ticks += 1;
        self.assign_places();
    }

    fn end_tick_of_socket(&mut self, now: Nanos) -> bool {
        let vanished = self.socket.on_tick(now);
        if vanished && self.closed.is_none() {
            self.closed = Some(now);
            self.timeline.sampled(now, TimelineEvent::Closed);
        }
        vanished
    }

    /// Bytes that the connection has carried in both directions. `None`: its payload is unknown.
    fn totals(&self) -> Option<Totals> {
        let (sent, received) = self.bytes()?;
        let dropped = self.dropped.iter().map(|dropped| dropped.observed.wire_bytes_estimate);
        let wire = self.subflows.iter().map(SubflowState::wire_bytes).chain(dropped).sum();
        let counted = self.msk.as_ref().and_then(|msk| msk.bytes).map(|bytes| bytes.acked);
        let acked = counted.or_else(|| self.only_subflow().map(|tcp| tcp.record.tcp.bytes_acked));
        let in_flight = sent.since(acked.unwrap_or(sent));
        Some(Totals { payload: sent + received, sent, in_flight, wire })
    }

    fn life(&self, now: Nanos) -> Life {
        let from = self.began(now);
        Life { from, to: self.closed_at().unwrap_or(now), seen_open: self.opened.is_some() }
    }

    /// When the connection was opened or, if the opening was not traced, when it was first observed.
    pub(super) fn began(&self, now: Nanos) -> Nanos {
        self.opened.or(self.first_seen).unwrap_or(now)
    }

    /// Payload and time that were observed until `now`. `None`: the payload is unknown.
    pub(super) fn observed(&self, now: Nanos) -> Option<Observed> {
        Some(self.observation.so_far(self.totals()?, self.life(now)))
    }

    fn open_at(&mut self, opened: Option<Nanos>, first_seen: Nanos) {
        let first = self.first_seen.is_none();
        self.first_seen.get_or_insert(first_seen);
        match opened {
            Some(at) => self.timeline.opened(at),
            None if first && self.subflows.is_empty() => {
                self.timeline.sampled(first_seen, TimelineEvent::Adopted);
            }
            None => {}
        }
    }

    fn apply_tcp(&mut self, record: &SubflowRecord) {
        if self.first_seen.is_none() {
            self.opened = record.created.filter(|_| record.seen_open);
            self.open_at(self.opened, record.first_seen);
        }
        self.birth = socket::birth_of_tcp(record.id);
        self.owner = record.owner.or(self.owner);
    }

    fn apply_msk(&mut self, msk: &MskView, at: Nanos, subflow: Option<SubflowId>) {
        let merged = socket::merge(self.msk.as_ref(), msk, self.socket.is_final);
        // A reported id must not change, but unknown parts of it may be filled in.
        if self.token.0 == 0 {
            self.token = merged.token;
        }
        if self.birth.0 == 0 {
            self.birth = socket::birth(&merged, subflow);
        }
        if let Some(since) = self.addresses.update(self.msk.as_ref(), &merged, at, &mut self.timeline) {
            self.explain_ends(&merged.removed_ids, since);
        }
        self.msk = Some(merged);
    }

    /// Corrects close reasons after a REMOVE_ADDR, which may arrive after the FIN or reset. `since`: previous reading of the MPTCP socket.
    fn explain_ends(&mut self, removed_ids: &[u8], since: Nanos) {
        for index in 0..self.subflows.len() {
            let subflow = &mut self.subflows[index];
            let is_recent = subflow.end.is_some_and(|(at, _)| at + REMOVE_ADDR_DELAY >= since);
            let end = &mut subflow.record.end;
            let is_by_peer = end.fin_received_first || end.reset_received;
            if is_recent && is_by_peer && removed_ids.contains(&subflow.record.remote_id) {
                end.removed_by_peer = true;
                self.note_end(index);
            }
        }
    }

    fn add_subflow(&mut self, record: &SubflowRecord) -> usize {
        let mut subflow = SubflowState::new(record);
        // With these values, the update with the first record adds everything in this record to the timeline.
        subflow.record.established = None;
        subflow.record.last = false;
        let index = if subflow.is_initial() { 0 } else { self.subflows.len() };
        self.subflows.insert(index, subflow);
        if let Some(at) = record.created.filter(|_| !close::is_unsent(record)) {
            self.timeline.traced(at, TimelineEvent::SubflowOpened { subflow: record.id });
        }
        index
    }
}
