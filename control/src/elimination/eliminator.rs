// SPDX-License-Identifier: MIT OR Apache-2.0
//! The state of elimination: for each connection, its recent history, the actions on it, and its throughput before and after them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use mpwatch_model::flow::connection::Connection;
use mpwatch_model::flow::elimination::{
    EliminationAction, EliminationPolicy, EliminationStep, Removal, Throughput,
};
use mpwatch_model::id::ConnectionId;
use mpwatch_model::unit::{BitsPerSecond, Bytes, Nanos};

use super::select::{self, Known};

/// Time after an action during which the throughput is watched.
const WATCH: Nanos = Nanos(5_000_000_000);
/// Minimum throughput during [`WATCH`], as a fraction of the throughput before the action.
const MIN_LEFT: f64 = 0.9;
/// If the throughput since an action is below [`MIN_LEFT_EARLY`] after this time, the watch ends early.
const EARLY: Nanos = Nanos(2_000_000_000);
const MIN_LEFT_EARLY: f64 = 0.5;
/// Minimum time for which the throughput is measured before a removal. The throughput after the removal is compared with it.
const MIN_BASELINE: Nanos = Nanos(1_000_000_000);
const MINUTE: Nanos = Nanos(60_000_000_000);
/// Maximum size of [`Eliminator::left_alone`]. Ids are never used again, so most of these connections have closed.
const MAX_LEFT_ALONE: usize = 16_384;

/// Instruction to the caller: change a subflow, or record a step.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Decision {
    /// Remove this subflow, then call [`Eliminator::report`].
    Remove(ConnectionId, Removal),
    /// End the backup role that this removal gave a subflow.
    Undo(ConnectionId, Removal),
    /// Only record this step: the watch after an action has ended.
    Record(ConnectionId, EliminationStep),
}

/// Time of a snapshot, and the connection's acknowledged bytes and throughput at that time.
type Progress = (Nanos, Bytes, BitsPerSecond);

#[derive(Default)]
struct Watched {
    known: Known,
    latest: Progress,
    /// Progress when the watched actions took place. `None`: no action is watched.
    before: Option<Progress>,
    /// Subflows that the watched actions set to backup.
    backups: Vec<Removal>,
}

/// Decides which subflows to remove from the connections of a host.
pub(crate) struct Eliminator {
    policy: EliminationPolicy,
    connections: BTreeMap<ConnectionId, Watched>,
    /// Times of the removals that were decided in the last minute.
    recent: VecDeque<Nanos>,
    /// Connections from which nothing more is removed, and since when: an action reduced the throughput, or the kernel refused the action.
    /// Idle connections stay here although snapshots omit them.
    left_alone: BTreeMap<ConnectionId, Nanos>,
}

impl Eliminator {
    pub(crate) fn new(policy: EliminationPolicy) -> Self {
        Self { policy, connections: BTreeMap::new(), recent: VecDeque::new(), left_alone: BTreeMap::new() }
    }

    /// Whether the throughput of a connection is being watched after an action.
    pub(crate) fn is_watching(&self, id: ConnectionId) -> bool {
        self.connections.get(&id).is_some_and(|watched| watched.before.is_some())
    }

    /// Whether a connection is left alone: nothing more is removed from it.
    pub(crate) fn is_left_alone(&self, id: ConnectionId) -> bool {
        self.left_alone.contains_key(&id)
    }

    /// Evaluates the MPTCP connections of a snapshot that can send. `true`: subflows may be removed from the connection. `false`: only the
    /// watch after an earlier action continues. A connection that is not passed is forgotten, so pass it while [`Self::is_watching`] is true.
    pub(crate) fn decide(&mut self, at: Nanos, connections: &[(&Connection, bool)]) -> Vec<Decision> {
        let present: BTreeSet<ConnectionId> =
            connections.iter().map(|(connection, _)| connection.id).collect();
        self.connections.retain(|id, _| present.contains(id));
        while self.recent.front().is_some_and(|then| at.since(*then) >= MINUTE) {
            self.recent.pop_front();
        }
        while self.left_alone.len() > MAX_LEFT_ALONE {
            let oldest = self.left_alone.iter().min_by_key(|(_, since)| **since).map(|(id, _)| *id);
            oldest.map(|id| self.left_alone.remove(&id));
        }
        let mut decisions = Vec::new();
        for (connection, is_selected) in connections {
            let id = connection.id;
            let watched = self.connections.entry(id).or_default();
            watched.update(at, connection, &self.policy);
            let judged = watched.judge(id);
            if matches!(judged.first(), Some(Decision::Record(_, EliminationStep::LeftAlone(_)))) {
                self.left_alone.insert(id, at);
            }
            decisions.extend(judged);
            if self.left_alone.contains_key(&id) || !is_selected {
                continue;
            }
            for removal in watched.candidates(at, connection, &self.policy) {
                if self.recent.len() >= usize::try_from(self.policy.max_per_minute).unwrap_or(usize::MAX) {
                    break;
                }
                self.recent.push_back(at);
                watched.known.decided.insert(removal.removed.subflow);
                decisions.push(Decision::Remove(id, removal));
            }
        }
        decisions
    }

    /// Records whether the kernel carried out a removal that the last call of [`Self::decide`] returned. Not called in a dry run.
    pub(crate) fn report(&mut self, connection: ConnectionId, removal: &Removal, is_done: bool) {
        let Some(watched) = self.connections.get_mut(&connection) else { return };
        if !is_done {
            self.left_alone.insert(connection, watched.latest.0);
            return;
        }
        watched.before.get_or_insert(watched.latest);
        if removal.action == EliminationAction::Backup {
            watched.backups.push(removal.clone());
        }
    }
}

impl Watched {
    fn update(&mut self, at: Nanos, connection: &Connection, policy: &EliminationPolicy) {
        let Known { history, stability, decided } = &mut self.known;
        let acked = history.add(at, connection);
        let pairs = connection.bottlenecks.iter().flat_map(|found| &found.pairs);
        stability.update(at, pairs, policy.probability);
        let open = || connection.subflows.iter().filter(|subflow| subflow.closed.is_none());
        decided.retain(|id| open().any(|subflow| subflow.id == *id));
        self.latest = (at, acked, history.throughput());
    }

    /// Compares the throughput since the watched actions with the throughput before them.
    fn judge(&mut self, id: ConnectionId) -> Vec<Decision> {
        let Some((since, acked_before, before)) = self.before else { return Vec::new() };
        let (at, acked, _) = self.latest;
        let elapsed = at.since(since);
        let after = acked.since(acked_before).per(elapsed);
        let throughput = Throughput { before, after };
        let left = after.0 as f64 / before.0 as f64;
        let has_dropped = left < MIN_LEFT && elapsed >= WATCH || left < MIN_LEFT_EARLY && elapsed >= EARLY;
        if !has_dropped && elapsed < WATCH {
            return Vec::new();
        }
        self.before = None;
        let backups = std::mem::take(&mut self.backups);
        if !has_dropped {
            return vec![Decision::Record(id, EliminationStep::Confirmed(throughput))];
        }
        let left_alone = Decision::Record(id, EliminationStep::LeftAlone(throughput));
        let undone = backups.into_iter().map(|removal| Decision::Undo(id, removal));
        std::iter::once(left_alone).chain(undone).collect()
    }

    fn candidates(&self, at: Nanos, connection: &Connection, policy: &EliminationPolicy) -> Vec<Removal> {
        if self.before.is_some() || self.known.history.duration() < MIN_BASELINE {
            return Vec::new();
        }
        select::removals(at, connection, &self.known, policy)
    }
}
