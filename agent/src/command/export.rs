// SPDX-License-Identifier: MIT OR Apache-2.0
//! `mpwatch export`: connections of a database for other engines.

use jiff::Timestamp;
use mpwatch_store::{Archive, Period};

use crate::cli::{ExportCommand, ParquetOptions};
use crate::error::Failure;
use crate::export;

pub(super) fn run(command: &ExportCommand) -> anyhow::Result<()> {
    match command {
        #[cfg(feature = "parquet")]
        ExportCommand::Parquet(options) => parquet(options),
    }
}

#[cfg(feature = "parquet")]
fn parquet(options: &ParquetOptions) -> anyhow::Result<()> {
    let now = Timestamp::now();
    let period = Period {
        since: options.since.map(|since| since.resolve(now)).transpose()?,
        until: options.until.map(|until| until.resolve(now)).transpose()?,
    };
    if let (Some(since), Some(until)) = (period.since, period.until)
        && since > until
    {
        return Err(
            Failure::usage(format!("the period ends before it begins: from {since} until {until}")).into()
        );
    }
    let name = options.db.file_stem().unwrap_or_default().to_string_lossy();
    let written = export::parquet::write(&Archive::open(&options.db)?, period, &options.out, &name)?;
    for kept in &written.kept {
        eprintln!("mpwatch: kept {}: it has connections that the database has deleted", kept.display());
    }
    let export::parquet::Written { files, connections, subflows, .. } = written;
    let out = options.out.display();
    eprintln!("mpwatch: wrote {connections} connections with {subflows} subflows to {files} files in {out}");
    Ok(())
}
