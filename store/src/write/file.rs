// SPDX-License-Identifier: MIT OR Apache-2.0
//! The database file as its writer owns it. Commits changes in transactions, numbers them, and notices if the file was removed or replaced.

use std::path::PathBuf;

use jiff::Timestamp;
use rusqlite::{Connection as Database, params};

use super::changes::Change;
use super::clock::shift_run;
use super::limits::Limits;
use super::retention::{Retention, used_bytes};
use crate::lock::{identity, is_still};
use crate::schema::names::KnownNames;
use crate::schema::record::{Key, sample_rows};
use crate::schema::rows::RunRow;
use crate::schema::sql::Insertions;
use crate::schema::values::nanos;

/// Changes of run N are numbered from N times this on, so that the numbers of two runs differ without a lookup.
const CHANGES_PER_RUN: i64 = 1 << 36;

pub(crate) struct DatabaseFile {
    pub(crate) database: Database,
    path: PathBuf,
    identity: Option<(u64, u64)>,
    names: KnownNames,
    retention: Retention,
    /// Number of the run that is written.
    pub(crate) run: i64,
    next_change: i64,
}

impl DatabaseFile {
    /// Begins a new run in a database.
    pub(crate) fn new(database: Database) -> rusqlite::Result<Self> {
        let path = PathBuf::from(database.path().unwrap_or_default());
        let identity = std::fs::metadata(&path).ok().map(|metadata| identity(&metadata));
        let run = next_number(&database, "run")?;
        Ok(Self {
            database,
            path,
            identity,
            names: KnownNames::default(),
            retention: Retention::default(),
            run,
            next_change: run.saturating_mul(CHANGES_PER_RUN),
        })
    }

    /// Writes changes in one transaction, with the row of the run or only its end.
    pub(crate) fn commit<'c>(
        &mut self,
        at: Timestamp,
        run_row: Option<&RunRow>,
        changes: impl Iterator<Item = &'c Change<'c>>,
    ) -> rusqlite::Result<()> {
        // SQLite would continue to write a deleted file.
        self.check_identity()?;
        let result = self.write(at, run_row, changes);
        if result.is_err() {
            // Their numbers may have been assigned in the transaction that was rolled back.
            self.names.forget();
        }
        // If the file was removed meanwhile, the commit is lost. If the file comes back, the rows are written twice, which changes nothing
        // but the count of lost samples.
        result.and_then(|()| self.check_identity())
    }

    fn write<'c>(
        &mut self,
        at: Timestamp,
        run_row: Option<&RunRow>,
        changes: impl Iterator<Item = &'c Change<'c>>,
    ) -> rusqlite::Result<()> {
        let transaction = self.database.unchecked_transaction()?;
        let mut insertions = Insertions::new(&transaction, &mut self.names)?;
        if let Some(row) = run_row {
            insertions.insert(row)?;
        } else {
            let update = "UPDATE run SET to_ns = ? WHERE id = ?";
            transaction.prepare_cached(update)?.execute(params![nanos(at), self.run])?;
        }
        for Change { number, is_new, connection, seen_at, sampled, runs } in changes {
            self.next_change += 1;
            let (runs, seen_at) = (*runs, *seen_at);
            let key = Key { id: *number, run: self.run, runs, seen_at, changed: self.next_change };
            insertions.write(connection, key, *is_new)?;
            if *sampled {
                sample_rows(connection, key).try_for_each(|row| insertions.insert(&row))?;
            }
        }
        drop(insertions);
        transaction.commit()
    }

    /// Moves all times of the run by nanoseconds.
    pub(crate) fn shift_run(&mut self, by_ns: i64) -> rusqlite::Result<()> {
        self.next_change += 1;
        shift_run(&self.database, self.run, by_ns, self.next_change)
    }

    /// Deletes connections beyond the limits. Returns their number.
    pub(crate) fn enforce_limits(&mut self, limits: &Limits, now_ns: i64) -> rusqlite::Result<u64> {
        self.retention.enforce(&self.database, limits, now_ns, &mut self.names)
    }

    /// Bytes in use. `None`: SQLite reported an error.
    pub(crate) fn used_bytes(&self) -> Option<u64> {
        used_bytes(&self.database).ok().map(i64::unsigned_abs)
    }

    /// Merges the log into the file. Committed rows are safe without this.
    pub(crate) fn merge_log(&self) {
        let _ = self.database.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)");
    }

    /// Fails if the file was removed or replaced.
    fn check_identity(&self) -> rusqlite::Result<()> {
        let is_there = self.identity.is_some_and(|identity| is_still(&self.path, identity));
        if is_there { Ok(()) } else { Err(rusqlite::Error::InvalidPath(self.path.clone())) }
    }
}

/// The number of the next row of a table, according to the file.
pub(crate) fn next_number(database: &Database, table: &str) -> rusqlite::Result<i64> {
    database.query_row(&format!("SELECT ifnull(max(id), 0) + 1 FROM {table}"), [], |row| row.get(0))
}
