// SPDX-License-Identifier: MIT OR Apache-2.0
//! The closed connections that are kept for the report of a run.

use std::collections::VecDeque;

use mpwatch_model::flow::connection::Connection;

/// Maximum number of closed connections kept for the report of a long recording. A connection with two subflows takes about 3 kB.
const MAX_ARCHIVED: usize = 50_000;

/// Whether the report of a run has a connection.
pub type Selection = Box<dyn Fn(&Connection) -> bool + Send>;

/// Closed connections, oldest first.
#[derive(Default)]
pub(super) struct Archive {
    pub(super) connections: VecDeque<Connection>,
    /// Selects the connections that are kept. `None`: all.
    pub(super) selects: Option<Selection>,
    /// Number of connections that were not selected.
    pub(super) filtered_out: usize,
}

impl Archive {
    /// Keeps a connection if it is selected. Returns whether an older one was dropped.
    pub(super) fn add(&mut self, connection: &Connection) -> bool {
        if self.selects.as_ref().is_some_and(|selects| !selects(connection)) {
            self.filtered_out += 1;
            return false;
        }
        self.connections.push_back(connection.clone());
        self.connections.len() > MAX_ARCHIVED && self.connections.pop_front().is_some()
    }
}
