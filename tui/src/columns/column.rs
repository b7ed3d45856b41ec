// SPDX-License-Identifier: MIT OR Apache-2.0
//! A column: its name, title and width, and how to read its cells.

use mpwatch_model::flow::connection::Connection;
use mpwatch_model::flow::subflow::Subflow;
use mpwatch_model::metric::{Metric, Unit};

use super::order::Order;
use super::row::{Row, Subject};
use crate::aggregate::Aggregate;
use crate::text::Text;

/// The kind of rows that have values in a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RowKind {
    Flows,
    Aggregates,
    All,
}

#[derive(Clone, Copy)]
pub(crate) struct Column {
    /// Name of the column in the configuration.
    pub(crate) key: &'static str,
    pub(crate) title: &'static str,
    /// Description in one phrase, for lists of columns.
    pub(crate) help: &'static str,
    pub(crate) min: usize,
    pub(crate) max: usize,
    /// Numbers are aligned to the right and never cut.
    pub(crate) is_number: bool,
    pub(crate) rows: RowKind,
    pub(super) value: Value,
}

/// How the content of a cell is computed.
#[derive(Clone, Copy)]
pub(super) enum Value {
    /// Functions that return the cell's text for a width in characters, and the value by which the row is sorted.
    Cell(fn(&Row<'_>, usize) -> Text, fn(&Row<'_>) -> Order),
    /// Text about a connection or a subflow. `None`: the cell is empty.
    Word(fn(&Row<'_>, &Connection) -> Option<String>),
    /// Like `Word`, but empty in the rows of subflows.
    Own(fn(&Row<'_>, &Connection) -> Option<String>),
    /// A value of an aggregate.
    Sum(Unit, fn(&Aggregate) -> Option<f64>),
    /// A metric of connections, and the same metric of subflows. `None`: rows of this kind have no such metric.
    Metric(Option<&'static Metric<Connection>>, Option<&'static Metric<Subflow>>),
}

/// Key, title and help.
type Names = (&'static str, &'static str, &'static str);

/// A column of text. `min` and `max` are its narrowest and widest useful width in characters.
pub(super) const fn words(names: Names, (min, max): (usize, usize), rows: RowKind, value: Value) -> Column {
    Column { key: names.0, title: names.1, help: names.2, min, max, is_number: false, rows, value }
}

/// A column of numbers that are usually `width` characters wide.
pub(super) const fn numbers(names: Names, width: usize, rows: RowKind, value: Value) -> Column {
    Column { is_number: true, ..words(names, (width, width + 1), rows, value) }
}

/// A column of text about connections or subflows, at most 50 characters wide.
pub(super) const fn word(names: Names, read: fn(&Row<'_>, &Connection) -> Option<String>) -> Column {
    words(names, (names.1.len(), 50), RowKind::Flows, Value::Word(read))
}

/// Like `word`, but empty in the rows of subflows.
pub(super) const fn own(names: Names, read: fn(&Row<'_>, &Connection) -> Option<String>) -> Column {
    words(names, (names.1.len(), 50), RowKind::Flows, Value::Own(read))
}

/// A column of numbers of aggregates.
pub(super) const fn sum(
    names: Names,
    width: usize,
    unit: Unit,
    read: fn(&Aggregate) -> Option<f64>,
) -> Column {
    numbers(names, width, RowKind::Aggregates, Value::Sum(unit, read))
}

impl Column {
    /// The text of the cell in `row`, for a width in characters.
    pub(crate) fn text(&self, row: &Row<'_>, width: usize) -> Text {
        match (self.value, row.subject) {
            (Value::Cell(text, _), _) => text(row, width),
            (Value::Word(read), _) => {
                Text::plain(row.connection().and_then(|connection| read(row, connection)).unwrap_or_default())
            }
            (Value::Own(read), Subject::Connection(connection, _)) => {
                Text::plain(read(row, connection).unwrap_or_default())
            }
            (Value::Sum(unit, read), Subject::Aggregate { sums, .. }) => shown(row, unit, read(sums)),
            (Value::Metric(Some(metric), _), Subject::Connection(connection, _)) => {
                shown(row, metric.unit, (metric.read)(connection))
            }
            (Value::Metric(_, Some(metric)), Subject::Subflow { subflow, .. }) => {
                shown(row, metric.unit, (metric.read)(subflow))
            }
            (Value::Metric(..) | Value::Own(_) | Value::Sum(..), _) => Text::default(),
        }
    }

    /// The value by which a row is sorted. If only subflows have the metric, this value is the largest among the open subflows.
    pub(crate) fn order(&self, row: &Row<'_>) -> Order {
        match (self.value, row.connection()) {
            (Value::Cell(_, order), _) => order(row),
            (Value::Word(read) | Value::Own(read), Some(connection)) => {
                Order::Word(read(row, connection).unwrap_or_default())
            }
            (Value::Sum(_, read), _) => Order::number(row.sums().and_then(read)),
            (Value::Metric(Some(metric), _), Some(connection)) => Order::number((metric.read)(connection)),
            (Value::Metric(None, Some(metric)), Some(connection)) => {
                let open = connection.subflows.iter().filter(|subflow| subflow.closed.is_none());
                Order::number(open.filter_map(metric.read).reduce(f64::max))
            }
            (Value::Metric(..) | Value::Own(_) | Value::Word(_), _) => Order::Unknown,
        }
    }
}

/// Formats a value in the units that the user chose; `~` marks estimated energy.
pub(super) fn shown(row: &Row<'_>, unit: Unit, value: Option<f64>) -> Text {
    let mark = if unit.is_energy() && value.is_some() { row.estimate_mark() } else { "" };
    Text::plain(format!("{mark}{}", row.context.units.compact(unit, value)))
}
