// SPDX-License-Identifier: MIT OR Apache-2.0
//! `mpwatch ls`: a line for each connection. The columns and their order stay; a value that is not known is a dash.

use mpwatch_model::connection::Connection;
use mpwatch_model::endpoint::printable;
use mpwatch_model::lifecycle::Role;
use mpwatch_model::metric::{self, CONNECTION};
use mpwatch_model::snapshot::Snapshot;

use super::grid::{Grid, Side};
use super::process;

const COLUMNS: &[(&str, Side)] = &[
    ("ID", Side::Left),
    ("PROTOCOL", Side::Left),
    ("STATE", Side::Left),
    ("ROLE", Side::Left),
    ("NETNS", Side::Left),
    ("PROCESS", Side::Left),
    ("LOCAL", Side::Left),
    ("REMOTE", Side::Left),
];

const NUMBERS: &[&str] = &[
    "mpwatch_connection_subflows",
    "mpwatch_connection_send_bits_per_second",
    "mpwatch_connection_receive_bits_per_second",
    "mpwatch_connection_sent_bytes_total",
    "mpwatch_connection_received_bytes_total",
    "mpwatch_connection_retransmitted_bytes_total",
    "mpwatch_connection_age_seconds",
    "mpwatch_connection_cpu_seconds_total",
    "mpwatch_connection_active_joules_total",
    "mpwatch_connection_joules_per_gigabyte",
];

/// All connections of a snapshot, one a line below a line of titles. Ends with a newline.
pub fn list(snapshot: &Snapshot) -> String {
    let metrics: Vec<_> = NUMBERS.iter().filter_map(|name| metric::find(CONNECTION, name)).collect();
    let numbers = metrics.iter().map(|metric| (metric.title, Side::Right));
    let columns: Vec<_> = COLUMNS.iter().copied().chain(numbers).collect();
    let row = |c: &Connection| words(c).into_iter().chain(metrics.iter().map(|m| m.compact(c))).collect();
    let rows = snapshot.connections.iter().map(row).collect();
    Grid { columns: &columns, rows }.text("")
}

fn words(connection: &Connection) -> [String; 8] {
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    [
        connection.id.to_string(),
        if connection.fallback.is_some() { "fallback" } else { connection.protocol.as_str() }.to_owned(),
        connection.state.as_str().to_owned(),
        or_dash(connection.role.map(Role::as_str).map(str::to_owned)),
        printable(&connection.netns).into_owned(),
        process(connection),
        or_dash(connection.local.map(|address| address.to_string())),
        or_dash(connection.remote.map(|address| address.to_string())),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_column_is_in_the_metric_table() {
        assert!(NUMBERS.iter().all(|name| metric::find(CONNECTION, name).is_some()));
    }
}
