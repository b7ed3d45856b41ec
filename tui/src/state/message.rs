// SPDX-License-Identifier: MIT OR Apache-2.0
//! Events that the screen handles, and requests that it returns to its caller.

use std::sync::Arc;
use std::time::Duration;

use mpwatch_model::snapshot::{Report, Snapshot};
use ratatui::crossterm::event::{KeyEvent, MouseEvent};

use crate::digest::Digested;
use crate::state::settings::Origin;

/// The state of the source of snapshots.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Link {
    /// No snapshot has arrived yet.
    #[default]
    Starting,
    /// This process cannot trace and no daemon runs. The paragraphs give the reason and what to do.
    Blocked(Vec<String>),
    /// Snapshots arrive from this source.
    Up(Origin),
    /// The source is gone; the string is the reason. The caller tries to reconnect.
    Gone(String),
    /// The recording or the demo is over.
    Ended,
}

/// A message from the source of snapshots.
#[derive(Clone, Debug)]
pub enum Feed {
    /// A snapshot with its digest.
    Snapshot(Arc<Digested>),
    /// The state of the source has changed.
    Link(Link),
}

impl Feed {
    /// Computes the digest of a snapshot. Call it on the thread that delivers snapshots: with many flows it takes longer than drawing.
    pub fn snapshot(snapshot: impl Into<Arc<Snapshot>>) -> Self {
        Self::Snapshot(Arc::new(Digested::new(snapshot)))
    }
}

/// An event that the screen handles.
#[derive(Clone, Debug)]
pub enum Event {
    /// A key was pressed.
    Key(KeyEvent),
    /// A mouse event.
    Mouse(MouseEvent),
    /// The new size of the terminal: columns, rows.
    Resize(u16, u16),
    /// A message from the source of snapshots.
    Feed(Feed),
    /// The answer to a request.
    Notice(Notice),
}

/// A line for the user, shown until the user presses a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// Whether the line reports a failure.
    pub is_error: bool,
    /// The line.
    pub text: String,
}

/// The format of an export.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExportFormat {
    /// One object, as `report --format json` writes it.
    Json,
    /// A row for each subflow.
    Csv,
    /// Text to paste into an issue.
    Markdown,
}

impl ExportFormat {
    /// All formats.
    pub const ALL: [Self; 3] = [Self::Json, Self::Csv, Self::Markdown];

    /// The name in the list of formats, and the extension of the file.
    pub fn description(self) -> (&'static str, &'static str) {
        match self {
            Self::Json => ("JSON", "json"),
            Self::Csv => ("CSV, a row for each subflow", "csv"),
            Self::Markdown => ("Markdown", "md"),
        }
    }
}

/// A request from the screen to its caller.
#[derive(Clone, Debug, PartialEq)]
pub enum Request {
    /// Quit.
    Quit {
        /// Leave the content of the screen in the terminal.
        keep: bool,
    },
    /// Suspend the process, so that the shell gets the terminal.
    Suspend,
    /// Redraw the whole screen.
    Redraw,
    /// Change the interval between snapshots, or between the frames of a replay.
    Interval(Duration),
    /// Continue (`true`) or pause (`false`) a replay.
    Play(bool),
    /// Show one more snapshot of a paused replay.
    Step,
    /// Write the report to a file and answer with a notice that names the file.
    Export(Box<Report>, ExportFormat),
}
