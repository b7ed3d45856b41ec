// SPDX-License-Identifier: MIT OR Apache-2.0
//! Why a store cannot be used, and what to do about it.

use std::fmt::Display;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use rusqlite::ErrorCode;

use crate::schema::tables::VERSION;

/// Why a store cannot be used. The text names the file, the cause and what to do.
#[derive(Debug, thiserror::Error)]
#[error("{text}")]
pub struct StoreError {
    text: String,
    pub(crate) kind: ErrorKind,
}

/// How an error can be resolved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ErrorKind {
    /// By the action that its text names.
    Lasting,
    /// The same call may succeed later, for example because the disk was full.
    Temporary,
    /// The user lacks the permission.
    Denied,
    /// Another process is writing the file.
    InUse,
}

/// Advice for a file that this user may only read.
pub const MAY_WRITE: &str = "this user must be allowed to write the file and its folder";

impl StoreError {
    /// Whether the same call may succeed later without a change by the user.
    pub fn is_temporary(&self) -> bool {
        self.kind == ErrorKind::Temporary
    }

    /// Whether the user lacks the permission.
    pub fn is_denied(&self) -> bool {
        self.kind == ErrorKind::Denied
    }

    fn lasting(text: String) -> Self {
        Self { text, kind: ErrorKind::Lasting }
    }

    pub(crate) fn with_kind(self, kind: ErrorKind) -> Self {
        Self { kind, ..self }
    }

    /// The file cannot be opened.
    pub fn refused(path: &Path, why: impl Display, advice: &str) -> Self {
        Self::lasting(format!("cannot open the database {}: {why}; {advice}", path.display()))
    }

    /// The file is not a database of mpwatch.
    pub(crate) fn not_ours(path: &Path, why: impl Display) -> Self {
        let advice = "name a database of mpwatch, or a new file to create one";
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
        Self::lasting(format!("{} is being written by another mpwatch; {advice}", path.display()))
            .with_kind(ErrorKind::InUse)
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
        let text = "was changed by another program while it was read; run this command again";
        Self { text: format!("{} {text}", path.display()), kind: ErrorKind::Temporary }
    }

    /// Reading the open file failed.
    pub fn read(path: &Path, error: &rusqlite::Error) -> Self {
        let advice = "if the file is damaged, `sqlite3 FILE .dump` prints what can be read";
        Self::lasting(format!("cannot read {}: {error}; {advice}", path.display()))
    }

    /// A database in memory failed: not enough memory, or a bug.
    pub(crate) fn in_memory(error: &rusqlite::Error) -> Self {
        let advice = "free some memory, or narrow the report";
        Self::lasting(format!("cannot create a table of the report: {error}; {advice}"))
    }

    /// SQLite cannot open or write the file. `advice` replaces the usual advice for the error; `None`: keep it.
    pub fn open(path: &Path, error: &rusqlite::Error, advice: Option<&'static str>) -> Self {
        use ErrorKind::{Denied, Lasting, Temporary};
        let is_private =
            || File::open(path).is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied);
        let (kind, usual) = match error.sqlite_error_code() {
            _ if is_full(error) => (Temporary, "the disk is full: make room, or name a file elsewhere"),
            Some(ErrorCode::NotADatabase) => return Self::not_ours(path, error),
            Some(ErrorCode::DatabaseCorrupt) => {
                (Lasting, "the file is damaged: `sqlite3 FILE .dump` prints what can be read")
            }
            Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => (Denied, MAY_WRITE),
            Some(ErrorCode::CannotOpen) if is_private() => {
                (Denied, "only its owner may read it: run this as that user, or as root")
            }
            Some(ErrorCode::CannotOpen) if with_suffix(path, "-wal").exists() => (
                Lasting,
                "its writer was killed and left a -wal file, which only a user with write access to the folder can merge: run this as the user that wrote it",
            ),
            Some(ErrorCode::DatabaseBusy) => (Lasting, "another program locked it; close that program"),
            _ => (Lasting, "its folder must exist, and this user must be allowed to use it"),
        };
        Self::refused(path, error, advice.unwrap_or(usual)).with_kind(kind)
    }
}

/// Whether the disk is full. If the shared memory of the log does not fit on the disk, SQLite reports an I/O error.
pub(crate) fn is_full(error: &rusqlite::Error) -> bool {
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
            "the file was removed or replaced".to_owned()
        }
        _ => error.to_string(),
    }
}
