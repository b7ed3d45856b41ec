// SPDX-License-Identifier: MIT OR Apache-2.0
//! `mpwatch export parquet`: writes connections and subflows as Parquet files.

use jiff::Zoned;
use mpwatch_exporters::parquet::{FileKey, FolderWriter};
use mpwatch_store::{Archive, Extract, Partition};

use crate::cli::ParquetOptions;
use crate::time_spec::period;

pub(super) fn run(options: &ParquetOptions) -> anyhow::Result<()> {
    let period = period(options.since, options.until, &Zoned::now())?;
    let name = options.db.file_stem().unwrap_or_default().to_string_lossy();
    let archive = Archive::open(&options.db)?;
    let write = |what: Extract, folder: &str| -> anyhow::Result<FolderWriter<'_>> {
        let mut writer = FolderWriter::new(options.out.join(folder), &name, what.columns());
        archive.extract(what, period, |partition, row| -> anyhow::Result<()> {
            let Partition { day, host, boot_id } = partition.clone();
            Ok(writer.push(&FileKey { day, host, boot_id }, row)?)
        })?;
        writer.finish()?;
        Ok(writer)
    };
    let connections = write(Extract::Connections, "connections")?;
    let subflows = write(Extract::Subflows, "subflows")?;
    for kept in connections.kept.iter().chain(&subflows.kept) {
        eprintln!("mpwatch: kept {}: it has connections that the database has deleted", kept.display());
    }
    if connections.rows == 0 {
        eprintln!("mpwatch: no connection in {} began in this period", options.db.display());
    }
    eprintln!(
        "mpwatch: wrote {} connections with {} subflows to {} files in {}",
        connections.rows,
        subflows.rows,
        connections.files + subflows.files,
        options.out.display()
    );
    Ok(())
}
