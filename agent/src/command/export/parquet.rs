// SPDX-License-Identifier: MIT OR Apache-2.0
//! `mpwatch export parquet`.

use jiff::Timestamp;
use mpwatch_store::{Archive, Period};

use crate::cli::ParquetOptions;
use crate::error::Failure;
use crate::export::parquet::{Written, write};

pub(super) fn run(options: &ParquetOptions) -> anyhow::Result<()> {
    let now = Timestamp::now();
    let period = Period {
        since: options.since.map(|since| since.resolve(now)).transpose()?,
        until: options.until.map(|until| until.resolve(now)).transpose()?,
    };
    if let (Some(since), Some(until)) = (period.since, period.until)
        && since > until
    {
        let message = format!("the period ends before it begins: from {since} until {until}");
        return Err(Failure::usage(message).into());
    }
    let name = options.db.file_stem().unwrap_or_default().to_string_lossy();
    let written = write(&Archive::open(&options.db)?, period, &options.out, &name)?;
    for kept in &written.kept {
        eprintln!("mpwatch: kept {}: it has connections that the database has deleted", kept.display());
    }
    let Written { files, connections, subflows, .. } = written;
    let out = options.out.display();
    eprintln!("mpwatch: wrote {connections} connections with {subflows} subflows to {files} files in {out}");
    Ok(())
}
