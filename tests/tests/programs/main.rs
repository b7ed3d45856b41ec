// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that need third-party programs, which only maintainers install: the engine of ClickHouse and pandas in a Python (`MPWATCH_PYTHON`),
//! a ClickHouse server, an OpenTelemetry Collector built with Go, Chromium. `./dev check --all` runs them.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

mod export_clickhouse;
mod export_clickhouse_server;
mod export_collector;
mod export_parquet;
mod export_queries;
mod html_pages;
mod kubernetes;
mod research;
