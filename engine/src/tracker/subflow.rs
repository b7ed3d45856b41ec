// SPDX-License-Identifier: MIT OR Apache-2.0
//! The state of one subflow: its latest record, its counters at the last tick, and how it ended.

use mpwatch_model::flow::observed::Observed;
use mpwatch_model::id::SubflowId;
use mpwatch_model::kernel::busy::BusyTimes;
use mpwatch_model::kernel::cpu::{CpuTimes, LedgerMode};
use mpwatch_model::kernel::event::SubflowRecord;
use mpwatch_model::kernel::lifecycle::CloseReason;
use mpwatch_model::unit::{BitsPerSecond, Bytes, Nanos};
use serde::{Deserialize, Serialize};

use super::close;
use super::observed::{Life, Observation, Totals};
use super::path::{self, PathState};
use super::seen::Seen;
use super::wire;
use crate::energy::unit_cost::{FlowEstimate, FlowSample};

#[derive(Clone, Serialize, Deserialize)]
pub(super) struct SubflowState {
    pub(super) record: SubflowRecord,
    /// Bytes sent and received at the last tick. `None`: the opening was not traced and no tick has ended, so there is no rate.
    at_last_tick: Option<(Bytes, Bytes)>,
    pub(super) send: Option<BitsPerSecond>,
    pub(super) receive: Option<BitsPerSecond>,
    observation: Observation,
    pub(super) end: Option<(Nanos, CloseReason)>,
    /// Counters at the first tick of a subflow whose opening was not traced: they belong to payload that was not observed.
    before: FlowSample,
    /// The kernel's clocks when a subflow whose opening was not traced was first observed: this time does not count.
    busy_before: BusyTimes,
    /// The kernel's clocks at the last tick, and the same with the times in which the connection's receive window was closed.
    clocks: BusyTimes,
    busy_at_tick: BusyTimes,
    /// The connection has closed: what its subflows still wait for does not count.
    is_busy_final: bool,
    /// The subflow's part of the CPU time spent on the connection but on no particular subflow.
    pub(super) cpu_share: CpuTimes,
    /// Estimated CPU time, if the ledger is sampled.
    pub(super) estimate: FlowEstimate,
    /// The CPU time for which energy was charged.
    cpu_charged: Nanos,
    pub(super) seen: Seen,
    pub(super) path: PathState,
    /// Number in the order of creation, from 1 (the initial subflow), assigned at the first tick. 0: no number yet.
    pub(super) place: u32,
}

impl SubflowState {
    pub(super) fn new(record: &SubflowRecord) -> Self {
        Self {
            record: record.clone(),
            at_last_tick: record.seen_open.then_some((Bytes(0), Bytes(0))),
            send: None,
            receive: None,
            observation: Observation::default(),
            end: None,
            before: FlowSample::default(),
            busy_before: busy_until(record, record.at).filter(|_| !record.seen_open).unwrap_or_default(),
            clocks: BusyTimes::default(),
            busy_at_tick: BusyTimes::default(),
            is_busy_final: false,
            cpu_share: CpuTimes::default(),
            estimate: FlowEstimate::default(),
            cpu_charged: Nanos(0),
            seen: Seen::default(),
            path: PathState::default(),
            place: 0,
        }
    }

    /// The initial subflow first, then by creation.
    pub(super) fn order(&self) -> (bool, Nanos, SubflowId) {
        let record = &self.record;
        (record.mp_join, record.created.unwrap_or(record.first_seen), record.id)
    }

    /// Applies a newer record, unless the final record was applied before.
    pub(super) fn update(&mut self, record: &SubflowRecord) {
        if self.record.last {
            return;
        }
        let removed_by_peer = self.record.end.removed_by_peer;
        let cpu = self.record.cpu;
        self.record.clone_from(record);
        self.record.cpu = larger(cpu, record.cpu);
        self.record.end.removed_by_peer |= removed_by_peer;
        self.seen.note();
    }

    /// Derives the end from the record. `connection_closed`: when the connection closed. Returns whether the end is new.
    pub(super) fn note_end(&mut self, connection_closed: Option<Nanos>) -> bool {
        let Some(closed) = self.record.closed else { return false };
        let known = self.end.is_some();
        self.end = Some((closed, close::reason(&self.record, connection_closed)));
        !known
    }

    /// Whether the subflow is open and can carry data.
    pub(super) fn is_open_path(&self) -> bool {
        self.end.is_none() && path::carries_data(&self.record)
    }

    /// Whether the final counters have arrived, or will not arrive because the socket has vanished.
    pub(super) fn is_final(&self) -> bool {
        self.record.last || self.seen.has_vanished()
    }

    /// Ends a tick. `waits`: MPTCP data waits for the peer's receive window. `closed`: when the connection closed. Returns
    /// whether the subflow has just vanished without a final record.
    pub(super) fn on_tick(
        &mut self,
        now: Nanos,
        interval: Nanos,
        waits: bool,
        closed: Option<Nanos>,
    ) -> bool {
        let (bytes_sent, bytes_received) = (self.record.tcp.bytes_sent, self.received());
        if let Some((sent, received)) = self.at_last_tick.filter(|_| interval.0 > 0) {
            self.send = Some(bytes_sent.since(sent).per(interval));
            self.receive = Some(bytes_received.since(received).per(interval));
        }
        self.at_last_tick = Some((bytes_sent, bytes_received));
        if !self.observation.has_begun() && !self.record.seen_open {
            self.before = self.sample();
        }
        let (totals, life) = (self.totals(), self.life(now));
        self.observation.on_tick(totals, life, now, interval);
        let until = closed.unwrap_or(now);
        self.count_busy(until, interval.min(self.lifetime(until)), waits && self.is_open_path());
        // The final record of a subflow may arrive a tick after the close.
        self.is_busy_final |= closed.is_some_and(|at| at + interval <= now);
        let vanished = self.seen.on_tick(now) && !self.record.last;
        if vanished && self.end.is_none() {
            self.end = Some((self.record.at, CloseReason::Unknown));
        }
        vanished
    }

