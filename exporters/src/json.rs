// SPDX-License-Identifier: MIT OR Apache-2.0
//! JSON, as docs/json.md describes it. A stream of snapshots is one object a line.

use std::io::{self, Write};

use mpwatch_model::connection::Connection;
use mpwatch_model::snapshot::{Report, Snapshot};
use serde::Serialize;

/// How the text is laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// All in one line, for streams.
    Line,
    /// Indented, to be read.
    Pretty,
}

/// A snapshot; without a newline at its end.
pub fn snapshot(snapshot: &Snapshot, layout: Layout) -> serde_json::Result<String> {
    write(snapshot, layout)
}

/// A snapshot as a line of a stream, written as it is made: that of ten thousand subflows is tens of megabytes long. Give a buffered writer.
pub fn line(snapshot: &Snapshot, output: &mut impl Write) -> io::Result<()> {
    serde_json::to_writer(&mut *output, snapshot)?;
    output.write_all(b"\n")
}

/// A report; without a newline at its end.
pub fn report(report: &Report, layout: Layout) -> serde_json::Result<String> {
    write(report, layout)
}

/// One connection, as it stands in `connections` of both; without a newline at its end.
pub fn connection(connection: &Connection, layout: Layout) -> serde_json::Result<String> {
    write(connection, layout)
}

fn write(value: &impl Serialize, layout: Layout) -> serde_json::Result<String> {
    match layout {
        Layout::Line => serde_json::to_string(value),
        Layout::Pretty => serde_json::to_string_pretty(value),
    }
}
