// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the screen says when there is nothing to draw: no connection, or no room.

use crate::cell::clip;
use crate::table::Size;

/// The smallest screen that a table is of use on.
pub(crate) const SMALLEST: Size = Size { columns: 60, rows: 10 };

const NO_CONNECTION: &[&str] = &[
    "",
    "No MPTCP connection at the moment.",
    "",
    "Is MPTCP on here?   sysctl net.mptcp.enabled    (1: yes)",
    "Make a program      mptcpize run PROGRAM",
    "  use it:           or in its source, IPPROTO_MPTCP:",
    "                    socket(AF_INET, SOCK_STREAM, 262)",
    "See it at work:     mpwatch demo",
];

/// Help for a machine without MPTCP connections.
pub(crate) fn no_connection(width: usize) -> Vec<String> {
    NO_CONNECTION.iter().map(|line| clip(line, width)).collect()
}

/// Says how large the terminal should be.
pub(crate) fn too_small(size: Size) -> Vec<String> {
    let Size { columns, rows } = SMALLEST;
    let lines = [
        format!("This terminal is {}x{}.", size.columns, size.rows),
        format!("mpwatch needs {columns}x{rows}."),
    ];
    lines.iter().take(size.rows.into()).map(|line| clip(line, size.columns.into())).collect()
}
