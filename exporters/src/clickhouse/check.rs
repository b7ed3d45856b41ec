// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares the tables of a server with ours, and makes the statements that bring them up to date. They follow from the difference, so they
//! lead from every earlier version to this one.

use std::collections::BTreeMap;

use mpwatch_model::flow::end::EndColumns;

use super::place::{Place, local, quoted, quoted_text};
use super::schema::{feed_query, table_columns};

/// A difference between the tables of a server and ours. Columns that only the server has are none: mpwatch does not fill them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Difference {
    /// A table is missing.
    Table(String),
    /// A column is missing.
    Column {
        /// Of this table.
        table: String,
        /// Its name.
        column: String,
        /// The type that it should have.
        expected: String,
    },
    /// A column has another type.
    Type {
        /// Of this table.
        table: String,
        /// Its name.
        column: String,
        /// The type that it should have.
        expected: String,
        /// The type that it has.
        found: String,
    },
}

impl std::fmt::Display for Difference {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Table(table) => write!(to, "table {table} is missing"),
            Self::Column { table, column, expected } => {
                write!(to, "column {table}.{column} {expected} is missing")
            }
            Self::Type { table, column, expected, found } => {
                write!(to, "column {table}.{column} is {found} instead of {expected}")
            }
        }
    }
}

/// The query for all columns of a database. [`differences`] reads its answer.
pub fn query(database: &str) -> String {
    format!(
        "SELECT table, name, type FROM system.columns WHERE database = {} ORDER BY table, position FORMAT TSV",
        quoted_text(database)
    )
}

/// Compares the answer to [`query`] with our tables.
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
            match known.get(column.as_str()) {
                None => differences.push(Difference::Column { table: table.clone(), column, expected }),
                Some(kind) if *kind == comparable(&expected) => {}
                Some(kind) => {
                    let found = kind.clone();
                    differences.push(Difference::Type { table: table.clone(), column, expected, found });
                }
            }
        }
    }
    differences
}

/// A server writes types with other spaces than we do, and line ends as `\n`.
fn comparable(kind: &str) -> String {
    kind.replace("\\n", "").replace([' ', '`'], "").replace("\\'", "'")
}

/// The statements to execute before those of [`super::schema::ddl`]: they add columns, and remove what has to be made again.
pub fn before(differences: &[Difference], place: Place<'_>) -> String {
    let (database, on) = place.names();
    let states = local("pair_states", place);
    let added = differences.iter().filter_map(|difference| match difference {
        Difference::Column { table, column, expected } if *table != states => {
            let column = quoted(column);
            Some(format!(
                "ALTER TABLE {database}.{table}{on} ADD COLUMN IF NOT EXISTS {column} {expected};\n"
            ))
        }
        _ => None,
    });
    let mut statements: Vec<String> = added.collect();
    if remakes_pairs(differences, place) {
        statements.push(format!("DROP TABLE IF EXISTS {database}.pair_feed{on};\n"));
        statements.push(format!("DROP TABLE IF EXISTS {database}.{states}{on} SYNC;\n"));
    }
    statements.concat()
}

/// The statements to execute after those of [`super::schema::ddl`]: they fill what was made again.
pub fn after(differences: &[Difference], columns: &EndColumns, place: Place<'_>) -> String {
    if !remakes_pairs(differences, place) {
        return String::new();
    }
    let (database, _) = place.names();
    format!("INSERT INTO {database}.pair_states {};\n", feed_query(columns, &format!("{database}.ends")))
}

/// Records of both ends are tuples, which have no single columns that could be added.
fn remakes_pairs(differences: &[Difference], place: Place<'_>) -> bool {
    let states = local("pair_states", place);
    differences.iter().any(|difference| match difference {
        Difference::Table(_) => false,
        Difference::Column { table, .. } | Difference::Type { table, .. } => *table == states,
    })
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

    /// As a server answers.
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
    fn equal_tables_have_no_difference_and_more_columns_are_none() {
        let ours = columns(&["id", "comm"]);
        let theirs = answer(&ours) + "ends\tlocal_extra\tString\nother\tx\tString\n";
        assert_eq!(differences(&ours, PLACE, &theirs), []);
    }

    #[test]
    fn missing_columns_are_added_and_records_of_pairs_are_made_again() {
        let ours = columns(&["id", "comm"]);
        let found = differences(&ours, PLACE, &answer(&columns(&["id"])));
        let shown: Vec<String> = found.iter().map(ToString::to_string).collect();
        assert_eq!(shown[0], "column ends.comm LowCardinality(Nullable(String)) is missing");
        assert!(shown.len() == 3 && shown[1].starts_with("column pair_states.client is"), "{shown:?}");
        let before = before(&found, PLACE);
        assert!(
            before.contains("ALTER TABLE mpwatch.ends ADD COLUMN IF NOT EXISTS comm LowCardinality"),
            "{before}"
        );
        assert!(before.contains("DROP TABLE IF EXISTS mpwatch.pair_states SYNC"), "{before}");
        assert!(after(&found, &ours, PLACE).starts_with("INSERT INTO mpwatch.pair_states SELECT"));
    }

    #[test]
    fn a_server_without_tables_needs_the_whole_schema_only() {
        let ours = columns(&["id"]);
        let found = differences(&ours, PLACE, "");
        let tables = ["ends", "pair_states", "sites", "site_hour_states"];
        assert_eq!(found, tables.map(|table| Difference::Table(table.to_owned())));
        assert_eq!((before(&found, PLACE), after(&found, &ours, PLACE)), (String::new(), String::new()));
    }
}
