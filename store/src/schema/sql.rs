// SPDX-License-Identifier: MIT OR Apache-2.0
//! Writes the rows of a connection and reads them.

use mpwatch_model::flow::connection::Connection;
use mpwatch_model::flow::series::CounterSeries;
use rusqlite::{CachedStatement, Connection as Database, Params};

use super::columns::{Binder, Reader, TableColumn};
use super::names::{KnownNames, NameIndex, Names};
use super::record::{self, Key};
use super::rows::{ConnectionRow, EventRow, PairRow, SampleRow, SubflowRow, TableRow};
use super::tables::{TableInfo, column_names, tables};
use super::timeline;

/// Inserts rows. A row replaces an earlier row with the same key.
pub(crate) struct Insertions<'d> {
    names: Names<'d>,
    /// A statement for each table, by its name.
    statements: Vec<(&'static str, CachedStatement<'d>)>,
}

impl<'d> Insertions<'d> {
    pub(crate) fn new(database: &'d Database, known: &'d mut KnownNames) -> rusqlite::Result<Self> {
        let statement = |TableInfo { name, columns, .. }: TableInfo| {
            let columns: Vec<String> = columns.into_iter().map(|column| column.name).collect();
            let values = vec!["?"; columns.len()].join(",");
            let sql = format!("INSERT OR REPLACE INTO {name} ({}) VALUES ({values})", columns.join(","));
            Ok((name, database.prepare_cached(&sql)?))
        };
        let statements = tables().into_iter().map(statement).collect::<rusqlite::Result<_>>()?;
        Ok(Self { names: Names { database, known }, statements })
    }

    pub(crate) fn insert<R: TableRow>(&mut self, row: &R) -> rusqlite::Result<()> {
        let statement = self.statements.iter_mut().find(|(table, _)| *table == R::NAME);
        let (_, statement) = statement.ok_or(rusqlite::Error::InvalidQuery)?;
        row.bind(&mut Binder::new(statement, &mut self.names))?;
        statement.raw_execute().map(drop)
    }

    /// Writes the rows of a connection. `is_new`: the file has no rows of it. Otherwise the events and pairs of its earlier state are
    /// deleted.
    pub(crate) fn write(&mut self, flow: &Connection, key: Key, is_new: bool) -> rusqlite::Result<()> {
        for table in ["event", "pair"].into_iter().filter(|_| !is_new) {
            let deletion = format!("DELETE FROM {table} WHERE connection = ?");
            self.names.database.prepare_cached(&deletion)?.execute([key.id])?;
        }
        self.insert(&record::connection_row(flow, key))?;
        record::subflow_rows(flow, key.id).try_for_each(|row| self.insert(&row))?;
        record::pair_rows(flow, key.id).try_for_each(|row| self.insert(&row))?;
        timeline::event_rows(flow, key.id)?.iter().try_for_each(|row| self.insert(row))
    }
}

/// A query for all columns of a table. `condition` follows the table's name. A column that the file lacks is NULL.
pub(crate) fn select<R: TableRow>(database: &Database, condition: &str) -> rusqlite::Result<String> {
    let known = column_names(database, R::NAME)?;
    let TableInfo { columns, .. } = TableInfo::new::<R>();
    let value = |column: &TableColumn| {
        if known.contains(&column.name) { column.name.clone() } else { "NULL".to_owned() }
    };
    let values: Vec<String> = columns.iter().map(value).collect();
    Ok(format!("SELECT {} FROM {} {condition}", values.join(","), R::NAME))
}

/// The rows of a query from [`select`].
pub(crate) fn rows<R: TableRow>(
    database: &Database,
    query: &str,
    parameters: impl Params,
    names: &NameIndex,
) -> rusqlite::Result<Vec<R>> {
    let mut query = database.prepare_cached(query)?;
    query.query_map(parameters, |row| R::read(&mut Reader::new(row, names)))?.collect()
}

/// Queries for a connection, its subflows, verdicts, events and samples.
pub(crate) struct Loader {
    names: NameIndex,
    connections: String,
    subflows: String,
    pairs: String,
    events: String,
    samples: String,
}

impl Loader {
    pub(crate) fn new(database: &Database) -> rusqlite::Result<Self> {
        Ok(Self {
            names: NameIndex::read(database)?,
            connections: select::<ConnectionRow<'_>>(database, "WHERE id = ?")?,
            subflows: select::<SubflowRow<'_>>(database, "WHERE connection = ? ORDER BY place")?,
            pairs: select::<PairRow>(database, "WHERE connection = ?")?,
            events: select::<EventRow>(database, "WHERE connection = ? ORDER BY number")?,
            samples: select::<SampleRow>(database, "WHERE connection = ? ORDER BY place, at_ns")?,
        })
    }

    /// The row of a connection, and the connection. `None`: there is no such row.
    pub(crate) fn load(
        &self,
        database: &Database,
        number: i64,
    ) -> rusqlite::Result<Option<(ConnectionRow<'static>, Connection)>> {
        let found: Vec<ConnectionRow<'static>> = rows(database, &self.connections, [number], &self.names)?;
        let Some(row) = found.into_iter().next() else { return Ok(None) };
        let subflows = rows(database, &self.subflows, [number], &self.names)?;
        let pairs = rows(database, &self.pairs, [number], &self.names)?;
        let events: Vec<EventRow> = rows(database, &self.events, [number], &self.names)?;
        let connection = record::restore(&row, subflows, pairs, &events)?;
        Ok(Some((row, connection)))
    }

    /// Adds the samples of the subflows of a connection.
    pub(crate) fn add_samples(
        &self,
        database: &Database,
        number: i64,
        connection: &Connection,
        samples: &mut CounterSeries,
    ) -> rusqlite::Result<()> {
        let found: Vec<SampleRow> = rows(database, &self.samples, [number], &self.names)?;
        for SampleRow { place, sample, .. } in found {
            if let Some(subflow) = record::at_place(&connection.subflows, place.into()) {
                samples.entry((connection.id, subflow.id)).or_default().push(sample);
            }
        }
        Ok(())
    }
}
