// SPDX-License-Identifier: MIT OR Apache-2.0
//! The database file, which its writer owns. Commits changes in transactions, numbers them, bounds the log, and detects that the file was
//! removed or replaced.

use std::fs::File;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;

use jiff::Timestamp;
use mpwatch_model::snapshot::Snapshot;
use nix::fcntl::{FallocateFlags, fallocate};
use rusqlite::{Connection as Database, params};

use super::changes::Change;
use super::clock::follow_clock;
use super::limits::Limits;
use super::retention::{Retention, used_bytes};
use crate::error::{is_full, with_suffix};
use crate::lock::{identity, is_still};
use crate::open::configure;
use crate::schema::names::KnownNames;
use crate::schema::record::{Key, sample_rows};
use crate::schema::rows::RunRow;
use crate::schema::sql::Insertions;
use crate::schema::tables::next_number;
use crate::schema::values::nanos;

/// Run N numbers its changes from N times this number, so that the numbers of two runs differ without a lookup.
const CHANGES_PER_RUN: i64 = 1 << 36;

/// Size of a reserve file. When the disk is full, it is deleted to make room for merging the log, so that old connections can be deleted.
const RESERVE_BYTES: i64 = 4 << 20;
/// The part of the reserve that stays for the row of the run.
const LAST_RESERVE_BYTES: i64 = 256 << 10;

pub(crate) struct DatabaseFile {
    pub(crate) database: Database,
    path: PathBuf,
    identity: Option<(u64, u64)>,
    /// Identity of the log. `None`: the database is closed.
    log: Option<(u64, u64)>,
    pub(super) names: KnownNames,
    pub(crate) retention: Retention,
    /// The file with the reserve.
    reserve: PathBuf,
    /// Number of the run that is written.
    pub(crate) run: i64,
    pub(super) next_change: i64,
    /// The last row that was checked for an end while mpwatch was not running: see `unobserved.rs`.
    pub(super) checked: i64,
}

impl DatabaseFile {
    /// Begins a new run in a database.
    pub(crate) fn new(database: Database) -> rusqlite::Result<Self> {
        let path = PathBuf::from(database.path().unwrap_or_default());
        // Creates the log too.
        let run = next_number(&database, "run")?;
        let [identity, log] = [path.clone(), with_suffix(&path, "-wal")].map(identity_of);
        let (reserve, next_change) = (with_suffix(&path, "-reserve"), run.saturating_mul(CHANGES_PER_RUN));
        let (names, retention) = (KnownNames::default(), Retention::default());
        let file =
            Self { database, path, identity, log, names, retention, reserve, run, next_change, checked: 0 };
        file.reserve_space(RESERVE_BYTES);
        Ok(file)
    }

    /// Replaces the reserve by one of this size, if there is room for it. A link that another user has put there is not followed.
    pub(crate) fn reserve_space(&self, bytes: i64) {
        let _ = std::fs::remove_file(&self.reserve);
        let file = File::options().create_new(true).write(true).mode(0o600).open(&self.reserve);
        if file.is_ok_and(|file| fallocate(file, FallocateFlags::empty(), 0, bytes).is_err()) {
            let _ = std::fs::remove_file(&self.reserve);
        }
    }

    /// Makes room for the last connections. The log is merged now and after each transaction, so that it needs little of this room. Later attempts
    /// to write do not wait long for another program.
    pub(crate) fn use_reserve(&self) {
        self.reserve_space(LAST_RESERVE_BYTES);
        let _ = self.database.execute_batch("PRAGMA busy_timeout = 50; PRAGMA wal_autocheckpoint = 1");
        self.merge_log();
    }

