// SPDX-License-Identifier: MIT OR Apache-2.0
//! The engine of ClickHouse, which chDB has (`MPWATCH_PYTHON`), with the tables of mpwatch.

pub use mpwatch_bench::clickhouse::{Engine, schema, statements};

use crate::skip;

/// Starts an engine. `None`: it is missing, and the test is skipped.
pub fn engine() -> Option<Engine> {
    Engine::start().map_err(skip).ok()
}
