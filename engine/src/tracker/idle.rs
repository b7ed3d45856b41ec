// SPDX-License-Identifier: MIT OR Apache-2.0
//! Connections without activity. They do not take part in ticks until one of their records or names changes, a sample arrives, or the BPF
//! programs no longer list one of their sockets. Snapshots share them.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::Arc;

use mpwatch_model::capacity::shrink_map;
use mpwatch_model::flow::connection::Connection;
use mpwatch_model::flow::idle::{IdleConnection, IdleConnections};
use mpwatch_model::host::energy::FlowEnergy;
use mpwatch_model::id::{ConnectionId, NetnsCookie, SubflowId};
use mpwatch_model::unit::Nanos;

use super::flow::Flow;
use super::index::Key;
use super::names::Changed;
use super::seen::MAX_UNSEEN;
use super::subflow::SubflowState;
use super::timeline::Timeline;
use super::view::{Context, Extras, Facts, Sources};
use crate::bottleneck::Detector;

/// Number of ticks without a change after which a connection is idle. The rates of the latest interval are zero by then.
const QUIET_TICKS: u32 = 2;
/// Samples of this age no longer affect verdicts.
const SAMPLES_EXPIRE: Nanos = Nanos(60_000_000_000);
/// Bit of the MPTCP socket in a set of sockets; lower bits are subflows. A connection with 63 or more subflows, ended ones included, is never idle.
const SOCKET: usize = 63;

/// A connection as of the time at which it became idle. Serialized, it takes a quarter of the memory; there may be 100 000 idle connections.
pub(super) struct IdleFlow {
    id: ConnectionId,
    /// The flow without its timeline, and the energy of its subflows.
    packed: Box<[u8]>,
    timeline: Timeline,
    extras: Extras,
    facts: Facts,
    /// Network namespace and control group, to find the connection when their names change.
    named_by: (NetnsCookie, u64),
    /// Its subflows, and the bits of the sockets that the BPF programs must list.
    subflows: Box<[SubflowId]>,
    expected: u64,
}

impl IdleFlow {
    pub(super) fn pack(mut flow: Flow, detector: Option<&Detector>, sources: &Sources<'_>) -> Self {
        let (extras, facts) = (sources.extras(&flow, detector), sources.facts());
        let mut timeline = std::mem::take(&mut flow.timeline);
        timeline.shrink();
        let packed = postcard::to_stdvec(&(&flow, sources.energies(&flow)));
        Self {
            id: flow.id(),
            // All lengths are known, and writing to memory does not fail.
            packed: packed.unwrap_or_else(|error| unreachable!("a flow can be serialized: {error}")).into(),
            timeline,
            extras,
            facts,
            named_by: (flow.netns, flow.cgroup),
            subflows: flow.subflow_ids().collect(),
            expected: expected(&flow),
        }
    }

    /// The flow, and the energy of its subflows.
    fn unpack(&self) -> (Flow, Vec<Option<FlowEnergy>>) {
        let unpacked = postcard::from_bytes(&self.packed);
        let (mut flow, energies): (Flow, _) =
            unpacked.unwrap_or_else(|error| unreachable!("`pack` wrote these bytes: {error}"));
        flow.timeline = self.timeline.clone();
        (flow, energies)
    }

    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        let entries = size_of_val(self.timeline.entries());
        size_of::<Self>() + self.packed.len() + entries + size_of_val(&*self.subflows)
    }
}

impl IdleConnection for IdleFlow {
    fn id(&self) -> ConnectionId {
        self.id
    }

    fn connection(&self, at: Nanos, boot_epoch_ns: i64) -> Connection {
        let (flow, energies) = self.unpack();
        let (facts, extras, energies) = (self.facts, &self.extras, &energies[..]);
        Context { facts, extras, energies, boot_epoch_ns, now: at }.connection(&flow)
    }
}

impl fmt::Debug for IdleFlow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("IdleFlow").field(&self.id).finish()
    }
}

/// An idle connection; `seen` has the bits of the sockets that were listed since the last check.
struct Slot {
    shared: Arc<IdleFlow>,
    detector: Option<Box<Detector>>,
    seen: u64,
    check_at: Nanos,
}

/// All idle connections.
#[derive(Default)]
pub(super) struct Idle {
    slots: HashMap<Key, Slot>,
    /// The time of each check, in order, and the connection to check.
    checks: VecDeque<(Nanos, Key)>,
    shared: IdleConnections,
}

