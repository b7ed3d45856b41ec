// SPDX-License-Identifier: MIT OR Apache-2.0
//! Snapshots as plain text: `mpwatch top --batch` and `mpwatch ls`.

use std::cmp::Reverse;

use mpwatch_model::flow::connection::Connection;
use mpwatch_model::kernel::endpoint::printable;
use mpwatch_model::snapshot::Snapshot;

use crate::columns::{BATCH, Choice, Fold, LIST, PARTLY_LEGEND, Row, Subject, Table};
use crate::context::Context;
use crate::digest::Digest;
use crate::draw::{alarms, header_titles};
use crate::history::History;
use crate::mask::Mask;
use crate::text::{Text, clip};
use crate::units::Units;

/// Width in characters at which a table is not shortened.
const UNLIMITED: usize = 10_000;

/// The connections of a snapshot with their subflows, busiest first, in lines of at most `width` characters.
pub fn table(snapshot: &Snapshot, width: usize) -> String {
    let totals = Digest::new(&snapshot.connections).totals;
    let titles =
        header_titles(snapshot, &printable(&snapshot.host.name), totals, Units::default(), &[snapshot]);
    let mut lines = vec![Text::first_that_fits(titles, width).string()];
    lines.extend(alarms(snapshot).iter().map(|(text, ..)| clip(text, width)));
    if snapshot.connections.is_empty() {
        lines.push("no open MPTCP connection".to_owned());
        return text(&lines);
    }
    let mut sorted: Vec<&Connection> = snapshot.connections.iter().collect();
    sorted.sort_by_cached_key(|c| (!c.is_open(), Reverse(c.rate()), Reverse(c.payload()), c.id));
    let subjects = sorted.into_iter().flat_map(|connection| {
        let subflows = connection.subflows.iter().enumerate();
        let below = subflows.map(move |(index, subflow)| Subject::Subflow { connection, index, subflow });
        std::iter::once(Subject::Connection(connection, Fold::Never)).chain(below)
    });
    lines.extend(rows(subjects.collect(), BATCH, width));
    lines.extend(legend(snapshot).map(|line| clip(line, width)));
    text(&lines)
}

/// A line for each connection of a snapshot, below a line of titles. Unknown values are dashes. Ends with a newline.
pub fn list(snapshot: &Snapshot) -> String {
    let subjects = snapshot.connections.iter().map(|connection| Subject::Connection(connection, Fold::Never));
    let mut lines = rows(subjects.collect(), LIST, UNLIMITED);
    lines.extend(legend(snapshot).map(str::to_owned));
    text(&lines) + "\n"
}

/// Explains the mark of partly observed connections. `None`: no connection has the mark.
fn legend(snapshot: &Snapshot) -> Option<&'static str> {
    snapshot.connections.iter().any(Connection::is_partly_observed).then_some(PARTLY_LEGEND)
}

fn rows(subjects: Vec<Subject<'_>>, columns: &[Choice], width: usize) -> Vec<String> {
    let (history, mask) = (History::default(), Mask::default());
    let context = Context { frame: None, history: &history, tick: 0, mask: &mask, units: Units::default() };
    let rows: Vec<Row<'_>> = subjects.into_iter().map(|subject| Row { context, subject }).collect();
    let table = Table::new(columns, width, &rows);
    let lines = std::iter::once(table.titles(None)).chain(rows.iter().map(|row| table.row(row)));
    lines.map(|line| line.string()).collect()
}

fn text(lines: &[String]) -> String {
    lines.iter().map(|line| line.trim_end()).collect::<Vec<_>>().join("\n")
}
