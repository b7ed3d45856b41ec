// SPDX-License-Identifier: MIT OR Apache-2.0
//! Parquet files below a folder: `connections/day=2026-11-24/host=NAME/FILE-BOOT.parquet`, and `subflows/` likewise. Each file is complete
//! when it appears, and replaces the file of the same name unless that file has more rows.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use mpwatch_model::table::{Column, Row};
use tempfile::NamedTempFile;

use super::table::{Error, TableWriter, row_count};
use crate::percent::percent_encoded;

/// Folder name of an unknown value in Hive.
const UNKNOWN: &str = "__HIVE_DEFAULT_PARTITION__";

/// A file cannot be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write {}; choose another folder with --out, or make room: {cause}", path.display())]
pub struct FolderError {
    path: PathBuf,
    cause: Error,
}

/// The partition of a row; it determines the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileKey {
    /// Day (UTC) on which the connection began: `2026-11-24`.
    pub day: String,
    /// Name of the host that recorded the connection; empty: unknown.
    pub host: String,
    /// Boot id of that host; empty: unknown.
    pub boot_id: String,
}

/// Writes rows, which must be sorted by their partition, into files below a folder.
pub struct FolderWriter<'a> {
    folder: PathBuf,
    /// The beginning of file names.
    name: &'a str,
    columns: Vec<Column>,
    open: Option<Part>,
    /// Number of rows so far.
    pub rows: u64,
    /// Number of finished files.
    pub files: u64,
    /// Existing files that were kept because they have more rows.
    pub kept: Vec<PathBuf>,
}

impl<'a> FolderWriter<'a> {
    /// `name`: the beginning of file names.
    pub fn new(folder: PathBuf, name: &'a str, columns: Vec<Column>) -> Self {
        Self { folder, name, columns, open: None, rows: 0, files: 0, kept: Vec::new() }
    }

    /// Adds a row; begins a file if its partition differs from the previous row's.
    pub fn push(&mut self, key: &FileKey, row: Row) -> Result<(), FolderError> {
        let part = if let Some(part) = self.open.take_if(|part| part.key == *key) {
            part
        } else {
            self.finish()?;
            let path = self.path(key);
            Part::begin(path.clone(), key, &self.columns).map_err(|cause| FolderError { path, cause })?
        };
        let part = self.open.insert(part);
        part.rows += 1;
        self.rows += 1;
        part.writer.push(row).map_err(|cause| FolderError { path: part.path.clone(), cause })
    }

    fn path(&self, key: &FileKey) -> PathBuf {
        let folder = self.folder.join(format!("day={}", key.day)).join(format!("host={}", value(&key.host)));
        folder.join(file_name(self.name, &key.boot_id))
    }

    /// Finishes the last file.
    pub fn finish(&mut self) -> Result<(), FolderError> {
        let Some(Part { path, temporary, writer, rows, .. }) = self.open.take() else { return Ok(()) };
        let failed = |cause| FolderError { path: path.clone(), cause };
        writer.finish().map_err(failed)?;
        // The existing file has more rows if the database has deleted rows since.
        if File::open(&path).is_ok_and(|file| row_count(file).is_ok_and(|found| found > rows)) {
            self.kept.push(path);
            return Ok(());
        }
        temporary.persist(&path).map_err(|error| failed(error.error.into()))?;
        self.files += 1;
        Ok(())
    }
}

struct Part {
    key: FileKey,
    path: PathBuf,
    /// Dropping it removes its file.
    temporary: NamedTempFile,
    writer: TableWriter<File>,
    rows: u64,
}

impl Part {
    fn begin(path: PathBuf, key: &FileKey, columns: &[Column]) -> Result<Self, Error> {
        let folder = path.parent().unwrap_or(Path::new("."));
        fs::create_dir_all(folder)?;
        let temporary = tempfile::Builder::new().prefix(".").suffix(".partial").tempfile_in(folder)?;
        let notes = [("mpwatch.version", env!("CARGO_PKG_VERSION"))];
        let writer = TableWriter::new(temporary.reopen()?, columns, &notes)?;
        Ok(Self { key: key.clone(), path, temporary, writer, rows: 0 })
    }
}

/// The name of a file. Two databases, or two boots of a host on the same day, must not share a file.
fn file_name(name: &str, boot_id: &str) -> String {
    let boot: String = boot_id.chars().filter(char::is_ascii_hexdigit).take(8).collect();
    let dash = if boot.is_empty() { "" } else { "-" };
    format!("{}{dash}{boot}.parquet", percent_encoded(name))
}

fn value(text: &str) -> String {
    if text.is_empty() { UNKNOWN.to_owned() } else { percent_encoded(text) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_folders_and_files_stay_below_their_folder() {
        assert_eq!(value("web-1.example"), "web-1.example");
        assert_eq!(value("../a=b/ü"), "..%2Fa%3Db%2F%C3%BC");
        assert_eq!(value(""), UNKNOWN);
        assert_eq!(file_name("flows", "5c1104e9-aaaa"), "flows-5c1104e9.parquet");
        assert_eq!(file_name("flows", ""), "flows.parquet");
        assert_eq!(file_name("a/b", "../x"), "a%2Fb.parquet");
    }
}
