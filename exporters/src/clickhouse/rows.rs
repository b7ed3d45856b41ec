// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rows of the table `ends`, as ClickHouse's format JSONEachRow has them. An unknown value is null.

use mpwatch_model::end::{End, EndColumns};
use mpwatch_model::table::{Cell, Column, Row};
use serde::ser::{Serialize, SerializeMap as _, SerializeSeq as _, Serializer};

/// Appends a line with an end. `version`: the greatest of the rows with the same `boot_id` and `id` is the one that counts.
pub fn append(end: &End, columns: &EndColumns, version: u64, text: &mut Vec<u8>) -> serde_json::Result<()> {
    serde_json::to_writer(&mut *text, &Line { end, columns, version })?;
    text.push(b'\n');
    Ok(())
}

/// An object with a key for each column. Written cell by cell: hosts pay for each connection.
struct Line<'a> {
    end: &'a End,
    columns: &'a EndColumns,
    version: u64,
}

impl Serialize for Line<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { end, columns, version } = *self;
        let mut object = serializer.serialize_map(None)?;
        object.serialize_entry("pair", &end.pair(columns))?;
        object.serialize_entry("version", &version)?;
        for (column, cell) in columns.connection.iter().zip(&end.connection) {
            object.serialize_entry(&column.name, &Value(cell.as_ref()))?;
        }
        for (name, columns, rows) in [
            ("subflow", &columns.subflow, &end.subflows),
            ("bottleneck", &columns.bottleneck, &end.bottlenecks),
        ] {
            for (place, column) in columns.iter().enumerate() {
                object.serialize_entry(&Nested(name, column), &Cells(rows, place))?;
            }
        }
        object.end()
    }
}

/// The name of a column of a nested table.
struct Nested<'a>(&'a str, &'a Column);

impl Serialize for Nested<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(table, column) = self;
        serializer.collect_str(&format_args!("{table}.{}", column.name))
    }
}

/// A column of a nested table is an array.
struct Cells<'a>(&'a [Row], usize);

impl Serialize for Cells<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(rows, place) = *self;
        let mut cells = serializer.serialize_seq(Some(rows.len()))?;
        for row in rows {
            cells.serialize_element(&Value(row.get(place).and_then(Option::as_ref)))?;
        }
        cells.end()
    }
}

/// JSON has no number that is not finite: `serde_json` writes null.
struct Value<'a>(Option<&'a Cell>);

impl Serialize for Value<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            None => serializer.serialize_unit(),
            Some(Cell::Integer(number)) => serializer.serialize_i64(*number),
            Some(Cell::Real(number)) => serializer.serialize_f64(*number),
            Some(Cell::Text(text)) => serializer.serialize_str(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use mpwatch_model::table::ColumnType::{Integer, Real, Text};

    use super::*;

    #[test]
    fn a_row_has_its_pair_its_version_and_nested_tables() {
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
                vec![text("a\"b"), Some(Cell::Real(f64::NAN))],
                vec![text("c"), Some(Cell::Real(0.5))],
            ],
            ..End::default()
        };
        let mut line = Vec::new();
        append(&end, &columns, u64::MAX, &mut line).unwrap();
        assert_eq!(
            String::from_utf8(line).unwrap(),
            "{\"pair\":4294967298,\"version\":18446744073709551615,\"token\":\"00000002\",\"remote_token\":\"00000001\",\
             \"active_uj\":null,\"subflow.id\":[\"a\\\"b\",\"c\"],\"subflow.share_sent\":[null,0.5],\"bottleneck.verdict\":[]}\n"
        );
    }
}
