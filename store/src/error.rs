// SPDX-License-Identifier: MIT OR Apache-2.0
//! Why a store cannot be used, and what to do about it.

use std::fmt::Display;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use rusqlite::ErrorCode;

use crate::schema::create::VERSION;

/// Why a store cannot be used. The text names the file, the cause and what to do.
#[derive(Debug, thiserror::Error)]
#[error("{text}")]
pub struct StoreError {
    pub(crate) text: String,
    /// The same call may succeed later, for example because the disk was full.
    pub(crate) is_temporary: bool,
    /// The user lacks the permission.
    pub(crate) is_denied: bool,
    /// Another process is writing the file.
    pub(crate) is_in_use: bool,
}

/// Advice for a file that this user may only read.
pub const MAY_WRITE: &str = "this user must be allowed to write the file and its folder";

impl StoreError {
    /// Whether the same call may succeed later without a change by the user.
    pub fn is_temporary(&self) -> bool {
        self.is_temporary
    }

    /// Whether the user lacks the permission.
    pub fn is_denied(&self) -> bool {
        self.is_denied
    }

    fn lasting(text: String) -> Self {
        Self { text, is_temporary: false, is_denied: false, is_in_use: false }
    }

    /// The file cannot be opened.
    pub fn refused(path: &Path, why: impl Display, advice: &str) -> Self {
        Self::lasting(format!("cannot open the database {}: {why}; {advice}", path.display()))
    }

    /// The file is not a database of mpwatch.
    pub(crate) fn not_ours(path: &Path, why: impl Display) -> Self {
        let advice = "name a database of mpwatch, or a file that does not exist yet to write one";
        Self::lasting(format!("{} is not a database of mpwatch ({why}); {advice}", path.display()))
    }

    /// A database of mpwatch with another schema version.
    pub(crate) fn other_schema(path: &Path, schema: i64) -> Self {
        let advice = "use a newer mpwatch, or another file";
        let path = path.display();
        Self::lasting(format!("{path} has schema {schema}, this mpwatch uses schema {VERSION}; {advice}"))
    }

    /// Another process is writing the file.
    pub(crate) fn in_use(path: &Path) -> Self {
        let advice = "stop it, or name another file";
        let text = format!("{} is being written by another mpwatch; {advice}", path.display());
        Self { is_in_use: true, ..Self::lasting(text) }
    }

    /// The file already contains this run, under this number. A second import would count everything twice.
    pub(crate) fn duplicate(path: &Path, run: i64, began: Timestamp) -> Self {
        let path = path.display();
        let advice = "name another file to import it again";
        Self::lasting(format!(
            "{path} has this recording already: run {run}, which began at {began}; {advice}"
        ))
    }

    /// A program began to write the file while it was read without locks.
    pub(crate) fn changed(path: &Path) -> Self {
        let text = format!(
            "{} was changed by another program while it was read; run this command again",
            path.display()
        );
        Self { is_temporary: true, ..Self::lasting(text) }
    }

    /// Reading the open file failed.
    pub fn read(path: &Path, error: &rusqlite::Error) -> Self {
        let advice = "if the file is damaged, `sqlite3 FILE .dump` prints what can be read";
        Self::lasting(format!("cannot read {}: {error}; {advice}", path.display()))
    }

    /// A database in memory failed: not enough memory, or a bug.
    pub(crate) fn in_memory(error: &rusqlite::Error) -> Self {
        Self::lasting(format!(
            "cannot make a table of the report: {error}; free some memory, or narrow the report"
        ))
    }

    /// SQLite cannot open or write the file. `advice` replaces the advice that depends on the error.
    pub fn open(path: &Path, error: &rusqlite::Error, advice: Option<&'static str>) -> Self {
        let is_temporary = is_full(error);
        let is_private = File::open(path).is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied);
        let usual = match error.sqlite_error_code() {
            _ if is_temporary => "the disk is full: make room, or name a file elsewhere",
            Some(ErrorCode::NotADatabase) => return Self::not_ours(path, error),
            Some(ErrorCode::DatabaseCorrupt) => {
                "the file is damaged: `sqlite3 FILE .dump` prints what can be read"
            }
            Some(ErrorCode::ReadOnly) => MAY_WRITE,
            Some(ErrorCode::CannotOpen) if is_private => {
                "only its owner may read it: run this as that user, or as root"
            }
            Some(ErrorCode::CannotOpen) if with_suffix(path, "-wal").exists() => {
                "its writer was killed and left a -wal file, which only a user with write access to the folder can merge: run this as the user that wrote it"
            }
            Some(ErrorCode::DatabaseBusy) => "another program holds it; close that one",
            _ => "its folder must exist, and this user must be allowed to use it",
        };
        let is_denied = is_private
            || matches!(error.sqlite_error_code(), Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied));
        Self { is_temporary, is_denied, ..Self::refused(path, error, advice.unwrap_or(usual)) }
    }
}

/// If the shared memory of the log does not fit on the disk, SQLite reports an I/O error.
fn is_full(error: &rusqlite::Error) -> bool {
    let extended = error.sqlite_error().map(|error| error.extended_code);
    error.sqlite_error_code() == Some(ErrorCode::DiskFull)
        || extended == Some(rusqlite::ffi::SQLITE_IOERR_SHMSIZE)
}

/// The path with a suffix appended, as for the log of a database.
pub(crate) fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Why the store cannot write, in words.
pub(crate) fn reason(error: &rusqlite::Error) -> String {
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => "the disk is full".to_owned(),
        Some(ErrorCode::ReadOnly) => "the file is no longer writable".to_owned(),
        Some(ErrorCode::DatabaseBusy) => "another program holds the file".to_owned(),
        _ if matches!(error, rusqlite::Error::InvalidPath(_)) => {
            "the file was removed or replaced; restart mpwatch".to_owned()
        }
        _ => error.to_string(),
    }
}
