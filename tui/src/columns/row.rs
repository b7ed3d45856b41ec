// SPDX-License-Identifier: MIT OR Apache-2.0
//! A row: a connection, one of its subflows, or an aggregate.

use mpwatch_model::flow::connection::Connection;
use mpwatch_model::flow::subflow::Subflow;
use mpwatch_model::host::energy::FlowEnergy;

use crate::aggregate::Aggregate;
use crate::context::Context;
use crate::history::{Series, Track};

/// How the row of a connection shows its subflows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fold {
    /// Subflows are in rows below the connection.
    Open,
    /// Subflows are hidden.
    Folded,
    /// The row has no fold marker: the user cannot fold or unfold the subflows.
    Never,
}

#[derive(Clone, Copy)]
pub(crate) enum Subject<'a> {
    Connection(&'a Connection, Fold),
    Subflow {
        connection: &'a Connection,
        index: usize,
        subflow: &'a Subflow,
    },
    Aggregate {
        sums: &'a Aggregate,
        /// Rate in each tick; empty unless the row is drawn.
        rates: &'a [f32],
        /// Mean of the latest rates; zero unless rows are sorted by this mean.
        recent: f64,
    },
}

/// A row, with the data that its cells read.
#[derive(Clone, Copy)]
pub(crate) struct Row<'a> {
    pub(crate) context: Context<'a>,
    pub(crate) subject: Subject<'a>,
}

impl<'a> Row<'a> {
    /// A row of an aggregate without rates over time.
    pub(crate) fn aggregate(context: Context<'a>, sums: &'a Aggregate, recent: f64) -> Self {
        Self { context, subject: Subject::Aggregate { sums, rates: &[], recent } }
    }

    /// The connection; for a subflow, the connection that it belongs to.
    pub(super) fn connection(&self) -> Option<&'a Connection> {
        match self.subject {
            Subject::Connection(connection, _) | Subject::Subflow { connection, .. } => Some(connection),
            Subject::Aggregate { .. } => None,
        }
    }

    pub(super) fn sums(&self) -> Option<&'a Aggregate> {
        if let Subject::Aggregate { sums, .. } = self.subject { Some(sums) } else { None }
    }

    /// Current rates of sending and receiving, bit/s; zero once closed. `None`: unknown.
    pub(super) fn rates(&self) -> Option<(u64, u64)> {
        let (send, receive) = match self.subject {
            Subject::Connection(connection, _) => (connection.send?.0, connection.receive?.0),
            Subject::Subflow { subflow, .. } => (subflow.send?.0, subflow.receive?.0),
            Subject::Aggregate { sums, .. } => (sums.send?.0, sums.receive?.0),
        };
        Some(if self.is_closed() { (0, 0) } else { (send, receive) })
    }

    pub(super) fn energy(&self) -> Option<FlowEnergy> {
        match self.subject {
            Subject::Connection(connection, _) => connection.energy,
            Subject::Subflow { subflow, .. } => subflow.energy,
            Subject::Aggregate { sums, .. } => sums.energy(),
        }
    }

    /// `~` if the energy is an estimate, otherwise empty.
    pub(super) fn estimate_mark(&self) -> &'static str {
        self.energy().map_or("", |energy| energy.source.mark())
    }

    /// Current power above idle, in watts. `None`: unknown or closed.
    pub(super) fn watts(&self) -> Option<f64> {
        match self.subject {
            _ if self.is_closed() => None,
            Subject::Aggregate { sums, .. } => sums.watts,
            _ => self.track()?.watts(self.context.tick),
        }
    }

    fn track(&self) -> Option<Track<'a>> {
        match self.subject {
            Subject::Connection(connection, _) => self.context.history.connections.get(connection.id),
            Subject::Subflow { subflow, .. } => self.context.history.subflows.get(subflow.id),
            Subject::Aggregate { .. } => None,
        }
    }

    /// The row's rate over time, and the connection's rate over time. The second determines the scale, so that subflows are comparable.
    pub(super) fn trend(&self) -> (Vec<f32>, Vec<f32>) {
        if let Subject::Aggregate { rates, .. } = self.subject {
            return (rates.to_vec(), rates.to_vec());
        }
        let values = |track: Option<Track<'_>>| {
            track.map(|track| track.values(Series::Rate, self.context.tick)).unwrap_or_default()
        };
        let whole =
            self.connection().and_then(|connection| self.context.history.connections.get(connection.id));
        (values(self.track()), values(whole))
    }

    /// Mean of the latest rates.
    pub(super) fn recent(&self) -> f64 {
        match self.subject {
            Subject::Aggregate { recent, .. } => recent,
            _ => self.track().map_or(0.0, |track| track.recent(self.context.tick)),
        }
    }

    /// Whether the connection or subflow of this row has closed.
    pub(crate) fn is_closed(&self) -> bool {
        let subflow_closed =
            matches!(self.subject, Subject::Subflow { subflow, .. } if subflow.closed.is_some());
        subflow_closed || self.connection().is_some_and(|connection| !connection.is_open())
    }
}
