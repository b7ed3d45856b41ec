// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads the views for exports of whole tables, with the types of their columns: row by row, because the file may be larger than the memory.

use jiff::Timestamp;
use mpwatch_model::table::{Column, ColumnType, Row};
use rusqlite::Connection as Database;

use crate::error::StoreError;
use crate::read::archive::{Archive, Period};
use crate::schema::tables::{ViewColumn, column_names};
use crate::schema::values::{DAY_NS, cell, nanos};
use crate::schema::views::{connection_columns, subflow_columns};

/// A table that can be exported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extract {
    /// A row for each connection: the columns of `v_connection`, without `host`, which is in the partition.
    Connections,
    /// A row for each subflow: `boot_id` and `id` of its connection, `subflow_id`, and the columns of `v_subflow`.
    Subflows,
}

/// The partition of a row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Partition {
    /// The day (UTC) on which the connection was opened or first observed: `2026-11-24`.
    pub day: String,
    /// Name of the host that recorded it; empty: unknown.
    pub host: String,
    /// Boot id of that host; empty: unknown.
    pub boot_id: String,
}

impl Extract {
    /// The columns of its rows.
    pub fn columns(self) -> Vec<Column> {
        self.sources().into_iter().map(|(_, column)| column).collect()
    }

    /// The columns, each with its source in the views of connections (`c`) and subflows (`s`).
    fn sources(self) -> Vec<(String, Column)> {
        let of = |alias: &str, view: Vec<ViewColumn>, hidden: &str| -> Vec<(String, Column)> {
            let shown = view.into_iter().filter(|column| !column.is_local() && column.name != hidden);
            shown
                .map(|ViewColumn { name, kind, .. }| (format!("{alias}.{name}"), Column::new(name, kind)))
                .collect()
        };
        match self {
            Self::Connections => of("c", connection_columns(), "host"),
            Self::Subflows => {
                let keys = [("c.boot_id", "boot_id"), ("c.id", "id"), ("s.id", "subflow_id")];
                let keys =
                    keys.map(|(source, name)| (source.to_owned(), Column::new(name, ColumnType::Text)));
                keys.into_iter().chain(of("s", subflow_columns(), "id")).collect()
            }
        }
    }
}

impl Archive {
    /// Calls `each` for the rows of the connections that began on a day of the period, ordered by partition. The first and the last day of
    /// the period are included completely.
    ///
    /// # Errors
    /// If the file cannot be read, if a program began to write it during the call, or if `each` fails.
    pub fn extract<E: From<StoreError>>(
        &self,
        what: Extract,
        period: Period,
        mut each: impl FnMut(&Partition, Row) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut read = || -> rusqlite::Result<Result<(), E>> {
            // In one transaction, all queries read the same state of the file.
            let transaction = self.database.unchecked_transaction()?;
            let sources = what.sources();
            let since = period.since.map_or(i64::MIN, first_of_day);
            let until = period.until.map_or(i64::MAX, |until| first_of_day(until).saturating_add(DAY_NS - 1));
            let mut query = transaction.prepare(&query(&transaction, what, &sources)?)?;
            let mut found = query.query([since, until])?;
            while let Some(row) = found.next()? {
                let partition = Partition { day: row.get(0)?, host: row.get(1)?, boot_id: row.get(2)? };
                let cells =
                    (3..).zip(&sources).map(|(nth, (_, column))| cell(nth, row.get_ref(nth)?, column.kind));
                if let Err(error) = each(&partition, cells.collect::<rusqlite::Result<_>>()?) {
                    return Ok(Err(error));
                }
            }
            Ok(Ok(()))
        };
        read().map_err(|error| StoreError::read(&self.path, &error))??;
        if self.is_unchanged() { Ok(()) } else { Err(StoreError::changed(&self.path).into()) }
    }
}

/// The query for a table. A column that the views of the file lack is NULL.
fn query(database: &Database, what: Extract, sources: &[(String, Column)]) -> rusqlite::Result<String> {
    let mut known = Vec::new();
    for (alias, view) in [("c", "v_connection"), ("s", "v_subflow")] {
        known.extend(column_names(database, view)?.into_iter().map(|name| format!("{alias}.{name}")));
    }
    let value = |(source, _): &(String, Column)| {
        if known.contains(source) { source.clone() } else { "NULL".to_owned() }
    };
    let values: Vec<String> = sources.iter().map(value).collect();
    let (join, order) = match what {
        Extract::Connections => ("", ""),
        Extract::Subflows => ("JOIN v_subflow AS s ON s.connection = c.connection", ", s.place"),
    };
    Ok(format!(
        "SELECT date(c.began_ns / 1000000000, 'unixepoch') AS day, c.host, c.boot_id, {} FROM v_connection AS c {join}
         WHERE c.began_ns BETWEEN ?1 AND ?2 ORDER BY day, c.host, c.boot_id, c.connection{order}",
        values.join(", ")
    ))
}

