// SPDX-License-Identifier: MIT OR Apache-2.0
//! Exports: metrics for Prometheus ([`prometheus`]) with the web server that serves them ([`http`]), and, as cargo features, records for
//! ClickHouse (`clickhouse`) and OTLP (`otlp`), which `send` sends over HTTP, and Parquet files (`parquet`).

#[cfg(feature = "clickhouse")]
pub mod clickhouse;
pub mod http;
pub mod options;
#[cfg(feature = "otlp")]
pub mod otlp;
#[cfg(feature = "parquet")]
pub mod parquet;
mod pem;
#[cfg(any(feature = "clickhouse", feature = "parquet"))]
mod percent;
pub mod prometheus;
#[cfg(feature = "send")]
pub mod sample;
#[cfg(feature = "send")]
pub mod send;
