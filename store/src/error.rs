// SPDX-License-Identifier: MIT OR Apache-2.0
//! Why a store cannot be used, and what to do about it.

use std::fmt::Display;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use rusqlite::ErrorCode;

use crate::schema::VERSION;

/// Why a store cannot be used. The text names the file, the cause and what to do.
#[derive(Debug, thiserror::Error)]
#[error("{text}")]
pub struct StoreError {
    pub(crate) text: String,
    /// It may work later without help: the disk is full.
    pub(crate) is_temporary: bool,
    /// This user may not do it.
    pub(crate) is_denied: bool,
    /// Another process writes the file.
    pub(crate) is_in_use: bool,
}

/// What to do about a file that may only be read.
pub const MAY_WRITE: &str = "this user must be allowed to write the file and its folder";

impl StoreError {
    /// Whether the same may work later without help.
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

    /// It cannot be opened, read or written at all.
    pub fn refused(path: &Path, why: impl Display, advice: &str) -> Self {
        Self::lasting(format!("cannot open the database {}: {why}; {advice}", path.display()))
    }

    /// Some other file.
    pub(crate) fn not_ours(path: &Path, why: impl Display) -> Self {
        let advice = "name a database of mpwatch, or a file that does not exist yet to write one";
        Self::lasting(format!("{} is not a database of mpwatch ({why}); {advice}", path.display()))
    }

    /// From a later version, with this schema.
    pub(crate) fn newer(path: &Path, schema: i64) -> Self {
        let advice = "use a newer mpwatch, or another file";
        Self::lasting(format!(
            "{} has schema {schema}, this mpwatch knows up to {VERSION}; {advice}",
            path.display()
        ))
    }

    /// Another process writes it.
    pub(crate) fn in_use(path: &Path) -> Self {
        let advice = "stop that one, or name another file";
        let text = format!("{} is being written by another mpwatch; {advice}", path.display());
        Self { is_in_use: true, ..Self::lasting(text) }
    }

    /// The file has this run already, under this number: everything in it would be counted twice.
    pub(crate) fn duplicate(path: &Path, run: i64, began: Timestamp) -> Self {
        let path = path.display();
        let advice = "name another file to read it in again";
        Self::lasting(format!(
            "{path} has this recording already: run {run}, which began at {began}; {advice}"
        ))
    }

    /// A program began to write it while it was read without locks.
    pub(crate) fn changed(path: &Path) -> Self {
        let text = format!(
            "{} was changed by another program while it was read; run this command again",
            path.display()
        );
        Self { is_temporary: true, ..Self::lasting(text) }
    }

    /// It was opened, and then reading failed.
    pub fn read(path: &Path, error: &rusqlite::Error) -> Self {
        let advice = "if the file is damaged, `sqlite3 FILE .dump` prints what can be read";
        Self::lasting(format!("cannot read {}: {error}; {advice}", path.display()))
    }

    /// A database in memory, of what mpwatch has just read, fails for lack of memory or because of a bug.
    pub(crate) fn in_memory(error: &rusqlite::Error) -> Self {
        Self::lasting(format!(
            "cannot make a table of the report: {error}; free some memory, or narrow the report"
        ))
    }

    /// For a file that SQLite does not open. `advice`: what to do, whatever the error is.
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
            Some(ErrorCode::CannotOpen) if beside(path, "-wal").exists() => {
                "its writer was killed, and what it left in the -wal file takes write access to the folder once: run this as the user that wrote it"
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

/// The path of a file that belongs to another one.
pub(crate) fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

/// What prevents the store from writing, in words.
pub(crate) fn reason(error: &rusqlite::Error) -> String {
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => "the disk is full".to_owned(),
        Some(ErrorCode::ReadOnly) => "the file may no longer be written".to_owned(),
        Some(ErrorCode::DatabaseBusy) => "another program holds the file".to_owned(),
        _ if matches!(error, rusqlite::Error::InvalidPath(_)) => {
            "the file was removed, or another took its name; start mpwatch again".to_owned()
        }
        _ => error.to_string(),
    }
}
