// SPDX-License-Identifier: MIT OR Apache-2.0
//! The options of `export`.

use std::path::PathBuf;
#[cfg(feature = "http-client")]
use std::time::Duration;

#[cfg(feature = "clickhouse")]
use clap::builder::NonEmptyStringValueParser;
use clap::{Args, Subcommand};

#[cfg(feature = "http-client")]
use super::target::TargetArgs;
#[cfg(feature = "clickhouse")]
use crate::quantity::parse_retention;
#[cfg(feature = "http-client")]
use crate::quantity::parse_step;
use crate::system::paths;
use crate::time_spec::TimeSpec;

#[derive(Clone, Debug, Subcommand)]
pub(crate) enum ExportCommand {
    /// Send connections to ClickHouse over HTTP, or print its schema
    #[cfg(feature = "clickhouse")]
    Clickhouse(ClickhouseOptions),
    /// Send a log event or spans for each closed connection to an OpenTelemetry Collector (OTLP/HTTP)
    #[cfg(feature = "otlp")]
    Otlp(OtlpOptions),
    /// Write Parquet files, partitioned by day and host, for DuckDB, pandas and similar tools
    #[cfg(feature = "parquet")]
    Parquet(ParquetOptions),
}

#[cfg(feature = "clickhouse")]
#[derive(Args, Clone, Debug)]
pub(crate) struct ClickhouseOptions {
    /// Print the tables as SQL and exit
    #[arg(long, group = "tables", conflicts_with_all = ["url", "db", "since", "user", "token_file", "ca_file", "cert_file", "resend"])]
    pub(crate) schema: bool,
    /// Compare the server's tables with this version's, and print the SQL that creates missing tables
    #[arg(long, group = "tables", conflicts_with_all = ["db", "since", "resend"])]
    pub(crate) check: bool,
    /// With --schema or --check: print replicated and distributed tables for this cluster
    #[arg(long, value_name = "NAME", requires = "tables", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) cluster: Option<String>,
    /// With --schema: let the server delete connections (but not the hourly sums) after this time, for example 90d
    #[arg(long, value_name = "DURATION", requires = "schema", conflicts_with_all = ["url", "check"], value_parser = parse_retention)]
    pub(crate) keep: Option<Duration>,
    #[command(flatten)]
    pub(crate) target: TargetArgs<true>,
    #[command(flatten)]
    pub(crate) delivery: DeliveryOptions,
}

#[cfg(feature = "otlp")]
#[derive(Args, Clone, Debug)]
pub(crate) struct OtlpOptions {
    #[command(flatten)]
    pub(crate) target: TargetArgs<false>,
    /// Send a span for each connection and subflow, with the timeline as span events, instead of a log event
    #[arg(long)]
    pub(crate) spans: bool,
    #[command(flatten)]
    pub(crate) delivery: DeliveryOptions,
}

/// Options of one run of an export over HTTP.
#[cfg(feature = "http-client")]
#[derive(Args, Clone, Debug)]
pub(crate) struct DeliveryOptions {
    /// Read this database of mpwatch, and record there what was sent
    #[arg(long, value_name = "FILE", default_value = paths::DATABASE)]
    pub(crate) db: PathBuf,
    /// Omit connections that closed, or were last seen, before this time: a duration before now (2h, 7d), a time of the day (14:05), yesterday or a date (2026-03-01), local time
    #[arg(long, value_name = "TIME")]
    pub(crate) since: Option<TimeSpec>,
    /// Send all connections again, including those that the server has confirmed
    #[arg(long)]
    pub(crate) resend: bool,
    /// Retry a failed request for this long, 100ms to 600s
    #[arg(long, value_name = "DURATION", value_parser = parse_step, default_value = "300s")]
    pub(crate) retry_max_time: Duration,
}

#[cfg(feature = "parquet")]
#[derive(Args, Clone, Debug)]
pub(crate) struct ParquetOptions {
    /// Read this database
    #[arg(long, value_name = "FILE", default_value = paths::DATABASE)]
    pub(crate) db: PathBuf,
    /// Begin with the UTC day that contains this time, and export it whole: a duration before now (15m, 2h, 7d, 4w), yesterday or a date
    /// (2026-03-01), given in local time
    #[arg(long, value_name = "TIME")]
    pub(crate) since: Option<TimeSpec>,
    /// End with the UTC day that contains this time
    #[arg(long, value_name = "TIME")]
    pub(crate) until: Option<TimeSpec>,
    /// Write below this folder, and create it if necessary
    #[arg(long, value_name = "DIR")]
    pub(crate) out: PathBuf,
}
