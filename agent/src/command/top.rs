// SPDX-License-Identifier: MIT OR Apache-2.0
//! `mpwatch top`: snapshots as they come. On a terminal the live view; with `--batch`, or without a terminal, one after the other.

mod live_view;

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use mpwatch_model::snapshot::Snapshot;
use mpwatch_tui::table;

use super::database::Database;
use super::{on_a_terminal, print, print_line, trace};
use crate::attach::Daemon;
use crate::cli::{Scope, TopOptions};
use crate::live::stop_on_signals;
use crate::session;
use crate::source::EventSource as _;
use crate::tracker::Closed;

/// Time between two snapshots where nobody says.
const INTERVAL: Duration = Duration::from_secs(1);
/// Width of the lines of `--batch`.
const WIDTH: usize = 160;

pub(super) fn run(options: &TopOptions, scope: &Scope) -> anyhow::Result<()> {
    let stop = stop_on_signals()?;
    if !options.batch && on_a_terminal() {
        return live_view::run(options, scope, &stop);
    }
    // A store begins with what its own tracing began with.
    let daemon =
        if options.db.is_some() { None } else { Daemon::find(scope, options.interval.is_some(), &stop)? };
    let live =
        if daemon.is_some() { None } else { Some(trace(options.interval.unwrap_or(INTERVAL), scope, stop)?) };
    let mut database = match &live {
        Some(live) => Database::open(options.db.as_deref(), live.start())?,
        None => None,
    };
    let mut left = Countdown::new(options.count);
    let mut each = |snapshot: Snapshot| {
        let snapshot = Arc::new(snapshot);
        if let Some(database) = &mut database {
            database.offer(&snapshot);
        }
        let snapshot = scope.narrow(Arc::unwrap_or_clone(snapshot));
        if options.json {
            print_line(&snapshot)?;
        } else {
            print(&table(&snapshot, WIDTH))?;
        }
        Ok(left.next())
    };
    if let Some(mut daemon) = daemon {
        while let Some(snapshot) = daemon.next()? {
            if each(snapshot)?.is_break() {
                break;
            }
        }
    }
    if let Some(mut live) = live {
        session::run(&mut live, scope.outlook(Closed::Forget), None, each)?;
    }
    database.map(Database::close).transpose()?;
    Ok(())
}

/// Snapshots that are still to be shown.
struct Countdown(u64);

impl Countdown {
    fn new(count: Option<u64>) -> Self {
        Self(count.unwrap_or(u64::MAX))
    }

    fn next(&mut self) -> ControlFlow<()> {
        self.0 = self.0.saturating_sub(1);
        if self.0 == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}