    /// CPU time spent on the subflow, with its part of the time spent on the connection. `None`: unknown.
    pub(super) fn cpu(&self, ledger: LedgerMode) -> Option<CpuTimes> {
        match ledger {
            LedgerMode::Off => None,
            LedgerMode::Exact => self.record.cpu.map(|_| self.sample().time),
            LedgerMode::Sampled => self.estimate.charged(),
        }
    }

    /// CPU time, work and payload since mpwatch first observed the subflow.
    pub(super) fn sample(&self) -> FlowSample {
        let all = FlowSample {
            time: self.record.cpu.unwrap_or_default() + self.cpu_share,
            work: self.record.work,
            sampled: self.record.window_work,
            bytes: self.carried().1,
        };
        all.since(&self.before)
    }

    /// CPU time since the last call.
    pub(super) fn take_new_cpu_time(&mut self, ledger: LedgerMode) -> u64 {
        let total = self.cpu(ledger).map_or(Nanos(0), |cpu| cpu.total());
        let new = total.since(self.cpu_charged);
        self.cpu_charged = self.cpu_charged.max(total);
        new.0
    }

    fn count_busy(&mut self, now: Nanos, interval: Nanos, waits: bool) {
        let Some(clocks) = self.clocks(now).filter(|_| !self.is_busy_final) else { return };
        let counted = clocks.since(self.clocks);
        let busy = self.busy_at_tick + counted;
        self.busy_at_tick = if waits { busy.and_window(counted, interval) } else { busy };
        self.clocks = clocks;
    }

    /// The kernel's clocks until `now` at most. They never decrease from tick to tick, although the interval that ran when the record was read may
    /// have ended before `now`. `None`: unknown.
    fn clocks(&self, now: Nanos) -> Option<BusyTimes> {
        let until = self.end.map_or(now, |(at, _)| at.min(now));
        Some(busy_until(&self.record, until)?.since(self.busy_before).max(self.clocks))
    }

    /// Observed time with data queued or in flight, or with a closed receive window. `None`: unknown.
    pub(super) fn busy(&self, now: Nanos) -> Option<BusyTimes> {
        let clocks = self.clocks(now)?;
        let counted = if self.is_busy_final { BusyTimes::default() } else { clocks.since(self.clocks) };
        Some(self.busy_at_tick + counted)
    }

    /// Payload in both directions: since the last tick, and in total.
    pub(super) fn carried(&self) -> (u64, u64) {
        let total = self.record.tcp.bytes_sent + self.received();
        let before = self.at_last_tick.map_or(total, |(sent, received)| sent + received);
        (total.since(before).0, total.0)
    }

    /// Payload sent, each byte counted once.
    pub(super) fn unique_sent(&self) -> Bytes {
        self.record.tcp.bytes_sent.since(self.record.tcp.bytes_retransmitted)
    }

    /// Payload received, without the byte by which a FIN increases the counter.
    pub(super) fn received(&self) -> Bytes {
        self.record.tcp.bytes_received.since(self.fin_received())
    }

    /// Payload and time that were observed until `now`.
    pub(super) fn observed(&self, now: Nanos) -> Observed {
        self.observation.so_far(self.totals(), self.life(now))
    }

    /// Bytes that the subflow has carried in both directions.
    fn totals(&self) -> Totals {
        let sent = self.unique_sent();
        let in_flight = sent.since(self.record.tcp.bytes_acked);
        Totals { payload: sent + self.received(), sent, in_flight, wire: self.wire_bytes() }
    }

    /// Estimated bytes on the wire in both directions.
    pub(super) fn wire_bytes(&self) -> Bytes {
        wire::estimate(&self.record).into_iter().sum()
    }

    fn life(&self, now: Nanos) -> Life {
        let from = self.established_or_seen();
        Life { from, to: from + self.lifetime(now), seen_open: self.record.seen_open }
    }

    fn established_or_seen(&self) -> Nanos {
        self.record.established.unwrap_or(self.record.first_seen)
    }

    /// Whether the subflow opened the connection (MP_CAPABLE), or is plain TCP.
    pub(super) fn is_initial(&self) -> bool {
        !self.record.mp_join
    }

    /// The byte by which a received FIN increases the kernel's count of received bytes.
    pub(super) fn fin_received(&self) -> Bytes {
        Bytes(self.record.end.fin_received.into())
    }

    /// Time in which the subflow could carry data, until `now` at most.
    pub(super) fn lifetime(&self, now: Nanos) -> Nanos {
        let from = self.established_or_seen();
        self.end.map_or(now, |(at, _)| at.min(now)).since(from)
    }
}

/// The kernel's clocks at a time after the record was read, if the interval that ran then still runs. `None`: unknown.
fn busy_until(record: &SubflowRecord, until: Nanos) -> Option<BusyTimes> {
    let waiting = &record.waiting;
    let running = waiting.limit.zip(waiting.busy_since);
    let busy = record.tcp.busy?;
    Some(running.map_or(busy, |(limit, since)| busy.and(limit, until.since(since))))
}

/// The larger of two readings: the values of a socket read as zero after the final values were reported.
pub(super) fn larger(old: Option<CpuTimes>, new: Option<CpuTimes>) -> Option<CpuTimes> {
    old.zip(new).map(|(old, new)| old.max(new)).or(new).or(old)
}
