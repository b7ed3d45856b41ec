// SPDX-License-Identifier: MIT OR Apache-2.0
//! Exports of a database: files and network connections. The encodings are in `mpwatch_exporters`.

#[cfg(feature = "clickhouse")]
mod clickhouse;
#[cfg(feature = "http-client")]
pub(crate) mod compression;
#[cfg(feature = "http-client")]
mod headers;
#[cfg(feature = "http-client")]
mod http;
#[cfg(feature = "otlp")]
pub(crate) mod otlp;
#[cfg(feature = "parquet")]
pub(crate) mod parquet;
#[cfg(any(feature = "clickhouse", feature = "parquet"))]
mod percent;
#[cfg(feature = "http-client")]
pub(crate) mod retry;
#[cfg(feature = "http-client")]
pub(crate) mod sender;
#[cfg(feature = "http-client")]
pub(crate) mod target;
#[cfg(feature = "http-client")]
mod tls;
#[cfg(feature = "http-client")]
pub(crate) mod url;
