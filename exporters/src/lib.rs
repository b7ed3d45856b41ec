// SPDX-License-Identifier: MIT OR Apache-2.0
//! What leaves the machine: metrics for Prometheus ([`prometheus`]) with the web server that serves them ([`http`]), and the encodings of
//! records for ClickHouse (`clickhouse`), OTLP (`otlp`) and Parquet (`parquet`; these three are cargo features).

#[cfg(feature = "clickhouse")]
pub mod clickhouse;
pub mod http;
#[cfg(feature = "otlp")]
pub mod otlp;
#[cfg(feature = "parquet")]
pub mod parquet;
pub mod prometheus;
#[cfg(any(feature = "clickhouse", feature = "otlp"))]
pub mod sample;
