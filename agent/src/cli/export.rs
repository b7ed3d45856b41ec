// SPDX-License-Identifier: MIT OR Apache-2.0
//! The options of `export`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::paths;
use crate::time_spec::TimeSpec;

#[derive(Clone, Debug, Subcommand)]
pub(crate) enum ExportCommand {
    /// Write Parquet files for DuckDB, pandas and others, partitioned by day and host
    #[cfg(feature = "parquet")]
    Parquet(ParquetOptions),
}

#[derive(Args, Clone, Debug)]
pub(crate) struct ParquetOptions {
    /// Read this database
    #[arg(long, value_name = "FILE", default_value = paths::DATABASE)]
    pub(crate) db: PathBuf,
    /// Begin with the day (UTC) of this time: a duration before now (15m, 2h, 7d, 4w) or a date in UTC (2026-03-01). Days are exported whole
    #[arg(long, value_name = "TIME")]
    pub(crate) since: Option<TimeSpec>,
    /// End with the day (UTC) of this time
    #[arg(long, value_name = "TIME")]
    pub(crate) until: Option<TimeSpec>,
    /// Write below this folder; creates it
    #[arg(long, value_name = "DIR")]
    pub(crate) out: PathBuf,
}
