// SPDX-License-Identifier: MIT OR Apache-2.0
//! The connections that a target (another engine) has not confirmed. The file itself is the queue: the last change of each row has a number,
//! and each target has a cursor. A row that changes after the target confirmed it is sent once more.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;
use mpwatch_model::flow::end::{End, EndColumns};
use mpwatch_model::table::ColumnType::{Integer, Text};
use mpwatch_model::table::{Column, Row};
use rusqlite::{CachedStatement, Connection as Database, OptionalExtension as _, params};

use crate::error::{MAY_WRITE, StoreError};
use crate::lock::{identity, is_still};
use crate::open;
use crate::schema::tables::{ViewColumn, listed};
use crate::schema::values::{cell, nanos};
use crate::schema::views;

/// How long a transaction of the exporter waits for the writer.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum number of days in a batch. Engines partition tables by day, and ClickHouse refuses an insertion into more than 100 parts.
const MAX_DAYS: usize = 100;
const DAY_NS: i64 = 86_400_000_000_000;

/// The cursors, and an index by changes. Only files that are exported have them. `lost`: connections that retention deleted before the
/// target confirmed them.
const TABLES: &str = "CREATE TABLE IF NOT EXISTS export_cursor (
    target TEXT NOT NULL PRIMARY KEY, changed INTEGER NOT NULL, connection INTEGER NOT NULL, version INTEGER NOT NULL,
    lost INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX IF NOT EXISTS connection_changed ON connection (changed)";
/// The connections that a target has not confirmed.
const WAITING: &str = "FROM connection, export_cursor AS e
    WHERE e.target = ? AND (connection.changed, connection.id) > (e.changed, e.connection)";

/// The rows that a target has not confirmed.
pub struct Outbox {
    path: PathBuf,
    /// Identity of the open file, which may be replaced.
    file: (u64, u64),
    database: Database,
    target: String,
    /// The last row that was read. The target may not have confirmed it yet.
    read: Cursor,
}

/// A position in the order of changes, and the version of the last row that was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Cursor {
    changed: i64,
    connection: i64,
    version: i64,
}

impl Cursor {
    const START: Self = Self { changed: -1, connection: 0, version: 0 };
}

/// One end of a connection, with its subflows, verdicts and events.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredEnd {
    /// Its cells are in the order of [`end_columns`].
    pub end: End,
    /// Increases with each later state of the same connection: the time of reading in nanoseconds since 1970, or the last version plus one.
    pub version: u64,
}

/// Connections that a target has not confirmed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backlog {
    /// Their number.
    pub connections: u64,
    /// When the connection that has waited longest closed or was last observed.
    pub oldest: Option<Timestamp>,
    /// Connections that retention deleted before the target confirmed them.
    pub lost: u64,
}

/// The columns of ends, from `v_connection`, `v_subflow`, `v_bottleneck` and `v_event`.
pub fn end_columns() -> EndColumns {
    EndColumns {
        connection: named(&shown(views::connection_columns())),
        subflow: named(&shown(views::subflow_columns())),
        bottleneck: named(&shown(views::bottleneck_columns())),
        event: named(&event_columns()),
    }
}

/// The columns of `v_event` that identify an entry of the timeline.
fn event_columns() -> Vec<ViewColumn> {
    let columns =
        [("at_ns", Integer), ("event", Text), ("subflow", Text), ("detail", Text), ("reason", Text)];
    columns.map(|(name, kind)| ViewColumn::new(name, kind, format!("e.{name}"))).into()
}

fn shown(columns: Vec<ViewColumn>) -> Vec<ViewColumn> {
    columns.into_iter().filter(|column| !column.is_local()).collect()
}

fn named(columns: &[ViewColumn]) -> Vec<Column> {
    columns.iter().map(|column| Column::new(&column.name, column.kind)).collect()
}

