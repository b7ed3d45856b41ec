// SPDX-License-Identifier: MIT OR Apache-2.0
//! Dump
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// One row a look: what was seen, and whether it was shared.
pub fn run(cells: &[(String, Vec<(BTreeMap<String, Option<f64>>, bool)>)]) -> String {
    let mut text = String::new();
    for (cell, rows) in cells {
        for (evidence, shared) in rows {
            let _ = writeln!(
                text,
                "{}",
                serde_json::json!({"cell": cell, "shared": shared, "evidence": evidence})
            );
        }
    }
    text
}
