// SPDX-License-Identifier: MIT OR Apache-2.0
//! The state of elimination: what is known of each connection, what was done to it, and how its throughput changed.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use mpwatch_model::flow::elimination::{
    EliminationAction, EliminationPolicy, EliminationStep, Removal, Throughput,
};
use mpwatch_model::id::{ConnectionId, SubflowId};
use mpwatch_model::unit::{BitsPerSecond, Bytes, Nanos};

use super::history::History;

use super::select;
use super::stability::Stability;
use super::state::ConnectionState;

/// Time after an action during which the throughput is watched.
const WATCH: Nanos = Nanos(5_000_000_000);
/// Part of the throughput that must remain after that time.
const MIN_LEFT: f64 = 0.9;
/// A connection that has lost half of its throughput by this time is not watched any longer.
const EARLY: Nanos = Nanos(2_000_000_000);
const MIN_LEFT_EARLY: f64 = 0.5;
/// Without a throughput over this time, there is nothing to compare with, so nothing is removed.
const MIN_BASELINE: Nanos = Nanos(1_000_000_000);
const MINUTE: Nanos = Nanos(60_000_000_000);
/// Maximum number of connections that are remembered as left alone. Ids are never used again, so most of these have closed.
const MAX_LEFT_ALONE: usize = 16_384;

/// Instruction to the caller: change a subflow, or record a step.
#[derive(Clone, Debug, PartialEq)]
pub enum Decision {
    /// Remove this subflow, then call [`Eliminator::report`].
    Remove(ConnectionId, Removal),
    /// End the backup role that this removal gave a subflow.
    Undo(ConnectionId, Removal),
    /// Nothing to do: the watch after an action has ended.
    Record(ConnectionId, EliminationStep),
}

impl Decision {
    /// The connection that it is about.
    pub fn connection(&self) -> ConnectionId {
        match self {
            Self::Remove(id, _) | Self::Undo(id, _) | Self::Record(id, _) => *id,
        }
    }
}

/// Result of a removal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The kernel has done it.
    Done,
    /// A dry run: nothing was changed.
    Planned,
    /// The kernel refused.
    Failed,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum Phase {
    #[default]
    Free,
    /// Actions took place at this time.
    Watching { since: Nanos, acked: Bytes, before: BitsPerSecond },
}

#[derive(Default)]
struct Watched {
    history: History,
    stability: Stability,
    phase: Phase,
    /// Subflows with a decision. Each gets only one.
    decided: BTreeSet<SubflowId>,
    /// Subflows that the watched actions set to backup.
    backups: Vec<Removal>,
    /// Time, acknowledged bytes and throughput of the latest snapshot.
    latest: (Nanos, Bytes, BitsPerSecond),
}

/// Decides over all connections of a host.
pub struct Eliminator {
    policy: EliminationPolicy,
    connections: BTreeMap<ConnectionId, Watched>,
    /// Times of the removals of the last minute.
    recent: VecDeque<Nanos>,
    /// Connections from which nothing is removed any more: an action did harm, or the kernel refused one. Also those that snapshots leave
    /// out while they are idle.
    left_alone: BTreeSet<ConnectionId>,
}

impl Eliminator {
    /// With no connection known.
    pub fn new(policy: EliminationPolicy) -> Self {
        Self { policy, connections: BTreeMap::new(), recent: VecDeque::new(), left_alone: BTreeSet::new() }
    }

    /// Whether the throughput of a connection is being watched after an action.
    pub fn is_watching(&self, id: ConnectionId) -> bool {
        self.connections.get(&id).is_some_and(|watched| watched.phase != Phase::Free)
    }

    /// Evaluates a snapshot. A connection that is missing in it is forgotten. While [`Self::is_watching`] one, it must not be left out.
    pub fn decide(&mut self, at: Nanos, states: &[ConnectionState]) -> Vec<Decision> {
        let present: BTreeSet<ConnectionId> = states.iter().map(|state| state.id).collect();
        self.connections.retain(|id, _| present.contains(id));
        while self.recent.front().is_some_and(|then| at.since(*then) >= MINUTE) {
            self.recent.pop_front();
        }
        while self.left_alone.len() > MAX_LEFT_ALONE {
            self.left_alone.pop_first();
        }
        let mut decisions = Vec::new();
        for state in states {
            let watched = self.connections.entry(state.id).or_default();
            watched.update(at, state, &self.policy);
            let judged = watched.judge(at, state);
            if judged
                .iter()
                .any(|decision| matches!(decision, Decision::Record(_, EliminationStep::LeftAlone(_))))
            {
                self.left_alone.insert(state.id);
            }
            decisions.extend(judged);
            if self.left_alone.contains(&state.id) || !state.is_selected {
                continue;
            }
            for removal in watched.candidates(at, state, &self.policy) {
                if self.recent.len() >= usize::try_from(self.policy.max_per_minute).unwrap_or(usize::MAX) {
                    break;
                }
                self.recent.push_back(at);
                watched.decided.insert(removal.removed.subflow);
                decisions.push(Decision::Remove(state.id, removal));
            }
        }
        decisions
    }

    /// Records the outcome of a removal that the latest snapshot caused.
    pub fn report(&mut self, connection: ConnectionId, removal: &Removal, outcome: Outcome) {
        let Some(watched) = self.connections.get_mut(&connection) else { return };
        match outcome {
            Outcome::Planned => {}
            Outcome::Failed => {
                self.left_alone.insert(connection);
            }
            Outcome::Done => {
                let (since, acked, before) = watched.latest;
                if watched.phase == Phase::Free {
                    watched.phase = Phase::Watching { since, acked, before };
                }
                if removal.action == EliminationAction::Backup {
                    watched.backups.push(removal.clone());
                }
            }
        }
    }
}

impl Watched {
    fn update(&mut self, at: Nanos, state: &ConnectionState, policy: &EliminationPolicy) {
        self.history.add(at, state);
        self.stability.update(at, &state.pairs, policy.probability);
        self.latest = (at, state.acked, self.history.throughput());
        self.decided.retain(|id| state.subflows.iter().any(|subflow| subflow.id == *id));
    }

    /// Compares the throughput since the watched actions with the one before them.
    fn judge(&mut self, at: Nanos, state: &ConnectionState) -> Vec<Decision> {
        let Phase::Watching { since, acked, before } = self.phase else { return Vec::new() };
        let elapsed = at.since(since);
        let after = state.acked.since(acked).per(elapsed);
        let throughput = Throughput { before, after };
        let left = after.0 as f64 / before.0 as f64;
        if left < MIN_LEFT && elapsed >= WATCH || left < MIN_LEFT_EARLY && elapsed >= EARLY {
            self.phase = Phase::Free;
            let undone = self.backups.drain(..).map(|removal| Decision::Undo(state.id, removal));
            let left_alone = Decision::Record(state.id, EliminationStep::LeftAlone(throughput));
            return std::iter::once(left_alone).chain(undone).collect();
        }
        if elapsed < WATCH {
            return Vec::new();
        }
        self.phase = Phase::Free;
        self.backups.clear();
        vec![Decision::Record(state.id, EliminationStep::Confirmed(throughput))]
    }

    fn candidates(&self, at: Nanos, state: &ConnectionState, policy: &EliminationPolicy) -> Vec<Removal> {
        if self.phase != Phase::Free || self.history.duration() < MIN_BASELINE {
            return Vec::new();
        }
        let known =
            select::Known { history: &self.history, stability: &self.stability, decided: &self.decided };
        select::removals(at, state, &known, policy)
    }
}
