// SPDX-License-Identifier: MIT OR Apache-2.0
//! Writes the rows of a connection and reads them back.

use mpwatch_model::flow::connection::Connection as Flow;
use mpwatch_model::flow::series::CounterSample;
use rusqlite::{CachedStatement, Connection, Params};

use crate::schema::columns::{Binder, Reader};
use crate::schema::names::{NameIndex, Names};
use crate::schema::record::{self, Key, Rows};
use crate::schema::rows::{ConnectionRow, EventRow, PairRow, SampleRow, SubflowRow, Table};
use crate::schema::tables::{TableInfo, column_names};
use crate::schema::timeline;

/// Tables with rows of a connection, and their column with its number.
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
    pub(crate) fn of<R: Table>(database: &'d Connection) -> rusqlite::Result<Self> {
        let TableInfo { columns, .. } = TableInfo::of::<R>();
        let names: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
        let values = vec!["?"; names.len()].join(",");
        let sql = format!("INSERT OR REPLACE INTO {} ({}) VALUES ({values})", R::NAME, names.join(","));
        Ok(Self { statement: database.prepare_cached(&sql)? })
    }

    pub(crate) fn insert<R: Table>(&mut self, row: &R, names: &mut Names<'d>) -> rusqlite::Result<()> {
        row.bind(&mut Binder::new(&mut self.statement, names))?;
        self.statement.raw_execute().map(drop)
    }
}

/// The insertions of a transaction.
pub(crate) struct Insertions<'d> {
    database: &'d Connection,
    connection: Insertion<'d>,
    subflow: Insertion<'d>,
    pair: Insertion<'d>,
    event: Insertion<'d>,
    sample: Insertion<'d>,
}

impl<'d> Insertions<'d> {
    pub(crate) fn of(database: &'d Connection) -> rusqlite::Result<Self> {
        Ok(Self {
            database,
            connection: Insertion::of::<ConnectionRow<'_>>(database)?,
            subflow: Insertion::of::<SubflowRow<'_>>(database)?,
            pair: Insertion::of::<PairRow>(database)?,
            event: Insertion::of::<EventRow>(database)?,
            sample: Insertion::of::<SampleRow>(database)?,
        })
    }

    /// Writes all rows of a connection. Unless it is new to the file, deletes those that only an earlier state had.
    pub(crate) fn write(
        &mut self,
        flow: &Flow,
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

    /// Writes the counters of its open subflows.
    pub(crate) fn write_samples(
        &mut self,
        flow: &Flow,
        key: Key,
        names: &mut Names<'d>,
    ) -> rusqlite::Result<()> {
        record::sample_rows(flow, key).try_for_each(|row| self.sample.insert(&row, names))
    }
}

/// A query for all columns of a table; `condition` follows its name. A column that the file lacks reads as unknown, or zero.
pub(crate) fn select<R: Table>(database: &Connection, condition: &str) -> rusqlite::Result<String> {
    let known = column_names(database, R::NAME)?;
    let TableInfo { columns, .. } = TableInfo::of::<R>();
    let values = columns.iter().map(|column| match known.contains(&column.name) {
        true => column.name.as_str(),
        false if column.required => "0",
        false => "NULL",
    });
    let values: Vec<&str> = values.collect();
    Ok(format!("SELECT {} FROM {} {condition}", values.join(","), R::NAME))
}

/// The rows of such a query.
pub(crate) fn rows<R: Table>(
    database: &Connection,
    query: &str,
    parameters: impl Params,
    names: &NameIndex,
) -> rusqlite::Result<Vec<R>> {
    let mut query = database.prepare_cached(query)?;
    query.query_map(parameters, |row| R::read(&mut Reader::new(row, names)))?.collect()
}

/// Reads what belongs to a connection.
pub(crate) struct Loader {
    pub(crate) names: NameIndex,
    subflows: String,
    pairs: String,
    events: String,
    samples: String,
}

impl Loader {
    pub(crate) fn of(database: &Connection) -> rusqlite::Result<Self> {
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
        database: &Connection,
        connection: ConnectionRow<'static>,
    ) -> rusqlite::Result<Flow> {
        let id = [connection.id];
        let subflows = rows(database, &self.subflows, id, &self.names)?;
        let pairs = rows(database, &self.pairs, id, &self.names)?;
        let events = rows(database, &self.events, id, &self.names)?;
        record::restore(Rows { connection, subflows, pairs, events })
    }

    /// The samples of a subflow.
    pub(crate) fn samples(
        &self,
        database: &Connection,
        connection: i64,
        place: i64,
    ) -> rusqlite::Result<Vec<CounterSample>> {
        let found: Vec<SampleRow> = rows(database, &self.samples, [connection, place], &self.names)?;
        Ok(found.into_iter().map(|row| row.sample).collect())
    }
}
