// SPDX-License-Identifier: MIT OR Apache-2.0
//! The state of elimination: for each connection, its recent history and the actions on it; and the throughput of links before and after actions.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use mpwatch_model::flow::connection::Connection;
use mpwatch_model::flow::elimination::{
    EliminationAction, EliminationPolicy, EliminationStep, Removal, Throughput,
};
use mpwatch_model::id::ConnectionId;
use mpwatch_model::unit::{BitsPerSecond, Nanos};

use super::paths::{Path, Paths};
use super::select::{self, Known};

/// Time after an action during which the throughput of the link is watched.
const WATCH: Nanos = Nanos(5_000_000_000);
/// Minimum throughput during [`WATCH`], as a fraction of the throughput before the action.
const MIN_THROUGHPUT: f64 = 0.9;
/// If the throughput since an action is below the fraction [`MIN_THROUGHPUT_EARLY`] after this time, the watch ends early.
const EARLY: Nanos = Nanos(2_000_000_000);
const MIN_THROUGHPUT_EARLY: f64 = 0.5;
/// Minimum time for which the throughput is measured before a removal. The throughput after the removal is compared with it.
const MIN_BASELINE: Nanos = Nanos(1_000_000_000);
const MINUTE: Nanos = Nanos(60_000_000_000);
/// Maximum size of [`Eliminator::left_alone`]. Ids are never reused, so most of these connections have closed.
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

/// The watch after actions on the subflows of one link.
#[derive(Default)]
struct Watch {
    /// The paths of the groups of the removed subflows.
    link: BTreeSet<Path>,
    since: Nanos,
    /// Throughput of all traced subflows of these paths before the actions.
    before: BitsPerSecond,
    /// Subflows that the actions set to backup.
    backups: Vec<Removal>,
}

#[derive(Default)]
struct Watched {
    known: Known,
    watches: Vec<Watch>,
    /// Times of the removals that were decided in the last minute.
    recent: VecDeque<Nanos>,
}

/// Decides which subflows to remove from the connections of a host.
#[derive(Default)]
pub(crate) struct Eliminator {
    policy: EliminationPolicy,
    /// Time of the latest snapshot.
    now: Nanos,
    paths: Paths,
    connections: BTreeMap<ConnectionId, Watched>,
    /// Connections from which nothing more is removed, and since when: an action reduced the throughput of its link, or
    /// a removal failed. Idle connections stay here although snapshots omit them.
    left_alone: BTreeMap<ConnectionId, Nanos>,
}

impl Eliminator {
    pub(crate) fn new(policy: EliminationPolicy) -> Self {
        Self { policy, ..Self::default() }
    }

    /// Whether the throughput of a link of a connection is being watched after an action.
    pub(crate) fn is_watching(&self, id: ConnectionId) -> bool {
        self.connections.get(&id).is_some_and(|watched| !watched.watches.is_empty())
    }

    /// Whether a connection is left alone: nothing more is removed from it.
    pub(crate) fn is_left_alone(&self, id: ConnectionId) -> bool {
        self.left_alone.contains_key(&id)
    }

    /// Evaluates a snapshot. `all`: all its connections. `connections`: its MPTCP connections that can send. `true`: subflows may be removed
    /// from the connection. `false`: only the watch after an earlier action continues. A connection that `connections` does not contain is
    /// forgotten, so pass it while [`Self::is_watching`] is true.
    pub(crate) fn decide(
        &mut self,
        at: Nanos,
        all: &[Connection],
        connections: &[(&Connection, bool)],
    ) -> Vec<Decision> {
        self.now = at;
        self.paths.update(at, all);
        self.forget(&connections.iter().map(|(connection, _)| connection.id).collect());
        let mut decisions = Vec::new();
        for (connection, _) in connections {
            let watched = self.connections.entry(connection.id).or_default();
            watched.update(at, connection, &self.paths, &self.policy);
            for (decision, link) in watched.judge(at, connection.id, &self.paths) {
                if matches!(decision, Decision::Record(_, EliminationStep::LeftAlone(_))) {
                    self.left_alone.insert(connection.id, at);
                    self.paths.reduced.extend(link.iter().map(|path| (*path, at)));
                }
                decisions.push(decision);
            }
        }
        for (connection, _) in connections.iter().filter(|(_, is_selected)| *is_selected) {
            let Some(watched) = self.connections.get_mut(&connection.id) else { continue };
            if !self.left_alone.contains_key(&connection.id) {
                let removals = watched.due_removals(at, connection, &self.paths, &self.policy);
                decisions
                    .extend(removals.into_iter().map(|removal| Decision::Remove(connection.id, removal)));
            }
        }
        decisions
    }

