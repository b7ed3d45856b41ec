// SPDX-License-Identifier: MIT OR Apache-2.0
//! A row of the table of connections.

use mpwatch_model::id::ConnectionId;

use crate::columns::{Fold, Row, Subject};
use crate::context::{Context, Location};

/// A connection or a subflow in the table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FlowRow {
    pub(crate) location: Location,
    pub(crate) id: ConnectionId,
    /// Index of the subflow. `None`: the row of the connection itself.
    pub(crate) subflow: Option<usize>,
}

impl FlowRow {
    /// The row with the data that its cells read. `None`: the connection is no longer remembered.
    pub(crate) fn row(self, context: Context<'_>, fold: Fold) -> Option<Row<'_>> {
        let found = context.connection(self.location).filter(|connection| connection.id == self.id);
        let connection = found.or_else(|| context.find(self.id))?;
        let subject = match self.subflow {
            None => Subject::Connection(connection, fold),
            Some(index) => Subject::Subflow { connection, index, subflow: connection.subflows.get(index)? },
        };
        Some(Row { context, subject })
    }
}
