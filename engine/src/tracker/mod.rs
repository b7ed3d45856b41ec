// SPDX-License-Identifier: MIT OR Apache-2.0
//! All state of the agent: which connections there are and what is known of each. One owner, no I/O, no clock: a function
//! of the event stream, so that a replay ends where the live run ended.

mod bottleneck;
mod close;
mod energy;
mod flow;
mod index;
mod stall;
mod subflow;
mod view;

#[cfg(test)]
mod tests;

use std::collections::HashMap;

use jiff::Timestamp;
use mpwatch_model::bottleneck::DetectionMethod;
use mpwatch_model::connection::Connection;
use mpwatch_model::cpu::CpuAccounts;
use mpwatch_model::event::{ConnectionRecord, KernelEvent, NetnsName, Start, SubflowRecord, Tick};
use mpwatch_model::id::{NetnsCookie, SocketCookie, SubflowId};
use mpwatch_model::snapshot::{Report, Run, SCHEMA, Snapshot};
use mpwatch_model::unit::Nanos;

use bottleneck::Early;
use energy::Energy;
use flow::Flow;
use index::{Index, Key};

/// What becomes of a connection once it has closed and its finals were shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closed {
    /// Forget it: a live view shows it once.
    Forget,
    /// Keep it for the report at the end of the run.
    Keep,
}

/// The names that the kernel does not use but people do.
#[derive(Default)]
struct Names {
    netns: HashMap<NetnsCookie, String>,
    /// Of recordings of older versions, which do not say whose inode it was.
    netns_by_inode: HashMap<u32, String>,
    cgroups: HashMap<u64, String>,
}

impl Names {
    fn learn_netns(&mut self, name: &NetnsName) {
        match name.netns {
            Some(netns) => self.netns.insert(netns, name.name.clone()),
            None => self.netns_by_inode.insert(name.inode, name.name.clone()),
        };
    }

    fn of_netns(&self, netns: NetnsCookie, inode: u32) -> String {
        let known = self.netns.get(&netns).or_else(|| self.netns_by_inode.get(&inode));
        known.cloned().unwrap_or_else(|| format!("net:[{inode}]"))
    }
}

/// Follows all connections.
pub struct Tracker {
    start: Start,
    closed: Closed,
    flows: HashMap<Key, Flow>,
    index: Index,
    names: Names,
    early: Early,
    method: DetectionMethod,
    energy: Option<Energy>,
    tick: Tick,
    previous_tick: Option<Nanos>,
    vanished: u64,
    timeline_dropped: u64,
    archive: Vec<Connection>,
}

impl Tracker {
    /// Begins with the first event of a stream.
    pub fn new(start: Start, closed: Closed) -> Self {
        Self {
            tick: Tick { at: start.at, ..Tick::default() },
            energy: start.machine.as_ref().map(Energy::new),
            start,
            closed,
            flows: HashMap::new(),
            index: Index::default(),
            names: Names::default(),
            early: Early::default(),
            method: DetectionMethod::default(),
            previous_tick: None,
            vanished: 0,
            timeline_dropped: 0,
            archive: Vec::new(),
        }
    }

    /// Finds bottlenecks by this method.
    pub fn with_method(self, method: DetectionMethod) -> Self {
        Self { method, ..self }
    }

    /// Takes in one event.
    pub fn apply(&mut self, event: &KernelEvent) {
        match event {
            KernelEvent::Start(start) => self.start = start.clone(),
            KernelEvent::Subflow(record) => self.on_subflow(record),
            KernelEvent::Connection(record) => self.on_connection(record),
            KernelEvent::SubflowUnchanged(id) => self.on_unchanged(self.index.by_subflow(*id), Some(*id)),
            KernelEvent::ConnectionUnchanged(cookie) => {
                self.on_unchanged(self.index.by_cookie(*cookie), None);
            }
            KernelEvent::Samples(samples) => self.on_samples(samples),
            KernelEvent::Netns(name) => {
                self.names.learn_netns(name);
            }
            KernelEvent::Cgroup(name) => {
                self.names.cgroups.insert(name.id, name.path.clone());
            }
            KernelEvent::Tick(tick) => self.on_tick(tick),
        }
    }

    /// The picture after a tick. What has closed is in it for the last time.
    pub fn snapshot(&mut self) -> Snapshot {
        let connections = self.views();
        let is_done = |flow: &Flow| {
            let is_charged = self.energy.as_ref().is_none_or(|energy| energy.are_settled(flow.subflow_ids()));
            flow.is_forgettable() && (is_charged || flow.is_long_complete())
        };
        let mut done: Vec<Key> =
            self.flows.iter().filter(|(_, flow)| is_done(flow)).map(|(key, _)| *key).collect();
        done.sort_unstable_by_key(|key| key.serial);
        for key in done {
            self.forget(key);
        }
        if self.closed == Closed::Keep {
            let over = connections.iter().filter(|connection| self.index.is_forgotten(connection.id));
            self.archive.extend(over.cloned());
        }
        self.index.clear_forgotten();
        Snapshot {
            schema: SCHEMA,
            at: self.timestamp(self.tick.at),
            interval_s: self.interval().seconds(),
            host: self.start.host.clone(),
            connections,
            counters: self.tick.counters,
            cpus: self.cpus(),
            energy: self.energy.as_ref().map(Energy::snapshot),
            losses: self.losses(),
        }
    }