impl Outbox {
    /// Opens a file for a target. Another process may be writing it.
    ///
    /// # Errors
    /// If the file does not exist or cannot be written.
    pub fn open(path: &Path, target: &str) -> Result<Self, StoreError> {
        drop(open::for_reading(path)?);
        // Adds columns that the file lacks. If another process is writing it, that process has done so.
        match open::for_writing(path) {
            Ok(database_and_lock) => drop(database_and_lock),
            Err(error) if error.is_in_use => {}
            Err(error) => return Err(error),
        }
        let open = || {
            let database = Database::open(path)?;
            database.busy_timeout(TIMEOUT)?;
            database.execute_batch(TABLES)?;
            let file = std::fs::metadata(path).map(|found| identity(&found)).unwrap_or_default();
            let (path, target) = (path.to_owned(), target.to_owned());
            let mut outbox = Self { path, file, database, target, read: Cursor::START };
            outbox.read = outbox.confirmed()?.unwrap_or(Cursor::START);
            Ok(outbox)
        };
        open().map_err(|error: rusqlite::Error| StoreError::open(path, &error, None))
    }

    /// Creates the cursor of a target that has not confirmed anything yet. From then on its backlog is counted, and the part that retention
    /// deletes.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn count_backlog(&self) -> Result<(), StoreError> {
        let sql =
            "INSERT OR IGNORE INTO export_cursor (target, changed, connection, version) VALUES (?, ?, ?, ?)";
        let Cursor { changed, connection, version } = Cursor::START;
        let written = self.database.execute(sql, params![self.target, changed, connection, version]);
        written.map(drop).map_err(|error| StoreError::open(&self.path, &error, Some(MAY_WRITE)))
    }

    fn confirmed(&self) -> rusqlite::Result<Option<Cursor>> {
        let sql = "SELECT changed, connection, version FROM export_cursor WHERE target = ?";
        let cursor = |row: &rusqlite::Row<'_>| {
            Ok(Cursor { changed: row.get(0)?, connection: row.get(1)?, version: row.get(2)? })
        };
        self.database.query_row(sql, [&self.target], cursor).optional()
    }

    /// Whether the path still refers to the open file.
    pub fn is_current(&self) -> bool {
        is_still(&self.path, self.file)
    }

    /// The connections that the target has not confirmed. Empty if it has no cursor.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn backlog(&self) -> Result<Backlog, StoreError> {
        let read = || -> rusqlite::Result<Backlog> {
            let count = format!("SELECT count(*) {WAITING}");
            let connections =
                self.database.prepare_cached(&count)?.query_one([&self.target], |row| row.get(0))?;
            let first = format!(
                "SELECT began_ns + age_ns {WAITING} ORDER BY connection.changed, connection.id LIMIT 1"
            );
            let oldest_ns: Option<i64> = self
                .database
                .prepare_cached(&first)?
                .query_row([&self.target], |row| row.get(0))
                .optional()?;
            let lost = "SELECT lost FROM export_cursor WHERE target = ?";
            let lost =
                self.database.prepare_cached(lost)?.query_row([&self.target], |row| row.get(0)).optional()?;
            let count = |number: Option<i64>| number.unwrap_or_default().unsigned_abs();
            let oldest = oldest_ns.and_then(|at| Timestamp::from_nanosecond(at.into()).ok());
            Ok(Backlog { connections: count(Some(connections)), oldest, lost: count(lost) })
        };
        read().map_err(|error| StoreError::read(&self.path, &error))
    }

    /// Restarts with the first row, for a target that has lost its rows.
    pub fn rewind(&mut self) {
        self.read = Cursor { version: self.read.version, ..Cursor::START };
    }

    /// Number of connections that are still to be read and that closed, or were last observed, at `since` or later.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn waiting(&self, since: Option<Timestamp>) -> Result<u64, StoreError> {
        let sql = "SELECT count(*) FROM connection WHERE (changed, id) > (?, ?) AND began_ns + age_ns >= ?";
        let values = params![self.read.changed, self.read.connection, since.map_or(i64::MIN, nanos)];
        let count = self.database.query_row(sql, values, |row| row.get::<_, i64>(0));
        count.map(i64::unsigned_abs).map_err(|error| StoreError::read(&self.path, &error))
    }

    /// Reads the next connections in the order of their changes, at most `limit`. Empty: all were read. `with_events`: also their timelines.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn next(
        &mut self,
        since: Option<Timestamp>,
        limit: u32,
        with_events: bool,
    ) -> Result<Vec<StoredEnd>, StoreError> {
        let after = self.read;
        let (ends, read) = ends(&self.database, after, since, limit, with_events)
            .map_err(|error| StoreError::read(&self.path, &error))?;
        self.read = read;
        Ok(ends)
    }

    /// Records that the target has confirmed all rows that were read.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn confirm(&mut self) -> Result<(), StoreError> {
        let sql = "INSERT INTO export_cursor (target, changed, connection, version) VALUES (?, ?, ?, ?) ON CONFLICT (target)
            DO UPDATE SET changed = excluded.changed, connection = excluded.connection, version = excluded.version";
        let Cursor { changed, connection, version } = self.read;
        let written = self.database.execute(sql, params![self.target, changed, connection, version]);
        written.map(drop).map_err(|error| StoreError::open(&self.path, &error, Some(MAY_WRITE)))
    }
}

