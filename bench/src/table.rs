// SPDX-License-Identifier: MIT OR Apache-2.0
//! Formats tables in Markdown.

use std::fmt::Write as _;

/// Formats a table. All columns except the first are aligned to the right.
pub(crate) fn markdown(header: &[&str], rows: &[Vec<String>]) -> String {
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let mut text = line(&header.iter().map(|&cell| cell.to_owned()).collect::<Vec<_>>());
    let _ = writeln!(text, "|---|{}", "---:|".repeat(header.len() - 1));
    for row in rows {
        text += &line(row);
    }
    text
}

/// Formats a number with at most two decimals. Numbers from 1 to 1 000 have three significant digits.
pub(crate) fn figure(value: f64) -> String {
    let decimals = match value.abs() {
        large if large >= 99.95 => 0,
        medium if medium >= 9.995 => 1,
        _ => 2,
    };
    format!("{value:.decimals$}")
}
