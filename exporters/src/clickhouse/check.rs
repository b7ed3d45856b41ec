// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares the tables of a server with the tables of this version.

use std::collections::BTreeMap;

use mpwatch_model::flow::end::EndColumns;

use super::place::{Place, quoted_text};
use super::schema::table_columns;

/// A difference between the tables of a server and of this version. Additional columns of the server are not differences.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Difference {
    /// A table is missing.
    #[error("table {0} is missing")]
    Table(String),
    /// A column is missing: table and column, and the type that it should have.
    #[error("column {0} {1} is missing")]
    Column(String, String),
    /// A column has another type: table and column, the type that it should have, and the type that it has.
    #[error("column {0} is {2} instead of {1}")]
    Type(String, String, String),
}

/// The query for all columns of a database. [`differences`] reads its answer.
pub fn query(database: &str) -> String {
    format!(
        "SELECT table, name, type FROM system.columns WHERE database = {} ORDER BY table, position FORMAT TSV",
        quoted_text(database)
    )
}

/// Compares the answer to [`query`] with the tables of this version.
pub fn differences(columns: &EndColumns, place: Place<'_>, answer: &str) -> Vec<Difference> {
    let mut found: BTreeMap<&str, BTreeMap<&str, String>> = BTreeMap::new();
    for line in answer.lines() {
        let mut cells = line.splitn(3, '\t');
        if let (Some(table), Some(name), Some(kind)) = (cells.next(), cells.next(), cells.next()) {
            found.entry(table).or_default().insert(name, comparable(kind));
        }
    }
    let mut differences = Vec::new();
    for (table, expected) in table_columns(columns, place) {
        let Some(known) = found.get(table.as_str()) else {
            differences.push(Difference::Table(table));
            continue;
        };
        for (column, expected) in expected {
            let name = format!("{table}.{column}");
            match known.get(column.as_str()) {
                Some(found) if *found == comparable(&expected) => {}
                Some(found) => differences.push(Difference::Type(name, expected, found.clone())),
                None => differences.push(Difference::Column(name, expected)),
            }
        }
    }
    differences
}

/// A type without the white space, quotes and escapes that a server adds.
fn comparable(kind: &str) -> String {
    kind.replace("\\n", "").replace([' ', '`'], "").replace("\\'", "'")
}

#[cfg(test)]
mod tests {
    use mpwatch_model::table::{Column, ColumnType};

    use super::*;

    const PLACE: Place<'_> = Place { database: "mpwatch", cluster: None };

    fn columns(names: &[&str]) -> EndColumns {
        let connection = names.iter().map(|name| Column::new(*name, ColumnType::Text)).collect();
        EndColumns { connection, subflow: vec![Column::new("id", ColumnType::Text)], ..EndColumns::default() }
    }

    /// The answer of a server with these tables.
    fn answer(columns: &EndColumns) -> String {
        let tables = table_columns(columns, PLACE);
        let lines = tables.iter().flat_map(|(table, columns)| {
            let line = move |(name, kind): &(String, String)| {
                let kind = kind.replace("Tuple(", "Tuple(\\n    ").replace(", ", ",\\n    ");
                format!("{table}\t{name}\t{kind}\n")
            };
            columns.iter().map(line)
        });
        lines.collect()
    }

    #[test]
    fn equal_tables_have_no_difference_also_with_additional_columns() {
        let ours = columns(&["id", "comm"]);
        let theirs = answer(&ours) + "ends\tlocal_extra\tString\nother\tx\tString\n";
        assert_eq!(differences(&ours, PLACE, &theirs), []);
    }

    #[test]
    fn missing_columns_and_tables_and_other_types_are_differences() {
        let ours = columns(&["id", "comm"]);
        let found = differences(&ours, PLACE, &answer(&columns(&["id"])));
        let shown: Vec<String> = found.iter().map(ToString::to_string).collect();
        assert_eq!(shown[0], "column ends.comm LowCardinality(Nullable(String)) is missing");
        assert!(shown.len() == 3 && shown[1].starts_with("column pair_states.client is"), "{shown:?}");
        let tables = ["ends", "pair_states", "sites", "site_hour_states"];
        assert_eq!(differences(&ours, PLACE, ""), tables.map(|table| Difference::Table(table.to_owned())));
    }
}