/// Reads the connections after a cursor, in one transaction. Also returns the cursor of the last.
fn ends(
    database: &Database,
    after: Cursor,
    since: Option<Timestamp>,
    limit: u32,
    with_events: bool,
) -> rusqlite::Result<(Vec<StoredEnd>, Cursor)> {
    let transaction = database.unchecked_transaction()?;
    let mut read = after;
    let mut queries = Queries::new(&transaction, with_events)?;
    let sql =
        "SELECT changed, id, began_ns FROM connection WHERE (changed, id) > (?, ?) AND began_ns + age_ns >= ?
        ORDER BY changed, id LIMIT ?";
    let mut found = transaction.prepare_cached(sql)?;
    let values = params![after.changed, after.connection, since.map_or(i64::MIN, nanos), limit];
    let mut rows = found.query(values)?;
    let (mut ends, mut days) = (Vec::new(), BTreeSet::new());
    while let Some(row) = rows.next()? {
        days.insert(row.get::<_, i64>(2)?.div_euclid(DAY_NS));
        if days.len() > MAX_DAYS {
            break;
        }
        let version = nanos(Timestamp::now()).max(read.version + 1);
        read = Cursor { changed: row.get(0)?, connection: row.get(1)?, version };
        ends.extend(queries.end(read.connection, version.unsigned_abs())?);
    }
    Ok((ends, read))
}

/// The queries for the parts of an end.
struct Queries<'d> {
    connection: (CachedStatement<'d>, Vec<Column>),
    subflows: (CachedStatement<'d>, Vec<Column>),
    bottlenecks: (CachedStatement<'d>, Vec<Column>),
    /// `None`: events are not read.
    events: Option<(CachedStatement<'d>, Vec<Column>)>,
}

impl<'d> Queries<'d> {
    fn new(database: &'d Database, with_events: bool) -> rusqlite::Result<Self> {
        let query = |columns: Vec<ViewColumn>, from: &str| {
            let sql = format!("SELECT {} FROM {from}", listed(&columns));
            Ok::<_, rusqlite::Error>((database.prepare_cached(&sql)?, named(&columns)))
        };
        let (columns, of_connection) = views::one_connection();
        Ok(Self {
            connection: query(shown(columns), &of_connection)?,
            subflows: query(
                shown(views::subflow_columns()),
                "subflow AS s WHERE s.connection = ? ORDER BY s.place",
            )?,
            bottlenecks: query(
                shown(views::bottleneck_columns()),
                "pair AS p WHERE p.connection = ? ORDER BY p.a, p.b",
            )?,
            events: with_events
                .then(|| query(event_columns(), "v_event AS e WHERE e.connection = ? ORDER BY e.at_ns"))
                .transpose()?,
        })
    }

    fn end(&mut self, number: i64, version: u64) -> rusqlite::Result<Option<StoredEnd>> {
        let Some(connection) = rows(&mut self.connection, number)?.pop() else { return Ok(None) };
        let end = End {
            connection,
            subflows: rows(&mut self.subflows, number)?,
            bottlenecks: rows(&mut self.bottlenecks, number)?,
            events: self.events.as_mut().map_or(Ok(Vec::new()), |events| rows(events, number))?,
        };
        Ok(Some(StoredEnd { end, version }))
    }
}

fn rows(
    (query, columns): &mut (CachedStatement<'_>, Vec<Column>),
    number: i64,
) -> rusqlite::Result<Vec<Row>> {
    let of_row = |row: &rusqlite::Row<'_>| {
        let cells = (0..).zip(&*columns).map(|(nth, column)| cell(nth, row.get_ref(nth)?, column.kind));
        cells.collect()
    };
    query.query_map([number], of_row)?.collect()
}
