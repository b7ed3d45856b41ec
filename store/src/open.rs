// SPDX-License-Identifier: MIT OR Apache-2.0
//! Opens a database file: one of mpwatch, of a version that is known, and for writing by one process at a time.

use std::fs::{File, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _, fchown};
use std::path::Path;
use std::time::Duration;

use rusqlite::backup::Backup;
use rusqlite::{Connection, OpenFlags};

use crate::error::{MAY_WRITE, StoreError, beside};
use crate::lock::Lock;
use crate::schema::create::{self as schema, VERSION};

/// "mpw1" in the header of the file: a database of another program is neither read nor written.
const APPLICATION: i32 = i32::from_be_bytes(*b"mpw1");
/// How long a reader waits for a writer.
const READER_TIMEOUT: Duration = Duration::from_secs(5);
/// How long the writer waits for another program; then connections wait in memory.
const WRITER_TIMEOUT: Duration = Duration::from_millis(500);

/// Creates an empty file for a database, unless it exists: readable by its owner and by `group`, because it shows which hosts communicate.
pub fn create(path: &Path, group: Option<u32>) -> io::Result<()> {
    let file = match File::options().write(true).create_new(true).mode(0o600).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(()),
        Err(error) => return Err(error),
    };
    // A user who may not give it to the group keeps it.
    if group.is_some() && fchown(&file, None, group).is_ok() {
        file.set_permissions(Permissions::from_mode(0o640))?;
    }
    Ok(())
}

/// Opens for writing: creates the file, or upgrades it. The lock must be kept while the file is open.
pub(crate) fn for_writing(path: &Path) -> Result<(Connection, Lock), StoreError> {
    refuse_folder(path)?;
    let lock = Lock::take(path)?;
    let refused = |error: rusqlite::Error| StoreError::open(path, &error, None);
    // SQLite would create it readable for all users; it gives the files beside it the permissions of the file. What fails here, it reports.
    let _ = create(path, None);
    lock.share_with_readers_of(path);
    let database = Connection::open(path).map_err(refused)?;
    // SQLite opens a write-protected file for reading, and would report that only when the first connection is written.
    if database.is_readonly("main").map_err(refused)? {
        return Err(StoreError {
            is_denied: true,
            ..StoreError::refused(path, "it may only be read", MAY_WRITE)
        });
    }
    let found = check(path, &database)?;
    prepare(&database, found).map_err(refused)?;
    upgrade(path, &database, found)?;
    if found != 0 && found < VERSION {
        // Gives back the room of the old tables; nothing is lost if that fails.
        let _ = database.execute_batch("PRAGMA incremental_vacuum");
    }
    // Reads a page of each table, so that a damaged file is reported when it is opened.
    let probe =
        "SELECT (SELECT count(*) FROM (SELECT 1 FROM connection LIMIT 1)), (SELECT count(*) FROM run)";
    database.query_row(probe, [], |_| Ok(())).map_err(refused)?;
    Ok((database, lock))
}

/// Opens for reading, also on a read-only file system. With the stamp of the file if no process writes it.
pub(crate) fn for_reading(path: &Path) -> Result<(Connection, Option<Stamp>), StoreError> {
    if !path.exists() {
        let advice = "`mpwatch daemon`, `mpwatch record --db FILE` or `mpwatch replay RECORDING --db FILE` creates one";
        return Err(StoreError::refused(path, "there is no such file", advice));
    }
    refuse_folder(path)?;
    // A file without a log has no writer, so nothing is created beside it. The log of a killed writer needs its shared memory.
    let stamp = stamp_without_writer(path);
    let how = if stamp.is_some() { "immutable=1" } else { "mode=ro" };
    let open = || {
        let flags =
            OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let database = Connection::open_with_flags(format!("{}?{how}", uri(path)), flags)?;
        database.busy_timeout(READER_TIMEOUT)?;
        version(&database)?;
        Ok(database)
    };
    let database = open().map_err(|error: rusqlite::Error| StoreError::open(path, &error, None))?;
    match check(path, &database)? {
        0 => Err(StoreError::not_ours(path, "it is empty")),
        VERSION => Ok((database, stamp)),
        found => Ok((upgraded_copy(path, &database, found)?, stamp)),
    }
}

/// SQLite would report an I/O error.
fn refuse_folder(path: &Path) -> Result<(), StoreError> {
    if !path.is_dir() {
        return Ok(());
    }
    let advice = format!("name a file in it, such as {}", path.join("flows.db").display());
    Err(StoreError::refused(path, "it is a folder", &advice))
}

/// Reading does not change a file of an earlier version: a copy in memory is upgraded.
fn upgraded_copy(path: &Path, database: &Connection, found: i64) -> Result<Connection, StoreError> {
    let copy = || {
        let mut copy = Connection::open_in_memory()?;
        Backup::new(database, &mut copy)?.run_to_completion(i32::MAX, Duration::ZERO, None)?;
        Ok(copy)
    };
    let copy = copy().map_err(|error: rusqlite::Error| StoreError::open(path, &error, None))?;
    upgrade(path, &copy, found)?;
    Ok(copy)
}

fn upgrade(path: &Path, database: &Connection, found: i64) -> Result<(), StoreError> {
    let advice = "the file is as it was before; remove the cause and try again";
    schema::upgrade(database, found).map_err(|error| StoreError::open(path, &error, Some(advice)))
}

/// What changes when a file is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    length: u64,
    changed: (i64, i64),
}

/// `None`: the file has a log, so a process may be writing it.
pub(crate) fn stamp_without_writer(path: &Path) -> Option<Stamp> {
    let has_log = std::fs::metadata(beside(path, "-wal")).is_ok_and(|log| log.len() > 0);
    let found = std::fs::metadata(path).ok().filter(|_| !has_log)?;
    Some(Stamp { length: found.len(), changed: (found.mtime(), found.mtime_nsec()) })
}

/// A path as a URI, in which some characters have a meaning.
fn uri(path: &Path) -> String {
    let text = path.to_string_lossy();
    let escaped = text.replace('%', "%25").replace('?', "%3f").replace('#', "%23");
    format!("file:{escaped}")
}

fn version(database: &Connection) -> rusqlite::Result<i64> {
    database.pragma_query_value(None, "user_version", |row| row.get(0))
}

/// The version of the schema; zero for a new file.
fn check(path: &Path, database: &Connection) -> Result<i64, StoreError> {
    let read = || -> rusqlite::Result<(i32, i64, i64)> {
        let application = database.pragma_query_value(None, "application_id", |row| row.get(0))?;
        let tables = database.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
        Ok((application, version(database)?, tables))
    };
    let (application, found, tables) = read().map_err(|error| StoreError::open(path, &error, None))?;
    let is_new = application == 0 && found == 0 && tables == 0;
    if !is_new && application != APPLICATION {
        return Err(StoreError::not_ours(path, "it is the database of another program"));
    }
    if found > VERSION {
        return Err(StoreError::newer(path, found));
    }
    Ok(found)
}

fn prepare(database: &Connection, found: i64) -> rusqlite::Result<()> {
    database.busy_timeout(WRITER_TIMEOUT)?;
    if found == 0 {
        // Both can only be set before the first table.
        database.pragma_update(None, "auto_vacuum", "INCREMENTAL")?;
        database.pragma_update(None, "application_id", APPLICATION)?;
    }
    // A killed process loses nothing that was committed; a crash of the machine may lose the last commits, never the file.
    database.pragma_update(None, "journal_mode", "WAL")?;
    database.pragma_update(None, "synchronous", "NORMAL")?;
    database.set_prepared_statement_cache_capacity(32);
    Ok(())
}
