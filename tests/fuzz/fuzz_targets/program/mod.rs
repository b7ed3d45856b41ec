// SPDX-License-Identifier: MIT OR Apache-2.0
//! Everything that `mpwatch replay` does after opening the file: the reader, the tracker, and every output format. Not a target
//! itself. The targets compile the program's own files, because the program has no library.

use std::io::BufRead;
use std::ops::ControlFlow;
use std::path::Path;

use mpwatch_exporters::json::{self, Layout};
use mpwatch_exporters::{csv, text};

use mpwatch_engine::tracker::Closed;
use mpwatch_model::bottleneck::DetectionMethod;

use crate::recording::Replay;
use crate::session::{self, TrackerSettings};

/// Reads to the end or to the first error. A report must be writable in every format.
pub(crate) fn replay(lines: impl BufRead) {
    let Ok(mut replay) = Replay::read_start(Path::new("fuzz"), lines) else {
        return;
    };
    let settings = TrackerSettings { closed: Closed::Keep, method: DetectionMethod::default() };
    let report = session::run(&mut replay, settings, None, |snapshot| {
        json::snapshot(&snapshot, Layout::Line)?;
        for connection in &snapshot.connections {
            text::connection(connection);
        }
        Ok(ControlFlow::Continue(()))
    });
    if let Ok(report) = report {
        text::report(&report);
        json::report(&report, Layout::Pretty).expect("a report can be written as JSON");
        csv::list(&report.connections).expect("a report can be written as CSV");
    }
}
