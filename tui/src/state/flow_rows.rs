// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rows of connections with their subflows. Only the first row of each connection is stored: of tens of thousands, some dozens are read.

use mpwatch_model::id::ConnectionId;

use crate::columns::{Fold, Row, Subject};
use crate::context::{Context, Location};

#[derive(Clone, Copy, Debug)]
pub(crate) struct FlowRow {
    pub(crate) location: Location,
    pub(crate) id: ConnectionId,
    /// Index of the subflow. `None`: the row of the connection itself.
    pub(crate) subflow: Option<usize>,
}

impl FlowRow {
    /// The row with all that its cells read. `None`: the connection is no longer remembered.
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

#[derive(Clone, Copy, Debug)]
struct Block {
    location: Location,
    id: ConnectionId,
    first_row: usize,
}

/// All rows of a table.
#[derive(Clone, Debug, Default)]
pub(crate) struct FlowRows {
    blocks: Vec<Block>,
    len: usize,
}

impl FlowRows {
    pub(crate) fn with_capacity(connections: usize) -> Self {
        Self { blocks: Vec::with_capacity(connections), len: 0 }
    }

    /// Adds a connection with rows for this many subflows.
    pub(crate) fn push(&mut self, location: Location, id: ConnectionId, subflows: usize) {
        self.blocks.push(Block { location, id, first_row: self.len });
        self.len += 1 + subflows;
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn connections(&self) -> usize {
        self.blocks.len()
    }

    pub(crate) fn get(&self, index: usize) -> Option<FlowRow> {
        let after = self.blocks.partition_point(|block| block.first_row <= index);
        let block = self.blocks.get(after.checked_sub(1)?).filter(|_| index < self.len)?;
        let subflow = (index - block.first_row).checked_sub(1);
        Some(FlowRow { location: block.location, id: block.id, subflow })
    }

    /// The first row of a connection.
    pub(crate) fn first(&self, id: ConnectionId) -> Option<(usize, FlowRow)> {
        let block = self.blocks.iter().find(|block| block.id == id)?;
        Some((block.first_row, FlowRow { location: block.location, id, subflow: None }))
    }
}