    /// Forgets connections that are not in `present`, paths after their minute, and the oldest of too many connections that are left alone.
    fn forget(&mut self, present: &BTreeSet<ConnectionId>) {
        self.connections.retain(|id, _| present.contains(id));
        self.paths.reduced.retain(|_, since| self.now.since(*since) < MINUTE);
        while self.left_alone.len() > MAX_LEFT_ALONE {
            let oldest = self.left_alone.iter().min_by_key(|(_, since)| **since).map(|(id, _)| *id);
            oldest.map(|id| self.left_alone.remove(&id));
        }
    }

    /// Records whether the kernel carried out a removal that the last call of [`Self::decide`] returned. `Some(false)`: nothing was changed, and
    /// a later call may decide the removal again. `None`: the removal failed. Not called in a dry run.
    pub(crate) fn report(&mut self, connection: ConnectionId, removal: &Removal, is_done: Option<bool>) {
        let Some(watched) = self.connections.get_mut(&connection) else { return };
        match is_done {
            Some(true) => watched.watch(self.now, removal, &self.paths),
            Some(false) => {
                watched.known.decided.remove(&removal.removed.subflow);
                watched.recent.pop_back();
            }
            None => {
                self.left_alone.insert(connection, self.now);
            }
        }
    }
}

impl Watched {
    fn update(&mut self, at: Nanos, connection: &Connection, paths: &Paths, policy: &EliminationPolicy) {
        let Known { history, stability, decided } = &mut self.known;
        history.add(at, connection);
        let pairs = connection.bottlenecks.iter().flat_map(|found| &found.pairs);
        stability.update(at, pairs.filter(|pair| select::is_sufficient(connection, pair, paths, policy)));
        let open = || connection.subflows.iter().filter(|subflow| subflow.closed.is_none());
        decided.retain(|id| open().any(|subflow| subflow.id == *id));
        while self.recent.front().is_some_and(|then| at.since(*then) >= MINUTE) {
            self.recent.pop_front();
        }
    }

    /// Adds a removal to the watch of its link.
    fn watch(&mut self, at: Nanos, removal: &Removal, paths: &Paths) {
        let link = paths.link(&removal.group);
        let known = self.watches.iter().position(|watch| !watch.link.is_disjoint(&link));
        let mut watch = known.map(|place| self.watches.swap_remove(place)).unwrap_or_default();
        watch.since = at;
        watch.link.extend(link);
        watch.before = paths.rate(&watch.link, Nanos(0));
        watch.backups.extend((removal.action == EliminationAction::Backup).then(|| removal.clone()));
        self.watches.push(watch);
    }

    /// Compares the throughput of links since the watched actions with the throughput before. Returns decisions and links of watches that end.
    fn judge(&mut self, at: Nanos, id: ConnectionId, paths: &Paths) -> Vec<(Decision, BTreeSet<Path>)> {
        let mut ended = Vec::new();
        self.watches.retain_mut(|watch| {
            let (elapsed, after) = (at.since(watch.since), paths.rate(&watch.link, watch.since));
            let left = after.0 as f64 / watch.before.0 as f64;
            let has_dropped =
                left < MIN_THROUGHPUT && elapsed >= WATCH || left < MIN_THROUGHPUT_EARLY && elapsed >= EARLY;
            if !has_dropped && elapsed < WATCH {
                return true;
            }
            let throughput = Throughput { before: watch.before, after };
            let step = if has_dropped {
                EliminationStep::LeftAlone(throughput)
            } else {
                EliminationStep::Confirmed(throughput)
            };
            ended.push((Decision::Record(id, step), std::mem::take(&mut watch.link)));
            let undone = watch.backups.drain(..).filter(|_| has_dropped);
            ended.extend(undone.map(|removal| (Decision::Undo(id, removal), BTreeSet::new())));
            false
        });
        ended
    }

    /// The removals that are due now. They count against the limit per minute.
    fn due_removals(
        &mut self,
        at: Nanos,
        connection: &Connection,
        paths: &Paths,
        policy: &EliminationPolicy,
    ) -> Vec<Removal> {
        if self.known.history.duration() < MIN_BASELINE {
            return Vec::new();
        }
        let is_free = |path: &Path| {
            !paths.reduced.contains_key(path) && self.watches.iter().all(|watch| !watch.link.contains(path))
        };
        let mut removals = select::removals(at, connection, &self.known, policy);
        removals.retain(|removal| paths.link(&removal.group).iter().all(is_free));
        let limit = usize::try_from(policy.max_per_minute).unwrap_or(usize::MAX);
        removals.truncate(limit.saturating_sub(self.recent.len()));
        self.recent.extend(removals.iter().map(|_| at));
        self.known.decided.extend(removals.iter().map(|removal| removal.removed.subflow));
        removals
    }
}
