// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rows of the table `ends` in ClickHouse's format TabSeparated: cells in the order of the columns, without names, which would be the larger
//! part of a request. An unknown value is `\N`, or `NULL` in an array.

use std::io::Write as _;

use mpwatch_model::flow::end::{End, EndColumns};
use mpwatch_model::table::{Cell, Column, Row};

/// Appends the row of one end of a connection, with cells in the order of [`names`]. If rows share `pair`, `boot_id` and `id`,
/// the row with the greatest `version` is valid.
pub fn append(end: &End, columns: &EndColumns, version: u64, line: &mut Vec<u8>) {
    match end.pair(columns) {
        Some(pair) => append_integer(pair, line),
        None => line.extend_from_slice(UNKNOWN),
    }
    line.push(b'\t');
    append_integer(version, line);
    for place in 0..columns.connection.len() {
        line.push(b'\t');
        append_cell(cell(&end.connection, place), line);
    }
    for (columns, rows) in [(&columns.subflow, &end.subflows), (&columns.bottleneck, &end.bottlenecks)] {
        for place in 0..columns.len() {
            line.push(b'\t');
            append_array(rows, place, line);
        }
    }
    line.push(b'\n');
}

/// The names of the columns of a row.
pub fn names(columns: &EndColumns) -> impl Iterator<Item = String> {
    let own = ["pair", "version"].into_iter().map(str::to_owned);
    let of_connection = columns.connection.iter().map(|column| column.name.clone());
    let nested = [("subflow", &columns.subflow), ("bottleneck", &columns.bottleneck)];
    let nested = nested.into_iter().flat_map(|(table, columns)| {
        columns.iter().map(move |Column { name, .. }| format!("{table}.{name}"))
    });
    own.chain(of_connection).chain(nested)
}

const UNKNOWN: &[u8] = b"\\N";

fn cell(row: &Row, place: usize) -> Option<&Cell> {
    // The format permits numbers that are not finite, but the tables must not contain them.
    row.get(place)
        .and_then(Option::as_ref)
        .filter(|cell| !matches!(cell, Cell::Real(number) if !number.is_finite()))
}

fn append_cell(cell: Option<&Cell>, line: &mut Vec<u8>) {
    match cell {
        None => line.extend_from_slice(UNKNOWN),
        Some(Cell::Integer(number)) => append_integer(*number, line),
        Some(Cell::Real(number)) => {
            // Writing to memory does not fail.
            let _ = write!(line, "{number}");
        }
        Some(Cell::Text(text)) => append_escaped(text, line),
    }
}

/// A column of a nested table is an array.
fn append_array(rows: &[Row], place: usize, line: &mut Vec<u8>) {
    line.push(b'[');
    for (index, row) in rows.iter().enumerate() {
        if index > 0 {
            line.push(b',');
        }
        match cell(row, place) {
            None => line.extend_from_slice(b"NULL"),
            Some(Cell::Text(text)) => {
                line.push(b'\'');
                append_escaped(text, line);
                line.push(b'\'');
            }
            number => append_cell(number, line),
        }
    }
    line.push(b']');
}

fn append_integer(number: impl itoa::Integer, line: &mut Vec<u8>) {
    line.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

fn append_escaped(text: &str, line: &mut Vec<u8>) {
    for byte in text.bytes() {
        match byte {
            b'\\' | b'\'' => line.extend_from_slice(&[b'\\', byte]),
            b'\t' => line.extend_from_slice(b"\\t"),
            b'\n' => line.extend_from_slice(b"\\n"),
            b'\r' => line.extend_from_slice(b"\\r"),
            0 => line.extend_from_slice(b"\\0"),
            _ => line.push(byte),
        }
    }
}

#[cfg(test)]
mod tests {
    use mpwatch_model::table::ColumnType::{Integer, Real, Text};

    use super::*;

    #[test]
    fn a_row_has_its_pair_its_version_and_nested_tables_in_the_order_of_its_names() {
        let columns = EndColumns {
            connection: vec![
                Column::new("token", Text),
                Column::new("remote_token", Text),
                Column::new("active_uj", Integer),
            ],
            subflow: vec![Column::new("id", Text), Column::new("share_sent", Real)],
            bottleneck: vec![Column::new("verdict", Text)],
            event: Vec::new(),
        };
        let text = |text: &str| Some(Cell::Text(text.to_owned()));
        let end = End {
            connection: vec![text("00000002"), text("00000001"), None],
            subflows: vec![
                vec![text("a'b"), Some(Cell::Real(f64::NAN))],
                vec![text("c\t\\"), Some(Cell::Real(0.5))],
            ],
            ..End::default()
        };
        let mut line = Vec::new();
        append(&end, &columns, u64::MAX, &mut line);
        assert_eq!(
            String::from_utf8(line).unwrap(),
            "4294967298\t18446744073709551615\t00000002\t00000001\t\\N\t['a\\'b','c\\t\\\\']\t[NULL,0.5]\t[]\n"
        );
        let names: Vec<String> = names(&columns).collect();
        assert_eq!(
            names.join(" "),
            "pair version token remote_token active_uj subflow.id subflow.share_sent bottleneck.verdict"
        );
    }
}
