// SPDX-License-Identifier: MIT OR Apache-2.0
//! `mpwatch top`: snapshots as they come. On a terminal a table that is redrawn in place; with `--batch` one after the other.

use std::io::{self, Write};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use mpwatch_model::snapshot::Snapshot;
use mpwatch_tui::{Size, Style};

use super::database::Database;
use super::{on_a_terminal, print, print_line, trace};
use crate::attach::Daemon;
use crate::cli::{Scope, TopOptions};
use crate::live::stop_on_signals;
use crate::session;
use crate::source::Source as _;
use crate::tracker::Closed;

/// Time between two snapshots where nobody says.
const INTERVAL: Duration = Duration::from_secs(1);
/// Height of a table that nobody has to fit on a screen.
const UNLIMITED: u16 = u16::MAX;

pub(super) fn run(options: &TopOptions, scope: &Scope) -> anyhow::Result<()> {
    let stop = stop_on_signals()?;
    // A store begins with what its own tracing began with.
    let daemon =
        if options.db.is_some() { None } else { Daemon::find(scope, options.interval.is_some(), &stop)? };
    let live =
        if daemon.is_some() { None } else { Some(trace(options.interval.unwrap_or(INTERVAL), scope, stop)?) };
    let mut database = match &live {
        Some(live) => Database::open(options.db.as_deref(), live.start())?,
        None => None,
    };
    let mut screen = (!options.batch && on_a_terminal()).then(Screen::open).transpose()?;
    let mut left = options.count.unwrap_or(u64::MAX);
    let mut each = |snapshot| {
        let snapshot = Arc::new(snapshot);
        if let Some(database) = &mut database {
            database.offer(&snapshot);
        }
        let snapshot = scope.narrow(Arc::unwrap_or_clone(snapshot));
        match &mut screen {
            Some(screen) => screen.draw(&snapshot)?,
            None if options.json => print_line(&snapshot)?,
            None => {
                print(&mpwatch_tui::table(&snapshot, Size { columns: 120, rows: UNLIMITED }, Style::Plain))?;
            }
        }
        left = left.saturating_sub(1);
        Ok(if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    };
    if let Some(mut daemon) = daemon {
        while let Some(snapshot) = daemon.next()? {
            if each(snapshot)?.is_break() {
                break;
            }
        }
    }
    if let Some(mut live) = live {
        session::run(&mut live, Closed::Forget, None, each)?;
    }
    database.map(Database::close).transpose()?;
    Ok(())
}

/// The terminal while a table is redrawn on it; what was there before comes back when it is dropped.
pub(super) struct Screen {
    style: Style,
}

impl Screen {
    pub(super) fn open() -> io::Result<Self> {
        let style = if std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty()) {
            Style::Plain
        } else {
            Style::Colour
        };
        // Alternate screen, cursor hidden.
        write(b"\x1b[?1049h\x1b[?25l")?;
        Ok(Self { style })
    }

    pub(super) fn draw(&mut self, snapshot: &Snapshot) -> io::Result<()> {
        let frame = mpwatch_tui::live_frame(snapshot, size(), self.style);
        write(frame.as_bytes())
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // Nothing to be done when the terminal is gone.
        let _ = write(b"\x1b[?25h\x1b[?1049l");
    }
}

fn write(bytes: &[u8]) -> io::Result<()> {
    let mut output = io::stdout().lock();
    output.write_all(bytes)?;
    output.flush()
}

/// Size of the terminal; 80x24 where it does not say.
fn size() -> Size {
    let (columns, rows) =
        terminal_size::terminal_size().map_or((80, 24), |(width, height)| (width.0, height.0));
    Size { columns, rows }
}
