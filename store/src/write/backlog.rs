// SPDX-License-Identifier: MIT OR Apache-2.0
//! Connections that wait in memory because the file could not be written.

use std::borrow::Cow;
use std::collections::BTreeMap;

use jiff::Timestamp;
use mpwatch_model::flow::connection::Connection;
use mpwatch_model::kernel::clock;

use super::changes::Change;

struct Pending {
    connection: Connection,
    seen_at: Timestamp,
    runs: i64,
}

/// The last state of each connection, by the number of its row.
#[derive(Default)]
pub(crate) struct Backlog(BTreeMap<i64, Pending>);

impl Backlog {
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Removes connections of which there are newer states.
    pub(crate) fn remove_older(&mut self, changes: &[Change<'_>]) {
        for change in changes {
            self.0.remove(&change.number);
        }
    }

    /// The connections as changes.
    pub(crate) fn changes(&self) -> Vec<Change<'_>> {
        let changes = self.0.iter().map(|(&number, pending)| {
            let Pending { connection, seen_at, runs } = pending;
            let connection = Cow::Borrowed(connection);
            Change { number, is_new: false, connection, seen_at: *seen_at, sampled: false, runs: *runs }
        });
        changes.collect()
    }

    /// Adds changes without their samples. Beyond `limit` connections, the oldest rows are dropped; returns their number.
    pub(crate) fn add(&mut self, changes: &[Change<'_>], limit: usize) -> u64 {
        for Change { number, connection, seen_at, runs, .. } in changes {
            let connection = connection.as_ref().clone();
            self.0.insert(*number, Pending { connection, seen_at: *seen_at, runs: *runs });
        }
        let mut dropped = 0;
        while self.0.len() > limit {
            self.0.pop_first();
            dropped += 1;
        }
        dropped
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    /// Moves all times by nanoseconds.
    pub(crate) fn shift(&mut self, by_ns: i64) {
        for pending in self.0.values_mut() {
            pending.connection.shift(by_ns);
            pending.seen_at = clock::shifted(pending.seen_at, by_ns);
        }
    }
}