impl Idle {
    pub(super) fn add(&mut self, key: Key, flow: IdleFlow, detector: Option<Box<Detector>>, now: Nanos) {
        let shared = Arc::new(flow);
        let check_at = now + MAX_UNSEEN;
        self.checks.push_back((check_at, key));
        self.shared.insert(Arc::clone(&shared) as _);
        self.slots.insert(key, Slot { shared, detector, seen: 0, check_at });
    }

    /// Removes and returns a connection that is no longer idle.
    pub(super) fn remove(&mut self, key: Key, now: Nanos) -> Option<(Flow, Option<Box<Detector>>)> {
        let Slot { shared, detector, seen, check_at } = self.slots.remove(&key)?;
        shrink_map(&mut self.slots);
        self.shared.remove(shared.id());
        let (mut flow, _) = shared.unpack();
        // A socket that was not listed since the previous check was listed before that check.
        let seen_at = |bit: usize| if seen & (1 << bit) == 0 { check_at.since(MAX_UNSEEN) } else { now };
        for (bit, subflow) in flow.subflows.iter_mut().enumerate() {
            subflow.seen.resume(seen_at(bit));
        }
        flow.socket.seen.resume(seen_at(SOCKET));
        flow.quiet.ticks = 0;
        Some((flow, detector))
    }

    /// Notes that a subflow is listed. `None`: the MPTCP socket is listed. Returns whether the connection is idle.
    pub(super) fn note(&mut self, key: Key, subflow: Option<SubflowId>) -> bool {
        let Some(slot) = self.slots.get_mut(&key) else { return false };
        let position = |id| slot.shared.subflows.iter().position(|subflow| *subflow == id);
        if let Some(bit) = subflow.map_or(Some(SOCKET), position) {
            slot.seen |= 1 << bit;
        }
        true
    }

    /// Checks the connections that are due. Returns the connections of which a socket was not listed.
    pub(super) fn check(&mut self, now: Nanos) -> Vec<Key> {
        let mut missing = Vec::new();
        while let Some((check_at, key)) = self.checks.pop_front_if(|(check_at, _)| *check_at <= now) {
            let Some(slot) = self.slots.get_mut(&key).filter(|slot| slot.check_at == check_at) else {
                continue;
            };
            if slot.seen & slot.shared.expected == slot.shared.expected {
                (slot.seen, slot.check_at) = (0, now + MAX_UNSEEN);
                self.checks.push_back((slot.check_at, key));
            } else {
                missing.push(key);
            }
        }
        missing
    }

    /// The connections whose names have changed.
    pub(super) fn named(&self, changed: &Changed) -> Vec<Key> {
        let concerned = |(netns, cgroup)| changed.concerns(netns, cgroup);
        self.slots.iter().filter(|(_, slot)| concerned(slot.shared.named_by)).map(|(key, _)| *key).collect()
    }

    pub(super) fn keys(&self) -> Vec<Key> {
        self.slots.keys().copied().collect()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (Key, &IdleFlow)> {
        self.slots.iter().map(|(key, slot)| (*key, &*slot.shared))
    }

    /// The idle connections, which snapshots share.
    pub(super) fn shared(&self) -> &IdleConnections {
        &self.shared
    }
}

/// The bits of the sockets that the BPF programs must list.
fn expected(flow: &Flow) -> u64 {
    let subflows = flow.subflows.iter().enumerate().filter(|(_, subflow)| !subflow.is_final());
    let socket = Some(SOCKET).filter(|_| flow.socket.is_known);
    subflows.map(|(bit, _)| bit).chain(socket).fold(0, |bits, bit| bits | 1 << bit)
}

/// Whether ticks change only the age of this connection.
pub(super) fn may_be_idle(flow: &Flow, detector: Option<&Detector>, now: Nanos) -> bool {
    let is_settled =
        |subflow: &SubflowState| subflow.is_final() || (subflow.end.is_none() && subflow.seen.is_recent(now));
    let is_socket_open = !flow.socket.is_known || (!flow.socket.is_final && flow.socket.seen.is_recent(now));
    flow.quiet.ticks >= QUIET_TICKS
        && flow.is_reportable()
        && flow.closed_at().is_none()
        && !flow.is_waiting()
        && is_socket_open
        && (1..SOCKET).contains(&flow.subflows.len())
        && flow.subflows.iter().all(is_settled)
        && detector.is_none_or(|detector| now.since(detector.newest()) >= SAMPLES_EXPIRE)
}
