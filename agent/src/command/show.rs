// SPDX-License-Identifier: MIT OR Apache-2.0
//! `mpwatch ls` and `mpwatch show`: one look at what is open now.

use std::ops::ControlFlow;
use std::time::Duration;

use mpwatch_exporters::json::{self, Layout};
use mpwatch_exporters::{csv, text};
use mpwatch_model::connection::Connection;
use mpwatch_model::snapshot::Snapshot;

use super::{print, trace};
use crate::attach::Daemon;
use crate::cli::Scope;
use crate::exit::NoSuchFlow;
use crate::live::stop_on_signals;
use crate::session;
use crate::tracker::Closed;

/// Long enough for a rate, short enough for an answer at once.
const GLANCE: Duration = Duration::from_millis(300);

pub(super) fn list(as_json: bool, as_csv: bool, scope: &Scope) -> anyhow::Result<()> {
    let snapshot = scope.narrow(glance(scope)?);
    let output = match (as_json, as_csv) {
        (true, _) => json::snapshot(&snapshot, Layout::Line)?,
        (_, true) => csv::list(&snapshot.connections)?,
        _ => mpwatch_tui::list(&snapshot),
    };
    print(&output)
}

pub(super) fn one(id: &str, as_json: bool, scope: &Scope) -> anyhow::Result<()> {
    let snapshot = scope.narrow(glance(scope)?);
    let connection = find(&snapshot.connections, id)?;
    print(&if as_json { json::connection(connection, Layout::Pretty)? } else { text::connection(connection) })
}

/// The daemon's latest snapshot, or two of our own, so that the second one has rates.
fn glance(scope: &Scope) -> anyhow::Result<Snapshot> {
    let stop = stop_on_signals()?;
    if let Some(mut daemon) = Daemon::find(scope, false, &stop)? {
        return daemon.next()?.ok_or_else(|| anyhow::anyhow!("interrupted before the first snapshot"));
    }
    let mut live = trace(GLANCE, scope, stop)?;
    let mut latest = None;
    let mut looks = 0;
    session::run(&mut live, scope.outlook(Closed::Forget), None, |snapshot| {
        looks += 1;
        latest = Some(snapshot);
        Ok(if looks == 2 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    })?;
    latest.ok_or_else(|| anyhow::anyhow!("interrupted before the first snapshot"))
}

/// By id, by token, or by the beginning of either where only one connection has it.
fn find<'a>(connections: &'a [Connection], wanted: &str) -> anyhow::Result<&'a Connection> {
    let matches = |connection: &&Connection| {
        connection.id.to_string().starts_with(wanted)
            || connection.token.is_some_and(|token| token.to_string().starts_with(wanted))
    };
    let found: Vec<&Connection> = connections.iter().filter(matches).collect();
    match found[..] {
        [] => Err(NoSuchFlow { id: wanted.to_owned() }.into()),
        [connection] => Ok(connection),
        _ => {
            let exact = found.iter().find(|connection| connection.id.to_string() == wanted);
            let ids: Vec<String> = found.iter().map(|connection| connection.id.to_string()).collect();
            exact.copied().ok_or_else(|| {
                anyhow::anyhow!("`{wanted}` fits {} connections: {}", ids.len(), ids.join(", "))
            })
        }
    }
}
