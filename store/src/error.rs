// SPDX-License-Identifier: MIT OR Apache-2.0
//! Why a store cannot be used, and what to do about it.

use std::path::{Path, PathBuf};

use jiff::Timestamp;
use rusqlite::ErrorCode;

use crate::schema::VERSION;

/// Why a store cannot be used.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages show the fields")]
pub enum StoreError {
    /// It cannot be opened, read or written at all.
    #[error("cannot open the database {path}: {why}; {advice}")]
    Open {
        path: PathBuf,
        why: String,
        advice: &'static str,
        /// Whether it may work later without help: the disk is full.
        is_temporary: bool,
    },
    /// Some other file.
    #[error("{path} is not a database of mpwatch ({why}); name another file, or a new one to be created")]
    NotOurs { path: PathBuf, why: String },
    /// From a later version.
    #[error(
        "{path} has schema {got}, this mpwatch knows up to {VERSION}; use a newer mpwatch, or another file"
    )]
    Newer { path: PathBuf, got: i64 },
    /// Another process writes it.
    #[error("{path} is being written by another mpwatch; stop that one, or name another file")]
    InUse { path: PathBuf },
    /// The file has this run already: everything in it would be counted twice.
    #[error(
        "{path} has this recording already: run {run}, which began at {began}; name another file to read it in again"
    )]
    Duplicate { path: PathBuf, run: i64, began: Timestamp },
    /// It was opened, and then reading failed.
    #[error(
        "cannot read {path}: {why}; if the file is damaged, `sqlite3 FILE .recover` saves what can be saved"
    )]
    Read { path: PathBuf, why: String },
}

/// What to do about a file that may only be read.
pub(crate) const MAY_WRITE: &str = "this user must be allowed to write the file and its folder";

impl StoreError {
    /// Whether the same may work later without help.
    pub fn is_temporary(&self) -> bool {
        matches!(self, Self::Open { is_temporary: true, .. })
    }

    pub(crate) fn read(path: &Path, error: &rusqlite::Error) -> Self {
        Self::Read { path: path.to_owned(), why: error.to_string() }
    }

    /// For a file that SQLite does not open.
    pub(crate) fn open(path: &Path, error: &rusqlite::Error) -> Self {
        let path = path.to_owned();
        let why = error.to_string();
        let is_temporary = is_full(error);
        let advice = match error.sqlite_error_code() {
            _ if is_temporary => "the disk is full: make room, or name a file elsewhere",
            Some(ErrorCode::NotADatabase) => return Self::NotOurs { path, why },
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
        Self::Open { path, why, advice, is_temporary }
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
