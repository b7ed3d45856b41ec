// SPDX-License-Identifier: MIT OR Apache-2.0
//! The state of all connections. [`Tracker`] owns it and depends only on the event stream: it does no I/O and reads no clock.

mod addresses;
mod archive;
mod bottleneck;
mod close;
mod cpu;
mod dropped;
mod energy;
mod explanation;
mod flow;
mod flows;
mod idle;
mod index;
mod names;
mod observed;
mod outage;
mod path;
mod payload;
mod seen;
mod socket;
mod stall;
mod subflow;
mod suspension;
mod timeline;
mod view;
mod wire;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use mpwatch_model::flow::bottleneck::DetectionMethod;
use mpwatch_model::flow::connection::Connection;
use mpwatch_model::flow::idle::IdleConnections;
use mpwatch_model::host::machine::{Host, Losses};
use mpwatch_model::kernel::clock::ClockChange;
use mpwatch_model::kernel::cpu::CpuAccounts;
use mpwatch_model::kernel::event::{ConnectionRecord, KernelEvent, Start, SubflowRecord, Tick};
use mpwatch_model::kernel::sample::SampleBatch;
use mpwatch_model::snapshot::{Report, Run, SCHEMA, Snapshot};
use mpwatch_model::unit::Nanos;
use mpwatch_model::why::answer::Explanation;

use crate::bottleneck::{NewMethod, Pool};
use crate::why::Question;
use archive::Archive;
pub use archive::Selection;
use bottleneck::{Detection, Pending};
use dropped::drop_ended;
use energy::{Energy, MAX_DEFERRED};
use flow::Flow;
use flows::Flows;
use index::{Index, Key};
use names::Names;
use path::Interval;
use seen::MIN_MISSED_TICKS;
use suspension::Suspensions;
use view::Sources;

/// Treatment of a connection after it has closed and its final values were reported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Closed {
    /// Discard it, as in a live view.
    #[default]
    Forget,
    /// Keep it for the report at the end of the run, if it is among the latest 50 000.
    Keep,
}

/// Tracks all connections.
#[derive(Default)]
pub struct Tracker {
    start: Start,
    closed: Closed,
    flows: Flows,
    /// Whether snapshots share one list of the idle connections instead of copying them.
    shares_idle: bool,
    /// Number of zones whose idle power was known at the last tick.
    zones_with_idle_power: usize,
    index: Index,
    names: Names,
    pending: Pending,
    /// The name and constructor of another detection method. `None`: mpwatch's own method.
    other_method: Option<(DetectionMethod, NewMethod)>,
    /// The rates of the paths of all connections.
    pool: Pool,
    energy: Option<Energy>,
    tick: Tick,
    previous_tick: Option<Nanos>,
    suspensions: Suspensions,
    lost: Losses,
    archive: Archive,
}

impl Tracker {
    /// Creates a tracker from the first event of a stream.
    pub fn new(start: Start, closed: Closed) -> Self {
        Self {
            tick: Tick { at: start.at, ..Tick::default() },
            energy: start.machine.as_ref().map(|machine| Energy::new(machine, start.ledger)),
            start,
            closed,
            ..Self::default()
        }
    }

    /// Detects bottlenecks by this method instead of mpwatch's own. `new` creates the method for each connection.
    #[must_use]
    pub fn with_method(self, name: DetectionMethod, new: NewMethod) -> Self {
        Self { other_method: Some((name, new)), ..self }
    }

    /// Moves idle connections from the list of each snapshot to [`Snapshot::idle`], so that the cost of a snapshot depends only on the
    /// active connections.
    #[must_use]
    pub fn with_shared_idle(self) -> Self {
        Self { shares_idle: true, ..self }
    }

    /// Keeps only selected connections for the report. `None`: all.
    #[must_use]
    pub fn selecting(mut self, selects: Option<Selection>) -> Self {
        self.archive.selects = selects;
        self
    }

