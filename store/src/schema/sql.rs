// SPDX-License-Identifier: MIT OR Apache-2.0
//! Writes the rows of a connection and reads them.

use mpwatch_model::flow::connection::Connection;
use mpwatch_model::flow::series::CounterSample;
use rusqlite::{CachedStatement, Connection as Database, Params};

use super::columns::{Binder, Reader, TableColumn};
use super::names::{NameIndex, Names};
use super::record::{self, ConnectionRows, Key};
use super::rows::{ConnectionRow, EventRow, PairRow, SampleRow, SubflowRow, TableRow};
use super::tables::{TableInfo, column_names};
use super::timeline;

/// Tables with rows of a connection, and the column that has its number.
pub(crate) const OF_CONNECTION: [(&str, &str); 5] = [
    ("connection", "id"),
    ("subflow", "connection"),
    ("pair", "connection"),
    ("event", "connection"),
    ("sample", "connection"),
];

/// Inserts rows; a row with the same key is replaced.
pub(crate) struct Insertion<'d> {
    statement: CachedStatement<'d>,
}

impl<'d> Insertion<'d> {
    pub(crate) fn new<R: TableRow>(database: &'d Database) -> rusqlite::Result<Self> {
        let TableInfo { columns, .. } = TableInfo::new::<R>();
        let names: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
        let values = vec!["?"; names.len()].join(",");
        let sql = format!("INSERT OR REPLACE INTO {} ({}) VALUES ({values})", R::NAME, names.join(","));
        Ok(Self { statement: database.prepare_cached(&sql)? })
    }

    pub(crate) fn insert<R: TableRow>(&mut self, row: &R, names: &mut Names<'d>) -> rusqlite::Result<()> {
        row.bind(&mut Binder::new(&mut self.statement, names))?;
        self.statement.raw_execute().map(drop)
    }
}

/// The insertions for connections.
pub(crate) struct Insertions<'d> {
    database: &'d Database,
    connection: Insertion<'d>,
    subflow: Insertion<'d>,
    pair: Insertion<'d>,
    event: Insertion<'d>,
    sample: Insertion<'d>,
}

impl<'d> Insertions<'d> {
    pub(crate) fn new(database: &'d Database) -> rusqlite::Result<Self> {
        Ok(Self {
            database,
            connection: Insertion::new::<ConnectionRow<'_>>(database)?,
            subflow: Insertion::new::<SubflowRow<'_>>(database)?,
            pair: Insertion::new::<PairRow>(database)?,
            event: Insertion::new::<EventRow>(database)?,
            sample: Insertion::new::<SampleRow>(database)?,
        })
    }

    /// Writes the rows of a connection. `is_new`: the file has no rows of it. Otherwise the events and pairs of its earlier state are deleted.
    pub(crate) fn write(
        &mut self,
        flow: &Connection,
        key: Key,
        is_new: bool,
        names: &mut Names<'d>,
    ) -> rusqlite::Result<()> {
        if !is_new {
            self.database.prepare_cached("DELETE FROM event WHERE connection = ?")?.execute([key.id])?;
            self.database.prepare_cached("DELETE FROM pair WHERE connection = ?")?.execute([key.id])?;
        }
        self.connection.insert(&record::connection_row(flow, key)?, names)?;
        for row in record::subflow_rows(flow, key.id) {
            self.subflow.insert(&row, names)?;
        }
        for row in record::pair_rows(flow, key.id) {
            self.pair.insert(&row, names)?;
        }
        for row in timeline::event_rows(flow, key.id)? {
            self.event.insert(&row, names)?;
        }
        Ok(())
    }

    /// Writes a sample of each open subflow.
    pub(crate) fn write_samples(
        &mut self,
        flow: &Connection,
        key: Key,
        names: &mut Names<'d>,
    ) -> rusqlite::Result<()> {
        record::sample_rows(flow, key).try_for_each(|row| self.sample.insert(&row, names))
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

/// Queries for the subflows, events and samples of a connection.
pub(crate) struct Loader {
    pub(crate) names: NameIndex,
    subflows: String,
    pairs: String,
    events: String,
    samples: String,
}

impl Loader {
    pub(crate) fn new(database: &Database) -> rusqlite::Result<Self> {
        Ok(Self {
            names: NameIndex::read(database)?,
            subflows: select::<SubflowRow<'_>>(database, "WHERE connection = ? ORDER BY place")?,
            pairs: select::<PairRow>(database, "WHERE connection = ?")?,
            events: select::<EventRow>(database, "WHERE connection = ? ORDER BY number")?,
            samples: select::<SampleRow>(database, "WHERE connection = ? AND place = ? ORDER BY at_ns")?,
        })
    }

    /// The connection of a row.
    pub(crate) fn load(
        &self,
        database: &Database,
        connection: ConnectionRow<'static>,
    ) -> rusqlite::Result<Connection> {
        let id = [connection.id];
        let subflows = rows(database, &self.subflows, id, &self.names)?;
        let pairs = rows(database, &self.pairs, id, &self.names)?;
        let events = rows(database, &self.events, id, &self.names)?;
        record::restore(ConnectionRows { connection, subflows, pairs, events })
    }

    pub(crate) fn samples(
        &self,
        database: &Database,
        connection: i64,
        place: i64,
    ) -> rusqlite::Result<Vec<CounterSample>> {
        let found: Vec<SampleRow> = rows(database, &self.samples, [connection, place], &self.names)?;
        Ok(found.into_iter().map(|row| row.sample).collect())
    }
}
