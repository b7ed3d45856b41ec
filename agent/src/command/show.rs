// SPDX-License-Identifier: MIT OR Apache-2.0
//! `mpwatch ls` and `mpwatch show`: one snapshot of the open connections.

use std::time::Duration;

use anyhow::{anyhow, bail};
use mpwatch_engine::tracker::Closed;
use mpwatch_model::flow::connection::Connection;
use mpwatch_model::flow::series::CounterSeries;
use mpwatch_model::snapshot::{Report, Snapshot};
use mpwatch_report::json::{self, Layout};
use mpwatch_report::text;
use mpwatch_store::SheetKind;

use super::output::{print, print_table};
use super::sheet::sheet;
use crate::cli::{ListOptions, ShowOptions, ViewOptions};
use crate::client::Daemon;
use crate::error::{Failure, NO_SUCH_CONNECTION, exit};
use crate::live::session::{self, TrackerSettings};
use crate::system::stop_flag;

/// Time between two snapshots without a daemon: long enough to compute rates, short enough for an interactive command.
const INTERVAL: Duration = Duration::from_millis(300);

pub(super) fn list(options: &ListOptions) -> anyhow::Result<()> {
    let mut snapshot = snapshot(&options.view)?;
    match (options.json, options.csv) {
        (true, _) => print(&json::text(&snapshot, Layout::Line)?),
        (_, true) => {
            let connections = std::mem::take(&mut snapshot.connections);
            let report = Report::from_snapshot(&snapshot, connections);
            print(&sheet(&report, &CounterSeries::new(), SheetKind::Subflows)?)
        }
        _ => {
            if snapshot.connections.is_empty() {
                let is_filtered = options.view.filter.narrows();
                let which = if is_filtered { "open connection matches" } else { "connection is open" };
                eprintln!("mpwatch: no {which}");
            }
            print_table(&mpwatch_tui::list(&snapshot))
        }
    }
}

pub(super) fn connection(options: &ShowOptions) -> anyhow::Result<()> {
    let snapshot = snapshot(&options.view)?;
    let connection = find(&snapshot.connections, &options.id)?;
    print(&if options.json { json::text(connection, Layout::Pretty)? } else { text::connection(connection) })
}

/// The daemon's latest snapshot. Without a daemon, traces and returns the second snapshot, because the first has no rates.
fn snapshot(options: &ViewOptions) -> anyhow::Result<Snapshot> {
    let stop = stop_flag()?;
    let mut latest = None;
    if let Some(mut daemon) = Daemon::find(options, false, &stop)? {
        latest = daemon.next()?;
    } else {
        options.filter.ensure_namespace()?;
        let mut live = options.trace.start(INTERVAL, stop).map_err(exit::view_error)?;
        session::run(
            &mut live,
            TrackerSettings::new(Closed::Forget, options.trace.method),
            None,
            |snapshot| Ok(latest.replace(snapshot).is_none()),
        )?;
    }
    let latest = latest.ok_or_else(|| anyhow!("interrupted before the first snapshot"))?;
    Ok(options.filter.apply(latest))
}

/// The connection with this id or token, or with a prefix of either that no other connection has.
fn find<'a>(connections: &'a [Connection], wanted: &str) -> anyhow::Result<&'a Connection> {
    let matches = |connection: &&Connection| {
        connection.id.to_string().starts_with(wanted)
            || connection.token.is_some_and(|token| token.to_string().starts_with(wanted))
    };
    let found: Vec<&Connection> = connections.iter().filter(matches).collect();
    match found[..] {
        [] => bail!(Failure {
            code: NO_SUCH_CONNECTION,
            message: format!("no connection matches `{wanted}`; `mpwatch ls` lists the open connections"),
        }),
        [connection] => Ok(connection),
        _ => {
            let exact = found.iter().find(|connection| connection.id.to_string() == wanted);
            let ids: Vec<String> = found.iter().map(|connection| connection.id.to_string()).collect();
            exact
                .copied()
                .ok_or_else(|| anyhow!("`{wanted}` matches {} connections: {}", ids.len(), ids.join(", ")))
        }
    }
}
