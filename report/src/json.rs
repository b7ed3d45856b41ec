// SPDX-License-Identifier: MIT OR Apache-2.0
//! JSON, documented in docs/json.md. A stream of snapshots has one object per line.

use std::io::{self, Write};

use mpwatch_model::snapshot::Snapshot;
use serde::Serialize;

/// Layout of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// One line, for streams.
    Line,
    /// Indented, for people.
    Pretty,
}

/// A snapshot, report or connection, without a final newline.
pub fn text(value: &impl Serialize, layout: Layout) -> serde_json::Result<String> {
    match layout {
        Layout::Line => serde_json::to_string(value),
        Layout::Pretty => serde_json::to_string_pretty(value),
    }
}

/// Writes the same as [`text`], without building the text in memory: a report has about 8 kB per connection. The writer should be buffered.
pub fn write(value: &impl Serialize, layout: Layout, output: &mut impl Write) -> io::Result<()> {
    match layout {
        Layout::Line => serde_json::to_writer(output, value)?,
        Layout::Pretty => serde_json::to_writer_pretty(output, value)?,
    }
    Ok(())
}

/// Writes a snapshot as a line of a stream, without building the text (tens of megabytes) in memory. The writer should be buffered.
pub fn line(snapshot: &Snapshot, output: &mut impl Write) -> io::Result<()> {
    write(snapshot, Layout::Line, output)?;
    output.write_all(b"\n")
}
