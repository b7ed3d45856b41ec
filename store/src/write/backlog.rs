// SPDX-License-Identifier: MIT OR Apache-2.0
//! Connections that wait in memory because the file could not be written.

use std::borrow::Cow;
use std::collections::BTreeMap;

use mpwatch_model::kernel::clock;

use super::changes::Change;

/// The last change of each connection, by the number of its row, without its sample.
#[derive(Default)]
pub(crate) struct Backlog(pub(super) BTreeMap<i64, Change<'static>>);

impl Backlog {
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Adds changes. Beyond `limit` connections, the oldest rows are dropped; returns their number.
    pub(crate) fn add(&mut self, changes: &[Change<'_>], limit: usize) -> u64 {
        for &Change { number, ref connection, seen_at, runs, .. } in changes {
            let connection = Cow::Owned(connection.as_ref().clone());
            let change = Change { number, is_new: false, connection, seen_at, sampled: false, runs };
            self.0.insert(number, change);
        }
        let dropped = self.0.len().saturating_sub(limit);
        self.remove_first(dropped);
        dropped as u64
    }

    pub(crate) fn remove_first(&mut self, count: usize) {
        (0..count).for_each(|_| drop(self.0.pop_first()));
    }

    /// Adds `by_ns` to all times.
    pub(crate) fn shift(&mut self, by_ns: i64) {
        for change in self.0.values_mut() {
            change.connection.to_mut().shift(by_ns);
            change.seen_at = clock::shifted(change.seen_at, by_ns);
        }
    }
}
