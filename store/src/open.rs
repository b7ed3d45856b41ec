// SPDX-License-Identifier: MIT OR Apache-2.0
//! Opening a database file: only one of ours, of a version that we know, and by one writer at a time.

use std::fs::{File, Metadata};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::backup::Backup;
use rusqlite::{Connection, ErrorCode, OpenFlags};
use rusqlite_migration::{M, Migrations};

/// "mpw1" in the header of the file, so that no other program's database is taken for ours, nor written to.
const APPLICATION: i32 = i32::from_be_bytes(*b"mpw1");
/// All versions of the schema, in order; a released one never changes.
const STEPS: &[M<'static>] = &[M::up(include_str!("schema/1.sql")), M::up(include_str!("schema/2.sql"))];
/// The version that the last of them makes.
pub(super) const VERSION: i64 = 2;
/// How long to wait for a reader.
const PATIENCE_MS: u32 = 5_000;
/// How long the writer waits for another one; then what it has waits in memory.
const WRITER_PATIENCE_MS: u32 = 500;
/// What to do about a file that may only be read.
const MAY_WRITE: &str = "this user must be allowed to write the file and its folder";

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
        /// Whether it may mend itself: a full disk.
        passes: bool,
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
    /// The same run once more: everything in it would be counted twice.
    #[error(
        "{path} has this recording already: run {run}, which began at {began}; name another file to read it in again"
    )]
    Known {
        /// The file.
        path: PathBuf,
        /// Number of the run.
        run: i64,
        /// When it began.
        began: jiff::Timestamp,
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

impl StoreError {
    /// Whether the same may succeed later without anybody's help.
    pub fn may_pass(&self) -> bool {
        matches!(self, Self::Open { passes: true, .. })
    }
}

/// Opens for writing; makes the file, or brings it up to date. The lock is held as long as the file is open.
pub(super) fn for_writing(path: &Path) -> Result<(Connection, Lock), StoreError> {
    let lock = Lock::take(path)?;
    let database = Connection::open(path).map_err(|error| refused(path, &error))?;
    // SQLite opens what it may not write for reading, and would tell of it with the first flow.
    if database.is_readonly("main").map_err(|error| refused(path, &error))? {
        return Err(StoreError::Open {
            path: path.to_owned(),
            why: "it may only be read".to_owned(),
            advice: MAY_WRITE,
            passes: false,
        });
    }
    let found = check(path, &database)?;
    prepare(&database, found).map_err(|error| refused(path, &error))?;
    let mut database = database;
    upgrade(path, &mut database)?;
    if found != 0 && found < VERSION {
        // What the tables of before took; nothing is lost where that fails.
        let _ = database.execute_batch("PRAGMA incremental_vacuum");
    }
    // One page is read of each table, so that a damaged file is told of at once and not with the first flow.
    database
        .query_row(
            "SELECT (SELECT count(*) FROM (SELECT 1 FROM connection LIMIT 1)), (SELECT count(*) FROM run)",
            [],
            |_| Ok(()),
        )
        .map_err(|error| refused(path, &error))?;
    Ok((database, lock))
}

/// Opens for reading, also on a read-only file system.
pub(super) fn for_reading(path: &Path) -> Result<(Connection, Option<Stamp>), StoreError> {
    let open = |uri: &str| {
        let flags =
            OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let database = Connection::open_with_flags(uri, flags)?;
        // Before the first look: a writer that ends holds the file for a moment.
        database.busy_timeout(Duration::from_millis(PATIENCE_MS.into()))?;
        version(&database).map(|found| (database, found))
    };
    if !path.exists() {
        return Err(StoreError::Open {
            path: path.to_owned(),
            why: "there is no such file".to_owned(),
            advice: "`mpwatch daemon`, `mpwatch record --db FILE` or `mpwatch replay RECORDING --db FILE` makes one",
            passes: false,
        });
    }
    let name = uri(path);
    // Without a log nobody writes: then nothing needs to be made beside the file, not even by a user who may. The log of a writer that was
    // killed takes its shared memory to be read.
    let stamp = quiet(path);
    let opened =
        open(&if stamp.is_some() { format!("{name}?immutable=1") } else { format!("{name}?mode=ro") });
    let (database, _) = opened.map_err(|error| refused(path, &error))?;
    match check(path, &database)? {
        0 => Err(StoreError::NotOurs { path: path.to_owned(), why: "it is empty".to_owned() }),
        VERSION => Ok((database, stamp)),
        _ => Ok((copied(path, &database)?, stamp)),
    }
}

/// A file of an earlier version is not changed by reading it: a copy in memory is brought up to date.
fn copied(path: &Path, database: &Connection) -> Result<Connection, StoreError> {
    let copy = || {
        let mut copy = Connection::open_in_memory()?;
        Backup::new(database, &mut copy)?.run_to_completion(i32::MAX, Duration::ZERO, None)?;
        Ok(copy)
    };
    let mut copy = copy().map_err(|error| refused(path, &error))?;
    upgrade(path, &mut copy)?;
    Ok(copy)
}

fn upgrade(path: &Path, database: &mut Connection) -> Result<(), StoreError> {
    Migrations::from_slice(STEPS).to_latest(database).map_err(|error| StoreError::Open {
        path: path.to_owned(),
        passes: error.to_string().contains("full"),
        why: error.to_string(),
        advice: "the file is as it was before; mend the cause and try again",
    })
}

/// What changes with a file that is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    length: u64,
    changed: (i64, i64),
}