fn first_of_day(at: Timestamp) -> i64 {
    let at_ns = nanos(at);
    at_ns - at_ns.rem_euclid(DAY_NS)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use jiff::SignedDuration;
    use mpwatch_fixtures as fixture;
    use mpwatch_model::flow::connection::Connection;
    use mpwatch_model::table::Cell;
    use tempfile::TempDir;

    use super::*;
    use crate::{Limits, Store};

    fn file(connections: Vec<Connection>) -> (TempDir, PathBuf) {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("flows.db");
        let store = Store::open(&path, &Limits::none()).unwrap();
        store.deliver(&std::sync::Arc::new(fixture::snapshot(connections)));
        store.close();
        (folder, path)
    }

    fn rows(path: &std::path::Path, what: Extract, period: Period) -> Vec<(Partition, Row)> {
        let mut rows = Vec::new();
        let read = Archive::open(path).unwrap().extract(what, period, |partition, row| {
            rows.push((partition.clone(), row));
            Ok::<(), StoreError>(())
        });
        read.unwrap();
        rows
    }

    fn value<'a>(what: Extract, row: &'a Row, name: &str) -> Option<&'a Cell> {
        let place = what.columns().iter().position(|column| column.name == name).unwrap();
        row[place].as_ref()
    }

    #[test]
    fn rows_have_the_types_of_their_columns_and_unknown_values_are_none() {
        let mut unknown = fixture::closed(2);
        unknown.subflows.iter_mut().for_each(|subflow| subflow.energy = None);
        unknown.energy = None;
        let (_folder, path) = file(vec![fixture::closed(1), unknown]);
        for what in [Extract::Connections, Extract::Subflows] {
            let columns = what.columns();
            for (_, row) in rows(&path, what, Period::default()) {
                assert_eq!(row.len(), columns.len());
                for (column, cell) in columns.iter().zip(&row) {
                    let kind = cell.as_ref().map(|cell| match cell {
                        Cell::Integer(_) => ColumnType::Integer,
                        Cell::Real(_) => ColumnType::Real,
                        Cell::Text(_) => ColumnType::Text,
                    });
                    assert!(kind.is_none_or(|kind| kind == column.kind), "{column:?}: {cell:?}");
                }
            }
        }
        let connections = rows(&path, Extract::Connections, Period::default());
        assert!(value(Extract::Connections, &connections[0].1, "active_uj").is_some());
        assert_eq!(value(Extract::Connections, &connections[1].1, "active_uj"), None);
        assert_eq!(value(Extract::Connections, &connections[0].1, "subflows"), Some(&Cell::Integer(2)));
    }

    #[test]
    fn columns_of_the_file_and_of_the_partition_are_hidden() {
        for what in [Extract::Connections, Extract::Subflows] {
            let columns = what.columns();
            for hidden in ["connection", "run", "runs", "host"] {
                assert!(columns.iter().all(|column| column.name != hidden), "{what:?} {hidden}");
            }
            for shown in ["boot_id", "id", "active_uj", "observed_bytes"] {
                let found = columns.iter().filter(|column| column.name == shown);
                assert_eq!(found.count(), 1, "{what:?} {shown}");
            }
        }
    }

    #[test]
    fn a_period_selects_whole_days() {
        let mut later = fixture::closed(2);
        later.shift(86_400_000_000_000);
        let (_folder, path) = file(vec![fixture::closed(1), later.clone()]);
        let opened = later.opened_at.unwrap();
        let days = |period| -> Vec<String> {
            let rows = rows(&path, Extract::Connections, period).into_iter();
            rows.map(|(partition, _)| partition.day).collect()
        };
        let both = days(Period::default());
        assert_eq!(both.len(), 2);
        assert!(both[0] < both[1] && both[1] == opened.strftime("%Y-%m-%d").to_string(), "{both:?}");
        let late_that_day = opened + SignedDuration::from_secs(1);
        assert_eq!(days(Period { since: Some(late_that_day), until: None }), both[1..]);
        let day_before = opened - SignedDuration::from_hours(24);
        assert_eq!(days(Period { since: None, until: Some(day_before) }), both[..1]);
    }

    #[test]
    fn an_error_of_the_caller_ends_the_reading() {
        let (_folder, path) = file(vec![fixture::closed(1), fixture::closed(2)]);
        let mut calls = 0;
        let outcome = Archive::open(&path).unwrap().extract(Extract::Subflows, Period::default(), |_, _| {
            calls += 1;
            Err(StoreError::other_schema(&path, 99))
        });
        assert!(outcome.unwrap_err().to_string().contains("schema 99"));
        assert_eq!(calls, 1);
    }
}
