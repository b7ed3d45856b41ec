// SPDX-License-Identifier: MIT OR Apache-2.0
//! `mpwatch export parquet`.

use jiff::Timestamp;
use mpwatch_store::Archive;

use crate::cli::ParquetOptions;
use crate::export::parquet::{Written, write};
use crate::time_spec::period;

pub(super) fn run(options: &ParquetOptions) -> anyhow::Result<()> {
    let period = period(options.since, options.until, Timestamp::now())?;
    let name = options.db.file_stem().unwrap_or_default().to_string_lossy();
    let written = write(&Archive::open(&options.db)?, period, &options.out, &name)?;
    for kept in &written.kept {
        eprintln!("mpwatch: kept {}: it has connections that the database has deleted", kept.display());
    }
    let Written { files, connections, subflows, .. } = written;
    let out = options.out.display();
    if connections == 0 {
        eprintln!("mpwatch: no connection in {} began in this period", options.db.display());
    }
    eprintln!("mpwatch: wrote {connections} connections with {subflows} subflows to {files} files in {out}");
    Ok(())
}