/// A file that nobody writes, as far as its folder tells.
pub(super) fn quiet(path: &Path) -> Option<Stamp> {
    let has_log = std::fs::metadata(beside(path, "-wal")).is_ok_and(|log| log.len() > 0);
    let found = std::fs::metadata(path).ok().filter(|_| !has_log)?;
    Some(Stamp { length: found.len(), changed: (found.mtime(), found.mtime_nsec()) })
}

/// Keeps other writers out as long as it lives; the file that says so goes with it, unless the process is killed.
pub(super) struct Lock {
    name: PathBuf,
    // Held, never read.
    _file: File,
}

impl Lock {
    /// Takes it; fails where another writer has it.
    fn take(path: &Path) -> Result<Self, StoreError> {
        let name = beside(path, ".lock");
        let refuse = |error: std::io::Error| StoreError::Open {
            path: path.to_owned(),
            why: format!("{}: {error}", name.display()),
            advice: "its folder must exist, and this user must be allowed to write there",
            passes: error.kind() == std::io::ErrorKind::StorageFull,
        };
        loop {
            let file =
                File::options().create(true).truncate(false).write(true).open(&name).map_err(refuse)?;
            match file.try_lock() {
                Ok(()) => {}
                Err(std::fs::TryLockError::WouldBlock) => {
                    return Err(StoreError::InUse { path: path.to_owned() });
                }
                Err(std::fs::TryLockError::Error(error)) => return Err(refuse(error)),
            }
            // Whoever had it may have removed the name meanwhile: then this is a lock on nothing.
            if is_still(&name, identity(&file.metadata().map_err(refuse)?)) {
                return Ok(Self { name, _file: file });
            }
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // While it is still held: nobody else can have taken it.
        let _ = std::fs::remove_file(&self.name);
    }
}

/// What tells a file from another that takes its name.
pub(super) fn identity(metadata: &Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}

/// Whether a name still means this file.
pub(super) fn is_still(path: &Path, file: (u64, u64)) -> bool {
    std::fs::metadata(path).is_ok_and(|found| identity(&found) == file)
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
    database.busy_timeout(Duration::from_millis(WRITER_PATIENCE_MS.into()))?;
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
    // Where there is no room for the shared memory either, SQLite calls it an error of reading and writing.
    let is_full = error.sqlite_error_code() == Some(ErrorCode::DiskFull)
        || error
            .sqlite_error()
            .is_some_and(|error| error.extended_code == rusqlite::ffi::SQLITE_IOERR_SHMSIZE);
    let advice = match error.sqlite_error_code() {
        _ if is_full => "the disk is full: make room, or name a file elsewhere",
        Some(ErrorCode::NotADatabase) => return StoreError::NotOurs { path, why },
        Some(ErrorCode::DatabaseCorrupt) => {
            "the file is damaged: `sqlite3 FILE .recover` saves what can be saved"
        }
        Some(ErrorCode::ReadOnly) => MAY_WRITE,
        Some(ErrorCode::CannotOpen) if beside(&path, "-wal").exists() => {
            "its writer was killed, and what it left in the -wal file takes write access to the folder once: run this as the user that wrote it"
        }
        Some(ErrorCode::DatabaseBusy) => "another program holds it; close that one",
        _ => "its folder must exist, and this user must be allowed to use it",
    };
    StoreError::Open { path, why, advice, passes: is_full }
}
