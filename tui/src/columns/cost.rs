// SPDX-License-Identifier: MIT OR Apache-2.0
//! Power and energy as cells.

use mpwatch_model::finding;
use mpwatch_model::flow::connection::Connection;
use mpwatch_model::id::SubflowId;
use mpwatch_model::metric::{self, Unit};
use mpwatch_model::unit::Microjoules;

use super::column::{Column, RowKind, Value, numbers, shown, sum, words};
use super::order::Order;
use super::row::{Row, Subject};
use crate::text::Text;
use crate::theme::Ink;

pub(super) const COLUMNS: &[Column] = &[
    numbers(
        ("watts", "POWER", "power above idle, mean over 5 s"),
        7,
        RowKind::All,
        Value::Cell(
            |row, _| {
                let mark = row.estimate_mark();
                let power =
                    row.watts().map(|watts| format!("{mark}{}", metric::watts(watts).replace(' ', "")));
                Text::plain(power.unwrap_or_else(|| "-".to_owned()))
            },
            |row| Order::number(row.watts()),
        ),
    ),
    words(
        ("bounds", "RANGE", "bounds of the energy above idle"),
        (13, 19),
        RowKind::Flows,
        Value::Cell(bounds, |row| {
            Order::number(row.energy().and_then(|energy| energy.hi).map(Microjoules::joules))
        }),
    ),
    numbers(
        ("wasted", "WASTED", "energy of subflows that add no throughput"),
        7,
        RowKind::Flows,
        Value::Cell(
            |row, _| {
                let Subject::Connection(connection, _) = row.subject else { return Text::default() };
                let joules = wasted(connection);
                if joules.is_some_and(|joules| joules > 0.0) {
                    shown(row, Unit::Joules, joules).all(Ink::Warning)
                } else {
                    Text::plain(row.context.units.compact(Unit::Joules, joules))
                }
            },
            |row| Order::number(row.connection().and_then(wasted)),
        ),
    ),
    words(
        ("source", "SOURCE", "source of the energy figures"),
        (9, 13),
        RowKind::Flows,
        Value::Cell(
            |row, _| Text::new(source(row).unwrap_or("-"), Ink::Faint),
            |row| Order::Word(source(row).unwrap_or_default().to_owned()),
        ),
    ),
    sum(("joules", "ENERGY", "energy above idle"), 7, Unit::Joules, |sums| {
        sums.energy().and_then(|energy| energy.active).map(Microjoules::joules)
    }),
    sum(
        ("j_per_gb", "J/GB", "energy above idle per gigabyte of payload"),
        6,
        Unit::JoulesPerGigabyte,
        |sums| sums.energy().and_then(|energy| energy.j_per_gb),
    ),
];

fn source(row: &Row<'_>) -> Option<&'static str> {
    row.energy().map(|energy| energy.source.as_str())
}

fn bounds(row: &Row<'_>, _: usize) -> Text {
    let text = row.energy().and_then(|energy| energy.lo.zip(energy.hi)).map(|(lo, hi)| {
        let [lo, hi] = [lo, hi].map(|end| row.context.units.compact(Unit::Joules, Some(end.joules())));
        format!("{}{lo}..{hi}", row.estimate_mark())
    });
    Text::plain(text.unwrap_or_else(|| "-".to_owned()))
}

/// Joules of the subflows that add no throughput. `None`: unknown.
fn wasted(connection: &Connection) -> Option<f64> {
    let extra: Vec<SubflowId> =
        finding::shared_groups(connection).flat_map(|group| group[1..].to_vec()).collect();
    match connection.extra_subflows {
        Some(0) => Some(0.0),
        _ if extra.is_empty() => None,
        _ => finding::extra_cost(connection, &extra)?.active.map(Microjoules::joules),
    }
}
