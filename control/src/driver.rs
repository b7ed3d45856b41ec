// SPDX-License-Identifier: MIT OR Apache-2.0
//! One round of elimination per snapshot: decides which subflows to remove, removes them, and returns a report of each step.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;

use jiff::Timestamp;
use mpwatch_model::flow::connection::Connection;
use mpwatch_model::flow::elimination::{EliminationPolicy, EliminationRecord, EliminationStep, Removal};
use mpwatch_model::id::{ConnectionId, SubflowId};
use mpwatch_model::kernel::lifecycle::{CarriedBy, TcpState};
use mpwatch_model::snapshot::Snapshot;
use serde::Serialize;

use super::elimination::{Decision, Eliminator};
use super::kernel::{Actuator, Change};

/// Runs elimination over all connections of a host.
pub struct Driver {
    eliminator: Eliminator,
    actuator: Option<Actuator>,
}

/// An elimination step, with the namespace, addresses and subflow numbers by which a user identifies the connection.
pub struct StepReport {
    /// The step.
    pub record: EliminationRecord,
    at: Timestamp,
    netns: String,
    addresses: String,
    /// Position of each subflow in the connection, counted from 1.
    numbers: BTreeMap<SubflowId, usize>,
}

#[derive(Serialize)]
struct JsonLine<'a> {
    at: Timestamp,
    connection: ConnectionId,
    netns: &'a str,
    #[serde(flatten)]
    step: &'a EliminationStep,
}

impl Driver {
    /// Without an actuator, the driver does a dry run: it reports removals but changes nothing.
    pub fn new(policy: EliminationPolicy, actuator: Option<Actuator>) -> Self {
        Self { eliminator: Eliminator::new(policy), actuator }
    }

    /// Evaluates a snapshot and carries out the decisions. Subflows are removed from selected connections only. After a removal, the
    /// watch of the link's throughput continues even if the connection is no longer selected: the filter may select by rate or by the number
    /// of subflows, which the removal has changed.
    pub fn run(&mut self, snapshot: &Snapshot, is_selected: &dyn Fn(&Connection) -> bool) -> Vec<StepReport> {
        let can_send = |connection: &&Connection| {
            connection.is_open()
                && connection.state == TcpState::Established
                && connection.carried_by() == CarriedBy::Mptcp
        };
        let sending = snapshot.connections.iter().filter(can_send);
        let connections: Vec<(&Connection, bool)> = sending
            .map(|connection| (connection, is_selected(connection)))
            .filter(|(connection, is_selected)| *is_selected || self.eliminator.is_watching(connection.id))
            .collect();
        let decisions = self.eliminator.decide(snapshot.boot_time(), &snapshot.connections, &connections);
        let steps = decisions.into_iter().filter_map(|decision| {
            let (Decision::Remove(id, _) | Decision::Undo(id, _) | Decision::Record(id, _)) = &decision;
            let (connection, _) = connections.iter().find(|(connection, _)| connection.id == *id)?;
            // If a removal has failed, nothing more is removed from its connection.
            if matches!(decision, Decision::Remove(..)) && self.eliminator.is_left_alone(connection.id) {
                return None;
            }
            let step = self.carry_out(decision, connection)?;
            let record = EliminationRecord { at: snapshot.boot_time(), connection: connection.id, step };
            Some(StepReport::new(record, snapshot.at, connection))
        });
        steps.collect()
    }

    /// Carries out a decision. `None`: there is no step to report.
    fn carry_out(&mut self, decision: Decision, connection: &Connection) -> Option<EliminationStep> {
        match (decision, &mut self.actuator) {
            (Decision::Record(_, step), _) => Some(step),
            // In a dry run there is nothing to undo.
            (Decision::Undo(..), None) => None,
            (Decision::Undo(_, removal), Some(change)) => {
                let subflow = removal.removed.subflow;
                Some(match change(connection, &removal, Change::Undo) {
                    Ok(_) => EliminationStep::Undone { subflow },
                    Err(error) => EliminationStep::UndoFailed { subflow, error },
                })
            }
            (Decision::Remove(_, removal), None) => Some(EliminationStep::Planned(Box::new(removal))),
            (Decision::Remove(id, removal), Some(change)) => {
                let result = change(connection, &removal, Change::Apply);
                self.eliminator.report(id, &removal, result.as_ref().ok().copied());
                let removal = Box::new(removal);
                match result {
                    Ok(true) => Some(EliminationStep::Removed(removal)),
                    Ok(false) => None,
                    Err(error) => Some(EliminationStep::Failed { removal, error }),
                }
            }
        }
    }
}

impl StepReport {
    fn new(record: EliminationRecord, at: Timestamp, connection: &Connection) -> Self {
        let text =
            |address: Option<SocketAddr>| address.map_or_else(|| "?".to_owned(), |known| known.to_string());
        let numbers = (1..).zip(&connection.subflows).map(|(number, subflow)| (subflow.id, number));
        Self {
            record,
            at,
            netns: connection.netns.clone(),
            addresses: format!("{} -> {}", text(connection.local), text(connection.remote)),
            numbers: numbers.collect(),
        }
    }

    /// A line of `--json`.
    pub fn json(&self) -> impl Serialize {
        let EliminationRecord { connection, step, .. } = &self.record;
        JsonLine { at: self.at, connection: *connection, netns: &self.netns, step }
    }
}

impl fmt::Display for StepReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |id: SubflowId| self.numbers.get(&id).map_or_else(|| id.to_string(), ToString::to_string);
        let EliminationRecord { connection, step, .. } = &self.record;
        let text = step.describe(&name);
        write!(f, "{:.3}  {}  {} in {}: {text}", self.at, connection.short(), self.addresses, self.netns)?;
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
