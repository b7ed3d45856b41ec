// SPDX-License-Identifier: MIT OR Apache-2.0
//! Parquet files below a folder: `connections/day=2026-11-24/host=NAME/FILE-BOOT.parquet`, and `subflows/` likewise. Each file is complete
//! when it appears, and replaces the one of the same name unless that has more rows.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use mpwatch_exporters::parquet::{self, TableWriter};
use mpwatch_model::table::{Column, Row};
use mpwatch_store::{Archive, Extract, Partition, Period};
use tempfile::NamedTempFile;

use super::percent::percent_encoded;

/// A folder name for an unknown value, as Hive has it.
const UNKNOWN: &str = "__HIVE_DEFAULT_PARTITION__";

/// What was written.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Written {
    pub(crate) files: u64,
    pub(crate) connections: u64,
    pub(crate) subflows: u64,
    /// Files with more rows than the database has today for their day and host.
    pub(crate) kept: Vec<PathBuf>,
}

/// Writes the connections that began on the days of a period, and their subflows. `name`: the beginning of file names.
pub(crate) fn write(archive: &Archive, period: Period, out: &Path, name: &str) -> anyhow::Result<Written> {
    let mut written = Written::default();
    for (what, folder) in [(Extract::Connections, "connections"), (Extract::Subflows, "subflows")] {
        let columns = what.columns();
        let mut open: Option<Part> = None;
        let mut rows = 0;
        archive.extract(what, period, |partition, row| {
            if open.as_ref().is_none_or(|part| part.partition != *partition) {
                if let Some(done) = open.take() {
                    done.finish(&mut written)?;
                }
                open = Some(Part::begin(&out.join(folder), partition, name, &columns)?);
            }
            rows += 1;
            open.as_mut().map_or(Ok(()), |part| part.push(row))
        })?;
        if let Some(last) = open {
            last.finish(&mut written)?;
        }
        match what {
            Extract::Connections => written.connections = rows,
            Extract::Subflows => written.subflows = rows,
        }
    }
    Ok(written)
}

/// A file that is being written.
struct Part {
    partition: Partition,
    path: PathBuf,
    /// Removed when it is dropped.
    temporary: NamedTempFile,
    writer: TableWriter<File>,
    rows: u64,
}

impl Part {
    fn begin(folder: &Path, partition: &Partition, name: &str, columns: &[Column]) -> anyhow::Result<Self> {
        let folder =
            folder.join(format!("day={}", partition.day)).join(format!("host={}", value(&partition.host)));
        let path = folder.join(file_name(name, &partition.boot_id));
        let create = || -> anyhow::Result<(NamedTempFile, TableWriter<File>)> {
            fs::create_dir_all(&folder)?;
            let temporary = tempfile::Builder::new().prefix(".").suffix(".partial").tempfile_in(&folder)?;
            let notes = [("mpwatch.version", env!("CARGO_PKG_VERSION"))];
            let writer = TableWriter::new(temporary.reopen()?, columns, &notes)?;
            Ok((temporary, writer))
        };
        let (temporary, writer) = create().with_context(|| cannot_write(&path))?;
        Ok(Self { partition: partition.clone(), path, temporary, writer, rows: 0 })
    }

    fn push(&mut self, row: Row) -> anyhow::Result<()> {
        self.rows += 1;
        self.writer.push(row).with_context(|| cannot_write(&self.path))
    }

    fn finish(self, written: &mut Written) -> anyhow::Result<()> {
        let Self { path, temporary, writer, rows, .. } = self;
        writer.finish().with_context(|| cannot_write(&path))?;
        if has_more_rows(&path, rows) {
            written.kept.push(path);
            return Ok(());
        }
        temporary.persist(&path).map_err(|error| error.error).with_context(|| cannot_write(&path))?;
        written.files += 1;
        Ok(())
    }
}

fn cannot_write(path: &Path) -> String {
    format!("cannot write {}; choose another folder with --out, or make room", path.display())
}

/// Whether a file holds what the database has deleted since.
fn has_more_rows(path: &Path, rows: u64) -> bool {
    File::open(path).is_ok_and(|file| parquet::row_count(file).is_ok_and(|found| found > rows))
}

/// Two databases, or two boots, of one host and day do not share a file.
fn file_name(name: &str, boot_id: &str) -> String {
    let boot: String = boot_id.chars().filter(char::is_ascii_hexdigit).take(8).collect();
    let dash = if boot.is_empty() { "" } else { "-" };
    format!("{}{dash}{boot}.parquet", percent_encoded(name))
}

/// The value of a partition in the name of its folder.
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
