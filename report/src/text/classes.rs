// SPDX-License-Identifier: MIT OR Apache-2.0
//! Completion times of queries, short and long flows, with MPTCP and with plain TCP `[UPD18]` `[RN10]`.

use mpwatch_model::flow::class::FlowClass;
use mpwatch_model::flow::class_totals::{ClassTotals, class_totals};
use mpwatch_model::host::energy::FlowEnergy;
use mpwatch_model::metric::{self, Unit};
use mpwatch_model::snapshot::Report;

use super::grid::Align::{Left, Right};
use super::grid::{Column, Grid, Overview};
use super::words::{bytes, or_dash};

const COLUMNS: &[Column<ClassTotals>] = &[
    ("class", Left, |c| format!("{} {}", c.carried_by.as_str(), c.flow_class.as_str())),
    ("flows", Right, |c| c.connections.to_string()),
    ("completed", Right, |c| c.completed.to_string()),
    ("median", Right, |c| metric::display(Unit::Seconds, c.median)),
    ("p99", Right, |c| metric::display(Unit::Seconds, c.p99)),
    ("slowest", Right, |c| metric::display(Unit::Seconds, c.slowest)),
    ("payload", Right, |c| bytes(c.payload.0)),
    ("mean goodput", Right, |c| metric::display(Unit::BitsPerSecond, c.goodput.map(|rate| rate.0 as f64))),
    ("overhead", Right, |c| metric::display(Unit::Ratio, c.excess)),
    ("mean Jain", Right, |c| or_dash(c.jain_index.map(|index| format!("{index:.3}")))),
    ("J/GB", Right, |c| joules_per_gigabyte(c.energy)),
];

/// A row for each protocol and class that has connections. `None`: there are none.
pub(crate) fn overview(report: &Report) -> Option<Overview> {
    let notes = vec![
        FlowClass::legend(),
        "completion times: only connections whose opening and end were traced".to_owned(),
        "goodput: observed payload of a connection, each byte once, over the observed time".to_owned(),
        "overhead: estimated share of the wire bytes that was not new payload".to_owned(),
    ];
    Some(Overview {
        title: "flow classes",
        notes,
        grid: Grid::from_rows(COLUMNS, &class_totals(&report.connections))?,
    })
}

/// Joules per gigabyte, with a mark if it is an estimate. A dash: unknown.
pub(crate) fn joules_per_gigabyte(energy: Option<FlowEnergy>) -> String {
    let known = energy.filter(|energy| energy.j_per_gb.is_some());
    let mark = known.map_or("", |energy| energy.source.mark());
    format!("{mark}{}", metric::compact(Unit::JoulesPerGigabyte, known.and_then(|energy| energy.j_per_gb)))
}