    /// Applies one event.
    pub fn apply(&mut self, event: &KernelEvent) {
        match event {
            KernelEvent::Start(start) => self.on_start(start),
            KernelEvent::Subflow(record) => self.on_subflow(record),
            KernelEvent::Connection(record) => self.on_connection(record),
            KernelEvent::SubflowUnchanged(id) => {
                self.flows.on_unchanged(self.index.by_subflow(*id), Some(*id));
            }
            KernelEvent::ConnectionUnchanged(cookie) => {
                self.flows.on_unchanged(self.index.by_cookie(*cookie), None);
            }
            KernelEvent::Samples(batch) => self.on_samples(batch),
            KernelEvent::Netns(name) => self.names.add_netns(name),
            KernelEvent::Cgroup(name) => self.names.add_cgroup(name),
            KernelEvent::Pod(name) => self.names.add_pod(name),
            KernelEvent::Elimination(record) => {
                self.flows.on_elimination(self.index.by_id(record.connection), record);
            }
            KernelEvent::Explanation(Explanation { connection, cause }) => {
                self.flows.on_explanation(self.index.by_id(*connection), cause.as_ref(), self.tick.at);
            }
            KernelEvent::Clock(change) => self.on_clock(*change),
            KernelEvent::Tick(tick) => self.on_tick(tick),
        }
    }

    /// Ends a tick: returns a snapshot, discards closed connections whose final values it contains, and excludes idle connections from later ticks.
    pub fn end_tick(&mut self) -> Snapshot {
        let mut snapshot = self.snapshot();
        let active = self.flows.all_active();
        let mut done: Vec<Key> = active.filter(|(_, flow)| self.is_done(flow)).map(|(key, _)| key).collect();
        done.sort_unstable_by_key(|key| key.serial);
        for key in done {
            self.forget(key);
        }
        if self.closed == Closed::Keep {
            self.archive_discarded(&snapshot.connections);
        }
        self.index.clear_forgotten();
        for connection in &snapshot.connections {
            let (flows, energy, index) = (&mut self.flows, &mut self.energy, &mut self.index);
            self.lost.subflows_dropped += drop_ended(connection, self.tick.at, flows, energy, index);
        }
        snapshot.losses = self.losses();
        let mut flows = std::mem::take(&mut self.flows);
        flows.make_idle(&self.sources());
        self.flows = flows;
        snapshot
    }

    /// The first connections that need an explanation, at most `limit`. They are returned once, before [`Tracker::end_tick`] puts them aside.
    pub fn take_unexplained(&mut self, limit: usize) -> Vec<Question> {
        let mut flows = std::mem::take(&mut self.flows);
        let found = flows.take_unexplained(&self.sources(), limit);
        self.flows = flows;
        found
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot {
            schema: SCHEMA,
            at: view::timestamp(self.start.boot_epoch_ns, self.tick.at),
            interval_s: Some(self.interval()).filter(|interval| interval.0 > 0).map(Nanos::seconds),
            host: self.host(),
            setup: Arc::clone(&self.start.setup),
            connections: self.flows.connections(&self.sources(), !self.shares_idle),
            counters: self.tick.counters.clone(),
            cpus: self.cpus(),
            energy: self.energy.as_ref().map(Energy::snapshot),
            losses: self.losses(),
            overhead: self.tick.overhead,
            boot_epoch_ns: self.start.boot_epoch_ns,
            idle: if self.shares_idle { self.flows.idle().clone() } else { IdleConnections::default() },
        }
    }

    /// Whether a connection has closed, its final values are known, and its energy is charged or will not be charged any more.
    fn is_done(&self, flow: &Flow) -> bool {
        let is_charged = self.energy.as_ref().is_none_or(|energy| energy.are_settled(flow.subflow_ids()));
        let is_deferred = self.energy.as_ref().is_some_and(Energy::is_deferred);
        let waits = |closed: Nanos| is_deferred && self.tick.at.since(closed) < MAX_DEFERRED;
        // Missing CPU charges no longer arrive after this many ticks.
        let is_late = flow.complete_ticks >= MIN_MISSED_TICKS && !flow.closed_at().is_some_and(waits);
        // The final record of another subflow may arrive one tick later.
        flow.complete_ticks >= 2 && (is_charged || is_late)
    }