    /// Writes changes in one transaction, together with the row of the run. Without `run_row`, updates only the end time of the run.
    pub(crate) fn commit<'c>(
        &mut self,
        at: Timestamp,
        run_row: Option<&RunRow>,
        changes: impl Iterator<Item = &'c Change<'c>>,
        limits: &Limits,
    ) -> rusqlite::Result<()> {
        // SQLite would continue to write a deleted file.
        self.check_identity()?;
        self.restore_log()?;
        self.bound_log(limits)?;
        let result = self.write(at, run_row, changes);
        if result.is_err() {
            // The numbers of names may have been assigned in the transaction that was rolled back.
            self.names.forget();
        }
        // If the file was removed during the write, the commit is lost. If the file is moved back, the rows are written twice, which changes only
        // the count of lost samples.
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

    /// Fails if the log is larger than the file may be. The log grows while a program reads the file in one transaction.
    fn bound_log(&self, limits: &Limits) -> rusqlite::Result<()> {
        let limit = limits.bytes.map_or(u64::MAX, |bytes| bytes.max(RESERVE_BYTES.unsigned_abs()));
        if self.log_bytes() <= limit {
            return Ok(());
        }
        self.merge_log();
        if self.log_bytes() <= limit {
            return Ok(());
        }
        let why = "the log is as large as the file may be, because a program reads it in one long transaction; end that program";
        Err(rusqlite::Error::ToSqlConversionFailure(why.into()))
    }

    fn log_bytes(&self) -> u64 {
        std::fs::metadata(with_suffix(&self.path, "-wal")).map_or(0, |log| log.len())
    }

    /// Moves the times of this boot to the calendar of a snapshot.
    pub(crate) fn follow_clock(&mut self, snapshot: &Snapshot) -> rusqlite::Result<()> {
        follow_clock(&self.database, snapshot, &mut self.next_change)
    }

    /// Deletes connections beyond the limits, also when the disk is full.
    pub(crate) fn enforce_limits(&mut self, limits: &Limits, now_ns: i64) -> rusqlite::Result<()> {
        let first = self.retention.enforce(&self.database, limits, now_ns, &mut self.names);
        if !first.as_ref().is_err_and(is_full) {
            return first;
        }
        let _ = std::fs::remove_file(&self.reserve);
        self.merge_log();
        let second = self.retention.enforce(&self.database, limits, now_ns, &mut self.names);
        self.merge_log();
        self.reserve_space(RESERVE_BYTES);
        second
    }

    /// Bytes in use, including the log. `None`: SQLite reported an error.
    pub(crate) fn used_bytes(&self) -> Option<u64> {
        used_bytes(&self.database).ok().map(|used| used.unsigned_abs() + self.log_bytes())
    }

    /// Merges the log into the file. Committed rows are safe without this.
    pub(crate) fn merge_log(&self) {
        let _ = self.database.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)");
    }

    /// If the log was removed, merges it into the file, and opens the file again with a new log. Nothing is lost.
    fn restore_log(&mut self) -> rusqlite::Result<()> {
        let log = with_suffix(&self.path, "-wal");
        if self.log.is_some_and(|identity| is_still(&log, identity)) {
            return Ok(());
        }
        let is_busy = self.database.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0))?;
        if is_busy {
            return Err(rusqlite::Error::ToSqlConversionFailure(
                "its log was removed, and cannot be merged while a program reads the file".into(),
            ));
        }
        // The removed log must be closed first.
        (self.database, self.log) = (Database::open_in_memory()?, None);
        self.database = Database::open(&self.path)?;
        configure(&self.database, false)?;
        next_number(&self.database, "run")?;
        self.log = identity_of(log);
        Ok(())
    }

    /// Fails if the file was removed or replaced.
    fn check_identity(&self) -> rusqlite::Result<()> {
        let is_there = self.identity.is_none_or(|identity| is_still(&self.path, identity));
        if is_there { Ok(()) } else { Err(rusqlite::Error::InvalidPath(self.path.clone())) }
    }
}

fn identity_of(path: PathBuf) -> Option<(u64, u64)> {
    std::fs::metadata(path).ok().map(|metadata| identity(&metadata))
}

impl Drop for DatabaseFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.reserve);
    }
}
