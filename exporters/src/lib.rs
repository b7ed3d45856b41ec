// SPDX-License-Identifier: MIT OR Apache-2.0
//! Everything that leaves the machine: metrics for Prometheus ([`prometheus`]), and the web server that serves them ([`http`]). Cargo features
//! add TLS and users to the server (`web-config`), records for ClickHouse (`clickhouse`) and OTLP (`otlp`), which `send` sends over HTTP, and
//! Parquet files (`parquet`).

#[cfg(feature = "clickhouse")]
pub mod clickhouse;
pub mod http;
pub mod options;
#[cfg(feature = "otlp")]
pub mod otlp;
#[cfg(feature = "parquet")]
pub mod parquet;
#[cfg(any(feature = "send", feature = "web-config"))]
mod pem;
#[cfg(any(feature = "clickhouse", feature = "parquet"))]
mod percent;
pub mod prometheus;
#[cfg(feature = "send")]
pub mod sample;
#[cfg(feature = "send")]
pub mod send;
