// SPDX-License-Identifier: MIT OR Apache-2.0
//! The output formats: text for people ([`text`], [`markdown`], [`html`]), CSV ([`csv`], [`links`]), JSON ([`json`], [`schema`]), Parquet
//! (`parquet`), ClickHouse (`clickhouse`), OTLP (`otlp`; these are cargo features) and metrics for Prometheus ([`prometheus`]). These are pure functions: no clock, files or environment. [`http`] is the web server that serves them.

#[cfg(feature = "clickhouse")]
pub mod clickhouse;
pub mod comparison;
pub mod csv;
pub mod html;
pub mod http;
pub mod json;
pub mod links;
pub mod markdown;
#[cfg(feature = "otlp")]
pub mod otlp;
#[cfg(feature = "parquet")]
pub mod parquet;
pub mod prometheus;
#[cfg(any(feature = "clickhouse", feature = "otlp"))]
pub mod sample;
pub mod schema;
pub mod text;
