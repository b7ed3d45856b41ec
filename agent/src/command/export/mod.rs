// SPDX-License-Identifier: MIT OR Apache-2.0
//! `mpwatch export`: sends the connections of a database to ClickHouse or an OTLP receiver, or writes Parquet files.

#[cfg(feature = "clickhouse")]
mod clickhouse;
#[cfg(feature = "parquet")]
mod parquet;
#[cfg(feature = "http-client")]
mod send;

use crate::cli::ExportCommand;

pub(super) fn run(command: &ExportCommand) -> anyhow::Result<()> {
    match command {
        #[cfg(feature = "clickhouse")]
        ExportCommand::Clickhouse(options) => clickhouse::run(options),
        #[cfg(feature = "otlp")]
        ExportCommand::Otlp(options) => send::otlp(options),
        #[cfg(feature = "parquet")]
        ExportCommand::Parquet(options) => parquet::run(options),
    }
}
