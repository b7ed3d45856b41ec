// SPDX-License-Identifier: MIT OR Apache-2.0
//! One end of a connection as table rows, which the store reads and exports encode.

use crate::table::{Cell, Column, Row};

/// The columns of the rows of an [`End`], which are the columns of the database's views.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EndColumns {
    /// Columns of connections.
    pub connection: Vec<Column>,
    /// Columns of subflows.
    pub subflow: Vec<Column>,
    /// Columns of verdicts on pairs of subflows.
    pub bottleneck: Vec<Column>,
    /// Columns of timeline entries.
    pub event: Vec<Column>,
}

/// A connection as recorded on one host. The columns of each row are in the field of [`EndColumns`] for the same kind of row.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct End {
    /// The connection.
    pub connection: Row,
    /// Its subflows, in the order of their first records.
    pub subflows: Vec<Row>,
    /// The verdicts on pairs of its subflows. Empty: not evaluated, or fewer than two subflows.
    pub bottlenecks: Vec<Row>,
    /// Its timeline. Empty: it was not requested.
    pub events: Vec<Row>,
}

impl End {
    /// A cell of the connection. `None`: unknown, or there is no such column.
    pub fn cell(&self, columns: &EndColumns, name: &str) -> Option<&Cell> {
        cell(&columns.connection, &self.connection, name)
    }

    /// The text in a cell of the connection. `None`: unknown, or not a text.
    pub fn text(&self, columns: &EndColumns, name: &str) -> Option<&str> {
        self.cell(columns, name).and_then(Cell::text)
    }

    /// The whole number in a cell of the connection. `None`: unknown, or not a whole number.
    pub fn integer(&self, columns: &EndColumns, name: &str) -> Option<i64> {
        self.cell(columns, name).and_then(Cell::integer)
    }

    /// When the connection closed, in nanoseconds since 1970. `None`: it is open.
    pub fn closed_ns(&self, columns: &EndColumns) -> Option<u64> {
        u64::try_from(self.integer(columns, "closed_at_ns")?).ok()
    }

    /// The number that is the same at both ends of the connection: see [`pair`].
    pub fn pair(&self, columns: &EndColumns) -> Option<u64> {
        pair(self.text(columns, "token"), self.text(columns, "remote_token"))
    }
}

/// The cell of a column. `None`: unknown, or there is no such column.
pub fn cell<'r>(columns: &[Column], row: &'r Row, name: &str) -> Option<&'r Cell> {
    let place = columns.iter().position(|column| column.name == name)?;
    row.get(place)?.as_ref()
}

/// A number that is the same at both ends of a connection: the smaller of the two tokens in the upper 32 bits, the larger in the lower 32
/// bits. `None`: a token is unknown, as for plain TCP, or is not a hexadecimal number of 32 bits.
pub fn pair(token: Option<&str>, remote_token: Option<&str>) -> Option<u64> {
    let number = |text: Option<&str>| u32::from_str_radix(text?, 16).ok();
    let (local, remote) = (number(token)?, number(remote_token)?);
    Some(u64::from(local.min(remote)) << 32 | u64::from(local.max(remote)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_compute_the_same_pair() {
        let expected = Some(0x0000_0001_ffff_fffe);
        assert_eq!(pair(Some("00000001"), Some("fffffffe")), expected);
        assert_eq!(pair(Some("fffffffe"), Some("00000001")), expected);
        for unknown in
            [(None, Some("1")), (Some("1"), None), (Some("x"), Some("1")), (Some("100000000"), Some("1"))]
        {
            assert_eq!(pair(unknown.0, unknown.1), None, "{unknown:?}");
        }
    }
}
