// SPDX-License-Identifier: MIT OR Apache-2.0
//! All of `mpwatch replay` behind the opening of the file: the reader, the tracker, and every output of the report. Not a
//! target itself. The targets build in the program's own files, because the program has no library.

use std::io::BufRead;
use std::ops::ControlFlow;
use std::path::Path;

use mpwatch_exporters::json::{self, Layout};
use mpwatch_exporters::{csv, text};

use crate::recording::Replay;
use crate::session;
use crate::tracker::Closed;

/// Reads to the end or to the first error; what was understood must be told in every format.
pub(crate) fn replay(lines: impl BufRead) {
    let Ok(mut replay) = Replay::read_start(Path::new("fuzz"), lines) else {
        return;
    };
    let report = session::run(&mut replay, Closed::Keep, None, |snapshot| {
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
