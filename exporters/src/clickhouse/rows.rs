// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rows of the table `ends`, as ClickHouse's format JSONEachRow has them. An unknown value is null.

use mpwatch_model::table::{Cell, Column, Row};
use serde_json::{Map, Value};

use crate::end::{End, EndColumns, pair};

/// Appends a line with an end. `version`: the greatest of the rows with the same `boot_id` and `id` is the one that counts.
pub fn append(end: &End, columns: &EndColumns, version: u64, text: &mut Vec<u8>) -> serde_json::Result<()> {
    let mut row = Map::new();
    let token = |name: &str| {
        let place = columns.connection.iter().position(|column| column.name == name)?;
        match end.connection.get(place)? {
            Some(Cell::Text(token)) => Some(token.as_str()),
            _ => None,
        }
    };
    row.insert("pair".to_owned(), pair(token("token"), token("remote_token")).into());
    row.insert("version".to_owned(), version.into());
    for (column, cell) in columns.connection.iter().zip(&end.connection) {
        row.insert(column.name.clone(), value(cell.as_ref()));
    }
    nest("subflow", &columns.subflow, &end.subflows, &mut row);
    nest("bottleneck", &columns.bottleneck, &end.bottlenecks, &mut row);
    serde_json::to_writer(&mut *text, &row)?;
    text.push(b'\n');
    Ok(())
}

/// A column of a nested table is an array.
fn nest(name: &str, columns: &[Column], rows: &[Row], to: &mut Map<String, Value>) {
    for (place, column) in columns.iter().enumerate() {
        let cells = rows.iter().map(|row| value(row.get(place).and_then(Option::as_ref)));
        to.insert(format!("{name}.{}", column.name), cells.collect());
    }
}

/// JSON has no number that is not finite.
fn value(cell: Option<&Cell>) -> Value {
    match cell {
        None => Value::Null,
        Some(Cell::Integer(number)) => (*number).into(),
        Some(Cell::Real(number)) => (*number).into(),
        Some(Cell::Text(text)) => text.as_str().into(),
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
        };
        let text = |text: &str| Some(Cell::Text(text.to_owned()));
        let end = End {
            connection: vec![text("00000002"), text("00000001"), None],
            subflows: vec![
                vec![text("a\"b"), Some(Cell::Real(f64::NAN))],
                vec![text("c"), Some(Cell::Real(0.5))],
            ],
            bottlenecks: Vec::new(),
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