    /// Keeps the discarded connections for the report.
    fn archive_discarded(&mut self, connections: &[Connection]) {
        for connection in connections.iter().filter(|found| self.index.forgotten.contains(&found.id)) {
            self.lost.connections_unreported += u64::from(self.archive.add(connection));
        }
    }

    /// The machine, with the error of its clock at the last tick.
    fn host(&self) -> Host {
        Host { clock_error: self.tick.clock_error, ..self.start.host.clone() }
    }

    /// The report on every connection of the run, after the last tick.
    pub fn report(mut self) -> Report {
        let mut connections = Vec::from(std::mem::take(&mut self.archive.connections));
        self.flows.sorted_mut().into_iter().for_each(Flow::assign_places);
        connections.extend(self.flows.connections(&self.sources(), true));
        connections.sort_by_key(|connection| (connection.opened_at, connection.id));
        Report {
            schema: SCHEMA,
            run: Run {
                host: self.host(),
                setup: Arc::clone(&self.start.setup),
                from: view::timestamp(self.start.boot_epoch_ns, self.start.at),
                to: view::timestamp(self.start.boot_epoch_ns, self.tick.at),
                ..Run::default()
            },
            counters: self.tick.counters.clone(),
            cpus: self.cpus(),
            energy: self.energy.as_ref().map(Energy::snapshot),
            losses: self.losses(),
            filtered_out: self.archive.filtered_out,
            ..Report::default()
        }
        .with(connections)
    }

    /// Applies a change of the set of measured values. A reduction to keep the CPU budget must not wake idle connections: with 100 000 of
    /// them, the next ticks would take so much CPU time that a further reduction would follow.
    fn on_start(&mut self, start: &Start) {
        let changes_flows = (start.traces, start.ledger) != (self.start.traces, self.start.ledger);
        self.start = start.clone();
        if changes_flows {
            self.flows.wake_all(self.tick.at);
        }
    }

    /// Whether an unknown socket was reported and discarded before: it closed before the previous tick, but a process still holds it open.
    fn was_discarded(&self, closed: Option<Nanos>, last: bool) -> bool {
        !last && matches!((closed, self.previous_tick), (Some(closed), Some(tick)) if closed < tick)
    }

    fn on_subflow(&mut self, record: &SubflowRecord) {
        let known = self.find_by_subflow(record);
        if known.is_none() && self.was_discarded(record.closed, record.last) {
            return;
        }
        let key = known.unwrap_or_else(|| self.index.new_key());
        let new = || Flow::new(key.serial, record.netns, record.netns_inode);
        let flow = self.flows.record(key, self.tick.at, new);
        if flow.dropped_ids.contains(&record.id) {
            return;
        }
        flow.on_subflow(record, self.tick.at);
        self.index.insert(key, flow, Some(record.id));
    }

    fn on_connection(&mut self, record: &ConnectionRecord) {
        let found = self.index.by_socket(record.netns, record.msk.token, record.msk.cookie);
        let known = found.filter(|key| !self.is_reopened(*key, record.opened));
        if known.is_none() && self.was_discarded(record.closed, record.last) {
            return;
        }
        let key = known.unwrap_or_else(|| self.index.new_key());
        let new = || Flow::new(key.serial, record.netns, record.netns_inode);
        let flow = self.flows.record(key, self.tick.at, new);
        flow.on_connection(record);
        self.index.insert(key, flow, None);
    }

    fn find_by_subflow(&self, record: &SubflowRecord) -> Option<Key> {
        self.index.by_subflow(record.id).or_else(|| {
            let msk = record.msk.as_ref()?;
            let found = self.index.by_socket(record.netns, msk.token, msk.cookie);
            // The first record of a subflow may arrive before the record of its connection.
            found.filter(|key| !self.is_reopened(*key, record.created))
        })
    }

