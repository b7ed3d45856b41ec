// SPDX-License-Identifier: MIT OR Apache-2.0
//! The engine of ClickHouse from chDB (`MPWATCH_PYTHON`), with the tables of mpwatch.

use std::collections::BTreeMap;

pub use mpwatch_bench::clickhouse::{Engine, schema, statements};

use crate::skip;

/// Starts an engine. `None`: chDB is missing, and the test is skipped.
pub fn engine() -> Option<Engine> {
    Engine::start().map_err(skip).ok()
}

/// The rows of an insertion: cells by column, as they were sent. Unknown cells are omitted. A query without a body has no rows.
pub fn rows(body: &[u8]) -> Vec<BTreeMap<String, String>> {
    if body.is_empty() {
        return Vec::new();
    }
    let (statement, rows) = std::str::from_utf8(body).unwrap().split_once('\n').unwrap();
    let names = statement.split_once('(').unwrap().1.split_once(") FORMAT TabSeparated").unwrap().0;
    let names: Vec<&str> = names.split(", ").map(|name| name.trim_matches('`')).collect();
    let row = |line: &str| {
        let cells: Vec<&str> = line.split('\t').collect();
        assert_eq!(cells.len(), names.len(), "{line}");
        let known = names.iter().zip(cells).filter(|(_, cell)| *cell != "\\N");
        known.map(|(name, cell)| ((*name).to_owned(), cell.to_owned())).collect()
    };
    rows.lines().map(row).collect()
}
