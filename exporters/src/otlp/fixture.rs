// SPDX-License-Identifier: MIT OR Apache-2.0
//! An end of a connection with a few columns, for tests.

use mpwatch_model::flow::end::{End, EndColumns};
use mpwatch_model::table::ColumnType::{Integer, Text};
use mpwatch_model::table::{Cell, Column};

#[expect(clippy::unnecessary_wraps, reason = "cells of a row may be empty")]
pub(super) fn text(text: &str) -> Option<Cell> {
    Some(Cell::Text(text.to_owned()))
}

pub(super) fn columns() -> EndColumns {
    let text = |names: &[&str]| names.iter().map(|name| Column::new(*name, Text)).collect::<Vec<_>>();
    let integer = |names: &[&str]| names.iter().map(|name| Column::new(*name, Integer)).collect();
    let of_connection =
        ["host", "boot_id", "id", "token", "remote_token", "role", "local_ip", "comm", "energy_source"];
    EndColumns {
        connection: [text(&of_connection), integer(&["began_ns", "closed_at_ns", "active_uj", "bytes_sent"])]
            .concat(),
        subflow: [text(&["id", "interface"]), integer(&["srtt_us", "created_at_ns", "closed_at_ns"])]
            .concat(),
        bottleneck: Vec::new(),
        event: [integer(&["at_ns"]), text(&["event", "subflow", "detail", "reason"])].concat(),
    }
}

/// An end of a connection with two subflows. The second subflow opened at 3 ns and closed at 4 ns.
pub(super) fn end(host: &str, tokens: [&str; 2], closed: Option<i64>) -> End {
    let role = if tokens[0] < tokens[1] { "client" } else { "server" };
    let connection = vec![
        text(host),
        text("boot"),
        text("1-2-3"),
        text(tokens[0]),
        text(tokens[1]),
        text(role),
        text("fd00::1"),
        text("curl"),
        text("model"),
        Some(Cell::Integer(2)),
        closed.map(Cell::Integer),
        None,
        Some(Cell::Integer(7)),
    ];
    let number = |number| Some(Cell::Integer(number));
    let subflows = vec![
        vec![text("a.1"), text("eth0"), number(9), None, None],
        vec![text("b.1"), text("eth1"), None, number(3), number(4)],
    ];
    let events = vec![
        vec![number(2), text("opened"), None, None, None],
        vec![number(3), text("subflow_stale"), text("b.1"), text("{\"stale\":true}"), None],
        vec![number(4), text("subflow_closed"), text("b.1"), None, text("reset")],
    ];
    End { connection, subflows, bottlenecks: Vec::new(), events }
}