    /// Every connection of the run, after the last tick.
    pub fn report(mut self) -> Report {
        let mut connections = std::mem::take(&mut self.archive);
        connections.extend(self.views());
        connections.sort_by_key(|connection| (connection.opened_at, connection.id));
        Report {
            schema: SCHEMA,
            run: Run {
                host: self.start.host.clone(),
                from: self.timestamp(self.start.at),
                to: self.timestamp(self.tick.at),
                cut_short: None,
            },
            connections,
            counters: self.tick.counters,
            cpus: self.cpus(),
            energy: self.energy.as_ref().map(Energy::snapshot),
            losses: self.losses(),
        }
    }

    /// A sample of a socket that closed long ago, of which nothing is known, is old news: its flow was told and forgotten, but some
    /// process still holds the socket.
    fn is_old_news(&self, closed: Option<Nanos>, last: bool) -> bool {
        !last && matches!((closed, self.previous_tick), (Some(closed), Some(tick)) if closed < tick)
    }

    fn on_subflow(&mut self, record: &SubflowRecord) {
        let known = self.find_by_subflow(record);
        if known.is_none() && self.is_old_news(record.closed, record.last) {
            return;
        }
        let key = known.unwrap_or_else(|| self.index.new_key());
        let flow =
            self.flows.entry(key).or_insert_with(|| Flow::new(key.serial, record.netns, record.netns_inode));
        flow.on_subflow(record, self.tick.at);
        self.index.point_to(key, flow, Some(record.id));
    }

    fn on_connection(&mut self, record: &ConnectionRecord) {
        let known = self.find_by_connection(record);
        if known.is_none() && self.is_old_news(record.closed, record.last) {
            return;
        }
        let key = known.unwrap_or_else(|| self.index.new_key());
        let flow =
            self.flows.entry(key).or_insert_with(|| Flow::new(key.serial, record.netns, record.netns_inode));
        flow.on_connection(record);
        self.index.point_to(key, flow, None);
    }

    /// A sign of life of a subflow, or of the connection's own socket.
    fn on_unchanged(&mut self, key: Option<Key>, subflow: Option<SubflowId>) {
        if let Some(flow) = key.and_then(|key| self.flows.get_mut(&key)) {
            flow.on_unchanged(subflow);
        }
    }

    fn find_by_subflow(&self, record: &SubflowRecord) -> Option<Key> {
        self.index.by_subflow(record.id).or_else(|| {
            let msk = record.msk.as_ref()?;
            self.index.by_cookie(msk.cookie).or_else(|| self.index.by_token(record.netns, msk.token))
        })
    }

    /// A socket that is connected anew after it was closed is another connection, with another token.
    fn find_by_connection(&self, record: &ConnectionRecord) -> Option<Key> {
        let known = self
            .index
            .by_cookie(record.msk.cookie)
            .or_else(|| self.index.by_token(record.netns, record.msk.token));
        let again = |flow: &Flow| matches!((flow.closed_at(), record.opened), (Some(closed), Some(opened)) if opened > closed);
        known.filter(|key| !self.flows.get(key).is_some_and(again))
    }

    fn on_tick(&mut self, tick: &Tick) {
        self.previous_tick =
            Some(self.tick.at).filter(|_| self.previous_tick.is_some() || self.tick.at != self.start.at);
        self.previous_tick.get_or_insert(tick.at);
        self.tick = tick.clone();
        self.look_for_bottlenecks();
        let interval = self.interval();
        for flow in self.flows.values_mut() {
            let outcome = flow.on_tick(tick.at, interval);
            self.vanished += outcome.vanished;
            self.timeline_dropped += outcome.timeline_dropped;
        }
        if let (Some(energy), Some(window)) = (&mut self.energy, &tick.energy) {
            // In the order of their coming: who gets a microjoule that does not divide must not depend on the order of a hash.
            let mut flows: Vec<&mut Flow> = self.flows.values_mut().collect();
            flows.sort_unstable_by_key(|flow| flow.serial());
            energy.on_tick(window, &tick.cpus, flows.into_iter());
        }
    }

    fn interval(&self) -> Nanos {
        self.previous_tick.map_or(Nanos(0), |previous| self.tick.at.since(previous))
    }

    fn views(&self) -> Vec<Connection> {
        let mut flows: Vec<&Flow> = self.flows.values().filter(|flow| flow.is_presentable()).collect();
        flows.sort_by_key(|flow| flow.serial());
        let (start, names, energy) = (&self.start, &self.names, self.energy.as_ref());
        let lens = view::Lens { start, names, energy, method: self.method, now: self.tick.at };
        flows.into_iter().map(|flow| lens.connection(flow)).collect()
    }

    fn forget(&mut self, key: Key) {
        if let Some(flow) = self.flows.remove(&key) {
            if let Some(energy) = &mut self.energy {
                energy.forget(flow.subflow_ids());
            }
            self.index.forget(&flow);
        }
    }

    fn losses(&self) -> mpwatch_model::host::Losses {
        mpwatch_model::host::Losses {
            vanished: self.vanished,
            timeline_dropped: self.timeline_dropped,
            energy_windows_broken: self.energy.as_ref().map_or(0, Energy::broken),
            ..self.tick.losses
        }
    }

    fn cpus(&self) -> Option<Vec<CpuAccounts>> {
        self.start.traces.ledger.then(|| self.tick.cpus.clone())
    }

    fn timestamp(&self, at: Nanos) -> Timestamp {
        view::timestamp(self.start.boot_epoch_ns, at)
    }
}

/// Whether a cookie says anything.
fn known(cookie: SocketCookie) -> Option<SocketCookie> {
    (cookie.0 != 0).then_some(cookie)
}
