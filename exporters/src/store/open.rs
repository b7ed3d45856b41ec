// SPDX-License-Identifier: MIT OR Apache-2.0
//! Opening a database file: only one of ours, of a version that we know, and by one writer at a time.

use std::fs::File;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, ErrorCode, OpenFlags};
use rusqlite_migration::{M, Migrations};

/// "mpw1" in the header of the file, so that no other program's database is taken for ours, nor written to.
const APPLICATION: i32 = i32::from_be_bytes(*b"mpw1");
/// All versions of the schema, in order; a released one never changes.
const STEPS: &[M<'static>] = &[M::up(include_str!("schema.sql"))];
/// The version that the last of them makes.
pub(super) const VERSION: i64 = 1;
/// How long to wait for a reader.
const PATIENCE_MS: u32 = 5_000;

/// Why a store cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// It cannot be opened, read or written at all.
    #[error("cannot open the database {path}: {why}; {advice}")]
    Open {
        /// The file.
        path: PathBuf,
        /// What SQLite or the system says.
        why: String,
        /// What to do.
        advice: &'static str,
    },
    /// Some other file.
    #[error("{path} is not a database of mpwatch ({why}); name another file, or a new one to be made")]
    NotOurs {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// From a later version.
    #[error(
        "{path} has schema {got}, this mpwatch knows up to {VERSION}; use a newer mpwatch, or another file"
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its version.
        got: i64,
    },
    /// Another process writes it.
    #[error("{path} is being written by another mpwatch; stop that one, or name another file")]
    InUse {
        /// The file.
        path: PathBuf,
    },
    /// It was opened, and then something failed.
    #[error(
        "cannot read {path}: {why}; if the file is damaged, `sqlite3 FILE .recover` saves what can be saved"
    )]
    Read {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
}

/// Opens for writing; makes the file, or brings it up to date. The lock is held as long as the file is open.
pub(super) fn for_writing(path: &Path) -> Result<(Connection, File), StoreError> {
    let lock = lock(path)?;
    let database = Connection::open(path).map_err(|error| refused(path, &error))?;
    let found = check(path, &database)?;
    prepare(&database, found).map_err(|error| refused(path, &error))?;
    let mut database = database;
    Migrations::from_slice(STEPS).to_latest(&mut database).map_err(|error| StoreError::Open {
        path: path.to_owned(),
        why: error.to_string(),
        advice: "the file is as it was before; mend the cause and try again",
    })?;
    Ok((database, lock))
}

/// Opens for reading, also on a read-only file system.
pub(super) fn for_reading(path: &Path) -> Result<Connection, StoreError> {
    let open = |uri: &str| {
        let flags =
            OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let database = Connection::open_with_flags(uri, flags)?;
        version(&database).map(|found| (database, found))
    };
    if !path.exists() {
        return Err(StoreError::Open {
            path: path.to_owned(),
            why: "there is no such file".to_owned(),
            advice: "`mpwatch record --db FILE` or `mpwatch replay RECORDING --db FILE` makes one",
        });
    }
    let name = uri(path);
    // Where neither log nor shared memory may be made beside the file, and no writer has left a log, nobody changes it either.
    let opened = match open(&format!("{name}?mode=ro")) {
        Err(error)
            if error.sqlite_error_code() == Some(ErrorCode::CannotOpen) && !beside(path, "-wal").exists() =>
        {
            open(&format!("{name}?immutable=1"))
        }
        outcome => outcome,
    };
    let (database, _) = opened.map_err(|error| refused(path, &error))?;
    let _ = database.busy_timeout(std::time::Duration::from_millis(PATIENCE_MS.into()));
    if check(path, &database)? == 0 {
        return Err(StoreError::NotOurs { path: path.to_owned(), why: "it is empty".to_owned() });
    }
    Ok(database)
}

/// A second writer would write every flow once more.
fn lock(path: &Path) -> Result<File, StoreError> {
    let name = beside(path, ".lock");
    let refuse = |error: std::io::Error| StoreError::Open {
        path: path.to_owned(),
        why: format!("{}: {error}", name.display()),
        advice: "its folder must exist, and this user must be allowed to write there",
    };
    let file = File::options().create(true).truncate(false).write(true).open(&name).map_err(refuse)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(std::fs::TryLockError::WouldBlock) => Err(StoreError::InUse { path: path.to_owned() }),
        Err(std::fs::TryLockError::Error(error)) => Err(refuse(error)),
    }
}

fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

/// A path as a URI: what has a meaning there is escaped.
fn uri(path: &Path) -> String {
    let text = path.to_string_lossy();
    let escaped = text.replace('%', "%25").replace('?', "%3f").replace('#', "%23");
    format!("file:{escaped}")
}

fn version(database: &Connection) -> rusqlite::Result<i64> {
    database.pragma_query_value(None, "user_version", |row| row.get(0))
}

/// The version of the schema; zero: a new file.
fn check(path: &Path, database: &Connection) -> Result<i64, StoreError> {
    let read = || -> rusqlite::Result<(i32, i64, i64)> {
        let application = database.pragma_query_value(None, "application_id", |row| row.get(0))?;
        let tables = database.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
        Ok((application, version(database)?, tables))
    };
    let (application, found, tables) = read().map_err(|error| refused(path, &error))?;
    let is_new = application == 0 && found == 0 && tables == 0;
    if !is_new && application != APPLICATION {
        let why = "it is the database of another program".to_owned();
        return Err(StoreError::NotOurs { path: path.to_owned(), why });
    }
    if found > VERSION {
        return Err(StoreError::Newer { path: path.to_owned(), got: found });
    }
    Ok(found)
}

fn prepare(database: &Connection, found: i64) -> rusqlite::Result<()> {
    database.busy_timeout(std::time::Duration::from_millis(PATIENCE_MS.into()))?;
    if found == 0 {
        // Before the first table, or never.
        database.pragma_update(None, "auto_vacuum", "INCREMENTAL")?;
        database.pragma_update(None, "application_id", APPLICATION)?;
    }
    // A killed process loses nothing that was committed; a crash of the machine may lose the last commits, never the file.
    database.pragma_update(None, "journal_mode", "WAL")?;
    database.pragma_update(None, "synchronous", "NORMAL")?;
    database.set_prepared_statement_cache_capacity(32);
    Ok(())
}

fn refused(path: &Path, error: &rusqlite::Error) -> StoreError {
    let path = path.to_owned();
    let why = error.to_string();
    let advice = match error.sqlite_error_code() {
        Some(ErrorCode::NotADatabase) => return StoreError::NotOurs { path, why },
        Some(ErrorCode::DatabaseCorrupt) => {
            "the file is damaged: `sqlite3 FILE .recover` saves what can be saved"
        }
        Some(ErrorCode::ReadOnly) => "this user must be allowed to write the file and its folder",
        Some(ErrorCode::DiskFull) => "the disk is full: make room, or name a file elsewhere",
        Some(ErrorCode::DatabaseBusy) => "another program holds it; close that one",
        _ => "its folder must exist, and this user must be allowed to use it",
    };
    StoreError::Open { path, why, advice }
}
