// SPDX-License-Identifier: MIT OR Apache-2.0
//! Opens a database file of mpwatch. One process at a time may write it.

use std::fs::{File, Permissions};
use std::io;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _, fchown};
use std::path::Path;
use std::time::{Duration, SystemTime};

use rusqlite::{Connection as Database, OpenFlags};

use crate::error::{ErrorKind, MAY_WRITE, StoreError, with_suffix};
use crate::lock::Lock;
use crate::schema::create::create as create_schema;
use crate::schema::tables::VERSION;

/// "mpw1" in the header of the file. A database of another program is neither read nor written.
const APPLICATION: i32 = i32::from_be_bytes(*b"mpw1");
/// How long a reader waits for a writer.
const READER_TIMEOUT: Duration = Duration::from_secs(5);
/// How long the writer waits for another program. After that, connections wait in memory.
const WRITER_TIMEOUT: Duration = Duration::from_millis(500);

/// Size of the log in pages (2 MB) at which SQLite merges the log into the file.
const LOG_PAGES: i64 = 500;

/// Creates an empty file for a database, unless it exists. Only its owner and `group` may read it, because it shows which hosts communicate.
pub fn create(path: &Path, group: Option<u32>) -> io::Result<()> {
    // A symbolic link counts as its target, also if the target does not exist yet.
    if path.try_exists()? {
        return Ok(());
    }
    let file = File::options().write(true).create(true).truncate(false).mode(0o600).open(path)?;
    // If this user is not in the group, the file stays private.
    if group.is_some() && fchown(&file, None, group).is_ok() {
        file.set_permissions(Permissions::from_mode(0o640))?;
    }
    Ok(())
}

/// Opens for writing. Creates the file, or columns that it lacks. The caller keeps the lock while the file is open.
pub(crate) fn for_writing(path: &Path) -> Result<(Database, Lock), StoreError> {
    refuse_folder(path)?;
    let lock = Lock::acquire(path)?;
    let refused = |error: rusqlite::Error| StoreError::open(path, &error, None);
    // SQLite would create the file readable by all users, and its log with the same permissions. An error of this call recurs when SQLite opens
    // the file.
    let _ = create(path, None);
    let database = Database::open(path).map_err(refused)?;
    // SQLite opens a write-protected file for reading, and fails only at the first write.
    if database.is_readonly("main").map_err(refused)? {
        return Err(StoreError::refused(path, "it may only be read", MAY_WRITE).with_kind(ErrorKind::Denied));
    }
    let is_new = check(path, &database)?;
    configure(&database, is_new).map_err(refused)?;
    let advice = "its data is unchanged; remove the cause and try again";
    create_schema(&database, is_new).map_err(|error| StoreError::open(path, &error, Some(advice)))?;
    // Reads a page of each table, so that opening a damaged file fails.
    let probe =
        "SELECT (SELECT count(*) FROM (SELECT 1 FROM connection LIMIT 1)), (SELECT count(*) FROM run)";
    database.query_row(probe, [], |_| Ok(())).map_err(refused)?;
    Ok((database, lock))
}

/// Opens a file for reading, even on a read-only file system. Also returns its stamp: see [`stamp_without_writer`].
pub(crate) fn for_reading(path: &Path) -> Result<(Database, Option<Stamp>), StoreError> {
    if !path.exists() {
        let advice = "`mpwatch daemon`, `mpwatch record --db FILE` or `mpwatch replay RECORDING --db FILE` creates one";
        return Err(StoreError::refused(path, "there is no such file", advice));
    }
    refuse_folder(path)?;
    // A file without a log has no writer, so SQLite need not create files for locking. It must create them to read the log of a killed writer.
    let stamp = stamp_without_writer(path);
    let how = if stamp.is_some() { "immutable=1" } else { "mode=ro" };
    let open = || {
        let flags =
            OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let database = Database::open_with_flags(format!("{}?{how}", uri(path)), flags)?;
        database.busy_timeout(READER_TIMEOUT)?;
        version(&database)?;
        Ok(database)
    };
    let database = open().map_err(|error: rusqlite::Error| StoreError::open(path, &error, None))?;
    if check(path, &database)? {
        return Err(StoreError::not_ours(path, "it is empty"));
    }
    Ok((database, stamp))
}

/// Refuses a folder, for which SQLite would report an I/O error.
fn refuse_folder(path: &Path) -> Result<(), StoreError> {
    if !path.is_dir() {
        return Ok(());
    }
    let advice = format!("name a file in it, such as {}", path.join("flows.db").display());
    Err(StoreError::refused(path, "it is a folder", &advice))
}

/// Size and modification time of a file: a difference shows that the file was written.
pub(crate) type Stamp = (u64, SystemTime);

/// The stamp of a file. `None`: it has a log, so a process may be writing it.
pub(crate) fn stamp_without_writer(path: &Path) -> Option<Stamp> {
    let has_log = std::fs::metadata(with_suffix(path, "-wal")).is_ok_and(|log| log.len() > 0);
    let found = std::fs::metadata(path).ok().filter(|_| !has_log)?;
    Some((found.len(), found.modified().ok()?))
}

/// A path as a URI, with reserved characters escaped.
fn uri(path: &Path) -> String {
    let text = path.to_string_lossy();
    let escaped = text.replace('%', "%25").replace('?', "%3f").replace('#', "%23");
    format!("file:{escaped}")
}

fn version(database: &Database) -> rusqlite::Result<i64> {
    database.pragma_query_value(None, "user_version", |row| row.get(0))
}

/// Refuses databases of other programs and of other schema versions. Returns whether the database is new, without tables.
fn check(path: &Path, database: &Database) -> Result<bool, StoreError> {
    let read = || -> rusqlite::Result<(i32, i64, i64)> {
        let application = database.pragma_query_value(None, "application_id", |row| row.get(0))?;
        let tables = database.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
        Ok((application, version(database)?, tables))
    };
    let (application, found, tables) = read().map_err(|error| StoreError::open(path, &error, None))?;
    match (application, found, tables) {
        (0 | APPLICATION, 0, 0) => Ok(true),
        (APPLICATION, VERSION, _) => Ok(false),
        (APPLICATION, ..) => Err(StoreError::other_schema(path, found)),
        _ => Err(StoreError::not_ours(path, "it is the database of another program")),
    }
}

pub(crate) fn configure(database: &Database, is_new: bool) -> rusqlite::Result<()> {
    database.busy_timeout(WRITER_TIMEOUT)?;
    if is_new {
        // SQLite requires that both are set before the first table is created.
        database.pragma_update(None, "auto_vacuum", "INCREMENTAL")?;
        database.pragma_update(None, "application_id", APPLICATION)?;
    }
    // If the process is killed, every commit survives. A crash of the machine may lose the last commits but does not damage the file.
    database.pragma_update(None, "journal_mode", "WAL")?;
    database.pragma_update(None, "synchronous", "NORMAL")?;
    database.pragma_update(None, "wal_autocheckpoint", LOG_PAGES)?;
    // Truncates a log that has grown during a long read.
    database.pragma_update(None, "journal_size_limit", LOG_PAGES * 4_096)?;
    database.set_prepared_statement_cache_capacity(32);
    Ok(())
}
