// SPDX-License-Identifier: MIT OR Apache-2.0
//! One round of elimination: decides on a snapshot, has the decisions carried out, and returns what happened.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use jiff::Timestamp;
use mpwatch_engine::elimination::{ConnectionState, Decision, Eliminator, Outcome, Policy};
use mpwatch_model::flow::connection::Connection;
use mpwatch_model::flow::elimination::{EliminationRecord, EliminationStep, Removal};
use mpwatch_model::id::{ConnectionId, SubflowId};
use mpwatch_model::snapshot::Snapshot;
use serde::Serialize;

use super::actuator::{Actuator, Target};

/// Whether subflows are removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Nothing is changed.
    DryRun,
    On,
}

pub(crate) struct Driver {
    eliminator: Eliminator,
    mode: Mode,
    actuator: Box<dyn Actuator>,
}

/// A step, and what people want to know of its connection.
pub(crate) struct Happened {
    pub(crate) record: EliminationRecord,
    at: Timestamp,
    netns: String,
    ends: String,
    numbers: BTreeMap<SubflowId, usize>,
}

/// A line of `--json`.
#[derive(Serialize)]
pub(crate) struct Event<'a> {
    at: Timestamp,
    connection: ConnectionId,
    netns: &'a str,
    #[serde(flatten)]
    step: &'a EliminationStep,
}

impl Driver {
    pub(crate) fn new(policy: Policy, mode: Mode, actuator: Box<dyn Actuator>) -> Self {
        Self { eliminator: Eliminator::new(policy), mode, actuator }
    }

    /// Takes a snapshot. Subflows are removed from selected connections only. A watch after a removal goes on also if its connection is no
    /// longer selected: a filter may select by rate or by the number of subflows, which the removal has changed.
    pub(crate) fn step(
        &mut self,
        snapshot: &Snapshot,
        is_selected: &dyn Fn(&Connection) -> bool,
    ) -> Vec<Happened> {
        let state = |connection: &Connection| {
            let is_selected = is_selected(connection);
            let is_wanted = is_selected || self.eliminator.is_watching(connection.id);
            is_wanted.then(|| ConnectionState::of(connection, is_selected)).flatten()
        };
        let (states, known): (Vec<ConnectionState>, BTreeMap<ConnectionId, &Connection>) = snapshot
            .connections
            .iter()
            .filter_map(|connection| Some((state(connection)?, (connection.id, connection))))
            .unzip();
        let decisions = self.eliminator.decide(snapshot.boot_time(), &states);
        let mut failed = BTreeSet::new();
        let carried_out = decisions.into_iter().filter_map(|decision| {
            // After a failure, the connection is left alone at once.
            if matches!(&decision, Decision::Remove(id, _) if failed.contains(id)) {
                return None;
            }
            let (id, step) = self.carry_out(decision, &known)?;
            if matches!(step, EliminationStep::Failed { .. }) {
                failed.insert(id);
            }
            let record = EliminationRecord { at: snapshot.boot_time(), connection: id, step };
            Some(Happened::new(record, snapshot.at, known.get(&id)?))
        });
        carried_out.collect()
    }

    fn carry_out(
        &mut self,
        decision: Decision,
        known: &BTreeMap<ConnectionId, &Connection>,
    ) -> Option<(ConnectionId, EliminationStep)> {
        let target = |id: &ConnectionId| known.get(id).map(|connection| Target::from(*connection));
        match decision {
            Decision::Record(id, step) => Some((id, step)),
            Decision::Undo(id, removal) => {
                let subflow = removal.removed.subflow;
                Some((
                    id,
                    match self.actuator.undo(&target(&id)?, &removal) {
                        Ok(()) => EliminationStep::Undone { subflow },
                        Err(error) => EliminationStep::UndoFailed { subflow, error },
                    },
                ))
            }
            Decision::Remove(id, removal) if self.mode == Mode::DryRun => {
                self.eliminator.report(id, &removal, Outcome::Planned);
                Some((id, EliminationStep::Planned(Box::new(removal))))
            }
            Decision::Remove(id, removal) => {
                let outcome = self.actuator.apply(&target(&id)?, &removal);
                let reported = if outcome.is_ok() { Outcome::Done } else { Outcome::Failed };
                self.eliminator.report(id, &removal, reported);
                Some((
                    id,
                    match outcome {
                        Ok(()) => EliminationStep::Removed(Box::new(removal)),
                        Err(error) => EliminationStep::Failed { removal: Box::new(removal), error },
                    },
                ))
            }
        }
    }
}

impl Happened {
    fn new(record: EliminationRecord, at: Timestamp, connection: &Connection) -> Self {
        let address = |address: Option<std::net::SocketAddr>| {
            address.map_or_else(|| "?".to_owned(), |one| one.to_string())
        };
        let numbers = (1..).zip(&connection.subflows).map(|(number, subflow)| (subflow.id, number));
        Self {
            record,
            at,
            netns: connection.netns.clone(),
            ends: format!("{} -> {}", address(connection.local), address(connection.remote)),
            numbers: numbers.collect(),
        }
    }

    pub(crate) fn event(&self) -> Event<'_> {
        let EliminationRecord { connection, step, .. } = &self.record;
        Event { at: self.at, connection: *connection, netns: &self.netns, step }
    }
}

impl fmt::Display for Happened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |id: SubflowId| self.numbers.get(&id).map_or_else(|| id.to_string(), ToString::to_string);
        let EliminationRecord { connection, step, .. } = &self.record;
        let what = step.describe(&name);
        write!(f, "{:.3}  {}  {} in {}: {what}", self.at, connection.short(), self.ends, self.netns)?;
        match step.removal() {
            Some(Removal { removed, kept, .. }) => write!(
                f,
                " (removed {} -> {}, kept {} -> {})",
                removed.local, removed.remote, kept.local, kept.remote
            ),
            None => Ok(()),
        }
    }
}
