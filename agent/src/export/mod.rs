// SPDX-License-Identifier: MIT OR Apache-2.0
//! Exports of a database: files and network connections. The encodings are in `mpwatch_exporters`.

#[cfg(feature = "clickhouse")]
pub(crate) mod clickhouse;
#[cfg(any(feature = "clickhouse", feature = "otlp"))]
pub(crate) mod delivery;
#[cfg(any(feature = "clickhouse", feature = "otlp"))]
pub(crate) mod http;
#[cfg(feature = "otlp")]
pub(crate) mod otlp;
#[cfg(feature = "parquet")]
pub(crate) mod parquet;
#[cfg(any(feature = "clickhouse", feature = "otlp"))]
mod retry;
