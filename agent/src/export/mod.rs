// SPDX-License-Identifier: MIT OR Apache-2.0
//! Exports of a database: files and network connections. The encodings are in `mpwatch_exporters`.

#[cfg(feature = "clickhouse")]
pub(crate) mod clickhouse;
#[cfg(feature = "clickhouse")]
pub(crate) mod http;
#[cfg(feature = "parquet")]
pub(crate) mod parquet;
#[cfg(feature = "clickhouse")]
mod retry;
