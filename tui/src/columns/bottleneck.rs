// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cells of shared bottlenecks: each group of subflows or paths has a letter, and a bracket connects the rows of the group.

use mpwatch_model::finding::{shared_groups, working_subflows};
use mpwatch_model::flow::bottleneck::Verdict;
use mpwatch_model::flow::connection::Connection;
use mpwatch_model::flow::subflow::Subflow;

use super::column::{Column, RowKind, Value, words};
use super::order::Order;
use super::row::{Row, Subject};
use crate::aggregate::SharedPath;
use crate::text::Text;
use crate::theme::Ink;

pub(super) const COLUMNS: &[Column] = &[
    words(
        ("bottleneck", "BOTTLENECK", "subflows that share a bottleneck"),
        (12, 14),
        RowKind::Flows,
        Value::Cell(bottleneck, |row| {
            Order::number(row.connection().and_then(|connection| connection.extra_subflows).map(f64::from))
        }),
    ),
    words(
        ("group", "BOTTLENECK", "paths that share a bottleneck"),
        (10, 14),
        RowKind::Aggregates,
        Value::Cell(shared_path, |row| {
            Order::number(row.sums().and_then(|sums| sums.shared).map(|shared| -f64::from(shared.group)))
        }),
    ),
];

/// The cell of member `index` in a group of `size` members.
fn member(group: usize, index: usize, size: usize) -> Text {
    let letter = char::from(b'A' + u8::try_from(group % 26).unwrap_or(0));
    let bracket = match index {
        0 => '╭',
        last if last + 1 == size => '╰',
        _ => '│',
    };
    Text::new(format!("{bracket} shared {letter}"), Ink::Group(group))
}

fn verdict(verdict: Verdict) -> Text {
    match verdict {
        Verdict::Disjoint => Text::new("separate", Ink::Good),
        Verdict::NoBottleneck => Text::new("none", Ink::Faint),
        Verdict::Unknown => Text::new("undecided", Ink::Faint),
        Verdict::Shared => Text::default(),
    }
}

fn bottleneck(row: &Row<'_>, width: usize) -> Text {
    match row.subject {
        Subject::Connection(connection, _) => of_connection(connection, width),
        Subject::Subflow { connection, subflow, .. } => of_subflow(connection, subflow),
        Subject::Aggregate { .. } => Text::default(),
    }
}

fn of_connection(connection: &Connection, width: usize) -> Text {
    let Some(found) = &connection.bottlenecks else { return Text::default() };
    let groups: Vec<String> = shared_groups(connection)
        .map(|group| {
            let names: Vec<String> = group.iter().map(|id| connection.subflow_name(*id)).collect();
            names.join("+")
        })
        .collect();
    if !groups.is_empty() {
        let forms = [format!("{} shared", groups.join(" ")), "shared".to_owned()];
        return Text::first_that_fits(forms.map(|form| Text::new(form, Ink::Warning)), width);
    }
    let is_all = |verdict| found.pairs.iter().all(|pair| pair.verdict == verdict);
    if connection.is_open() && working_subflows(connection) < 2 {
        Text::default()
    } else if found.pairs.is_empty() || is_all(Verdict::Unknown) {
        verdict(Verdict::Unknown)
    } else if is_all(Verdict::NoBottleneck) {
        verdict(Verdict::NoBottleneck)
    } else {
        verdict(Verdict::Disjoint)
    }
}

fn of_subflow(connection: &Connection, subflow: &Subflow) -> Text {
    let in_group = |(number, group): (usize, &Vec<_>)| {
        Some(member(number, group.iter().position(|id| *id == subflow.id)?, group.len()))
    };
    shared_groups(connection).enumerate().find_map(in_group).unwrap_or_default()
}

fn shared_path(row: &Row<'_>, _: usize) -> Text {
    let Some(sums) = row.sums() else { return Text::default() };
    match sums.shared {
        Some(SharedPath { group, index, size }) => member(group as usize, index as usize, size as usize),
        None => sums.verdict.map(verdict).unwrap_or_default(),
    }
}