    /// Whether a record with this opening time belongs to a later connection of the same socket. `false` for idle connections, which are open.
    fn is_reopened(&self, key: Key, opened: Option<Nanos>) -> bool {
        let closed = self.flows.active(key).filter(|flow| flow.socket.is_known).and_then(Flow::closed_at);
        closed.zip(opened).is_some_and(|(closed, opened)| opened > closed)
    }

    fn on_samples(&mut self, batch: &SampleBatch) {
        let detection = Detection { other: self.other_method, backoff: self.start.backoff };
        match self.index.by_subflow(batch.id) {
            Some(key) => {
                self.flows.add_samples(key, batch, detection, self.tick.at);
                if let Some(flow) = self.flows.active(key).filter(|_| self.other_method.is_none()) {
                    bottleneck::add_to_pool(&mut self.pool, flow, batch);
                }
            }
            None => self.pending.add(batch),
        }
    }

    fn evaluate_bottlenecks(&mut self) {
        for batch in self.pending.take() {
            self.on_samples(&batch);
        }
        // Discard batches of subflows that are still unknown: they ended without a record.
        self.pending.take();
        self.pool.advance(self.tick.at);
        self.flows.evaluate_bottlenecks(&self.pool, self.tick.at);
    }

    /// Applies the latest offset of the calendar clock to all events, also to earlier events, because the earlier offset was wrong.
    fn on_clock(&mut self, change: ClockChange) {
        let by_ns = change.boot_epoch_ns.saturating_sub(self.start.boot_epoch_ns);
        self.start.boot_epoch_ns = change.boot_epoch_ns;
        for connection in &mut self.archive.connections {
            connection.shift(by_ns);
        }
    }

    fn on_tick(&mut self, tick: &Tick) {
        self.previous_tick =
            Some(self.tick.at).filter(|_| self.previous_tick.is_some() || self.tick.at != self.start.at);
        let previous = *self.previous_tick.get_or_insert(tick.at);
        self.suspensions.note(previous, tick.at, tick.suspended);
        self.tick = tick.clone();
        self.flows.check_idle(&self.names.take_changed(), tick.at);
        self.evaluate_bottlenecks();
        let previous = if previous < tick.at { previous } else { self.start.at };
        let ticks = Interval { previous, now: tick.at, suspensions: &self.suspensions };
        let mut flows = self.flows.sorted_mut();
        for flow in &mut flows {
            flow.on_tick(ticks, &mut self.lost);
        }
        if let Some(energy) = &mut self.energy {
            energy.on_tick(tick, &mut flows);
            let zones = energy.split.zones_with_idle_power();
            if std::mem::replace(&mut self.zones_with_idle_power, zones) != zones {
                self.flows.wake_all(tick.at);
            }
        }
    }

    /// Time between the last two ticks, without suspensions of the machine.
    fn interval(&self) -> Nanos {
        self.previous_tick.map_or(Nanos(0), |previous| self.suspensions.awake(previous, self.tick.at))
    }

    fn sources(&self) -> Sources<'_> {
        let (start, names, energy) = (&self.start, &self.names, self.energy.as_ref());
        let method = self.other_method.map_or_else(DetectionMethod::default, |(name, _)| name);
        Sources { start, names, energy, method, pool: &self.pool, now: self.tick.at }
    }

    fn forget(&mut self, key: Key) {
        let Some(flow) = self.flows.remove(key) else { return };
        self.energy.iter_mut().for_each(|energy| energy.forget(flow.subflow_ids()));
        self.index.forget(&flow);
    }

    fn losses(&self) -> Losses {
        Losses {
            vanished: self.lost.vanished,
            timeline_dropped: self.lost.timeline_dropped,
            subflows_dropped: self.lost.subflows_dropped,
            connections_unreported: self.lost.connections_unreported,
            energy_windows_broken: self.energy.as_ref().map_or(0, |energy| energy.split.broken()),
            ..self.tick.losses
        }
    }

    fn cpus(&self) -> Option<Vec<CpuAccounts>> {
        let estimated = self.energy.as_ref().filter(|_| self.tick.sampling.is_some()).map(Energy::cpus);
        self.start.traces.ledger.then(|| estimated.unwrap_or(&self.tick.cpus).to_vec())
    }
}
