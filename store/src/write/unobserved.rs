// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds connections that ended while mpwatch was not running: earlier runs left their rows open, and this run does not list them.

use mpwatch_model::id::ConnectionId;
use mpwatch_model::kernel::lifecycle::Protocol;
use mpwatch_model::snapshot::Snapshot;
use rusqlite::params;

use super::earlier::RunStart;
use super::end::ended;
use super::file::DatabaseFile;
use crate::schema::record::Key;
use crate::schema::sql::{Insertions, Loader};
use crate::schema::values::nanos;

/// Maximum number of rows that are checked after one batch.
const CHECKED_AT_ONCE: u32 = 500;

/// Open connections of runs that ended before this run began, on this boot (the last column) or on another boot of this host.
const LEFT_OPEN: &str = "SELECT c.id, r.boot_id = ?2 FROM connection AS c JOIN run AS r ON r.id = c.run
    WHERE c.id > ?1 AND c.closed = 0 AND r.id <> ?3 AND r.to_ns <= ?4 AND r.boot_id <> '' AND (r.boot_id = ?2 OR r.host = ?5)
    ORDER BY c.id LIMIT ?6";

impl DatabaseFile {
    /// Ends the next rows that earlier runs left open and whose connections this run does not track. Returns whether all rows were checked.
    pub(crate) fn end_left_open(
        &mut self,
        start: &RunStart,
        snapshot: &Snapshot,
        is_tracked: impl Fn(ConnectionId) -> bool,
    ) -> rusqlite::Result<bool> {
        let transaction = self.database.unchecked_transaction()?;
        let values = params![
            self.checked,
            start.boot_id,
            self.run,
            nanos(start.at),
            snapshot.host.name,
            CHECKED_AT_ONCE
        ];
        let mut query = self.database.prepare_cached(LEFT_OPEN)?;
        let found = query.query_map(values, |row| Ok((row.get(0)?, row.get(1)?)))?;
        let found = found.collect::<rusqlite::Result<Vec<(i64, bool)>>>()?;
        let Some(&(last, _)) = found.last() else { return Ok(true) };
        // A run traces plain TCP only on request.
        let has_tcp = snapshot.connections.iter().any(|connection| connection.protocol == Protocol::Tcp)
            || snapshot.idle.iter().any(|idle| idle.id().token.known().is_none());
        let loader = Loader::new(&transaction)?;
        let mut insertions = Insertions::new(&transaction, &mut self.names)?;
        for (id, is_current_boot) in found {
            // A row that cannot be read stays unchanged.
            let Ok(Some((row, connection))) = loader.load(&transaction, id) else { continue };
            let is_known = is_tracked(connection.id) || snapshot.idle.contains(connection.id);
            // This run cannot find an open connection without an open subflow, or in a namespace that it may not search.
            let is_hidden = connection.protocol == Protocol::Tcp && !has_tcp
                || connection.subflows.iter().all(|subflow| subflow.closed.is_some())
                || snapshot.losses.namespaces_unreadable > 0;
            if is_current_boot && (is_known || is_hidden) {
                continue;
            }
            self.next_change += 1;
            let seen_at = row.began + std::time::Duration::from_nanos(row.age.0);
            let key = Key { id, run: row.run, runs: row.runs, seen_at, changed: self.next_change };
            insertions.write(&ended(connection, seen_at), key, false)?;
        }
        drop(insertions);
        transaction.commit()?;
        self.checked = last;
        Ok(false)
    }
}
