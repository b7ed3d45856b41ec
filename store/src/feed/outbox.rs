// SPDX-License-Identifier: MIT OR Apache-2.0
//! The connections that a target (another database) has not confirmed. The file itself is the queue: the last change of each row has a number,
//! and each target has a cursor, its last confirmed change. A row that changes after the target confirmed it is sent once more.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;
use mpwatch_model::flow::end::{End, EndColumns};
use mpwatch_model::table::ColumnType::{Integer, Text};
use mpwatch_model::table::{Cell, Column, Row};
use rusqlite::{CachedStatement, Connection as Database, OptionalExtension as _, params};

use crate::error::{ErrorKind, MAY_WRITE, StoreError};
use crate::lock::{identity, is_still};
use crate::open;
use crate::schema::record::MAX_PAIRS;
use crate::schema::tables::{ViewColumn, listed};
use crate::schema::values::{DAY_NS, cell, nanos, timestamp};
use crate::schema::views;

/// How long a transaction of the exporter waits for the writer.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum number of days in a batch. Targets partition tables by day, and ClickHouse refuses an insertion into more than 100 parts.
const MAX_DAYS: usize = 100;
/// Total size of the cells, in bytes, at which a batch ends. Most connections have 10 kB; an attacker can cause connections with megabytes.
const MAX_BATCH_BYTES: usize = 16 << 20;

/// The cursors, and an index by changes. Only files that are exported have them. `lost`: connections that retention deleted before the
/// target confirmed them.
const TABLES: &str = "CREATE TABLE IF NOT EXISTS export_cursor (
    target TEXT NOT NULL PRIMARY KEY, changed INTEGER NOT NULL, connection INTEGER NOT NULL, version INTEGER NOT NULL,
    lost INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX IF NOT EXISTS connection_changed ON connection (changed)";
/// The connections that the target of the cursor `e` has not confirmed.
const WAITING: &str = "FROM connection AS c WHERE (c.changed, c.id) > (e.changed, e.connection)";

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

/// The record of a connection ([`End`]), with its subflows, verdicts and events.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredEnd {
    /// Its cells are in the order of [`end_columns`].
    pub end: End,
    /// A later state of a connection has a larger version: the time of reading in nanoseconds since 1970, but at least the last version plus 1.
    pub version: u64,
}

/// Connections that a target has not confirmed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backlog {
    /// Number of these connections.
    pub connections: u64,
    /// When the connection that has waited longest closed or was last observed.
    pub oldest: Option<Timestamp>,
    /// Connections that retention deleted before the target confirmed them.
    pub lost: u64,
}

/// The columns of ends, from `v_connection`, `v_subflow`, `v_bottleneck` and `v_event`.
pub fn end_columns() -> EndColumns {
    let [connection, subflow, bottleneck, event] = parts().map(|(columns, _)| named(&columns));
    EndColumns { connection, subflow, bottleneck, event }
}

/// The parts of an end, in the order of [`End`]: their columns, and the `FROM` clause of the connection with the number `?1`.
fn parts() -> [(Vec<ViewColumn>, String); 4] {
    let shown = |columns: Vec<ViewColumn>| columns.into_iter().filter(|column| !column.is_local()).collect();
    let (connection, of_connection) = views::one_connection();
    // The columns of `v_event` that identify an entry of the timeline.
    let event = [("at_ns", Integer), ("event", Text), ("subflow", Text), ("detail", Text), ("reason", Text)];
    let event = event.map(|(name, kind)| ViewColumn::new(name, kind, format!("e.{name}")));
    [
        (shown(connection), of_connection),
        (shown(views::subflow_columns()), "subflow AS s WHERE s.connection = ?1 ORDER BY s.place".to_owned()),
        (
            shown(views::bottleneck_columns()),
            format!("pair AS p WHERE p.connection = ?1 ORDER BY p.a, p.b LIMIT {MAX_PAIRS}"),
        ),
        (event.into(), "v_event AS e WHERE e.connection = ?1 ORDER BY e.at_ns".to_owned()),
    ]
}

fn named(columns: &[ViewColumn]) -> Vec<Column> {
    columns.iter().map(|column| Column::new(&column.name, column.kind)).collect()
}

impl Outbox {
    /// Opens a file for a target. Another process may be writing it.
    pub fn open(path: &Path, target: &str) -> Result<Self, StoreError> {
        drop(open::for_reading(path)?);
        // Adds columns that the file lacks. If another process is writing the file, that process has added them.
        match open::for_writing(path) {
            Ok(database_and_lock) => drop(database_and_lock),
            Err(error) if error.kind == ErrorKind::InUse => {}
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

    /// Creates the cursor of a target that has not confirmed anything yet. From then on, its backlog is counted, and so are connections that
    /// retention deletes from it.
    pub fn count_backlog(&self) -> Result<(), StoreError> {
        self.write_cursor(Cursor::START, "NOTHING")
    }

    /// Writes the cursor. `existing`: SQL for the case that the target has a cursor already.
    fn write_cursor(&self, cursor: Cursor, existing: &str) -> Result<(), StoreError> {
        let sql = format!(
            "INSERT INTO export_cursor (target, changed, connection, version) VALUES (?, ?, ?, ?) ON CONFLICT (target) DO {existing}"
        );
        let Cursor { changed, connection, version } = cursor;
        let written = self.database.execute(&sql, params![self.target, changed, connection, version]);
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

    /// The connections that the target has not confirmed. Empty if the target has no cursor.
    pub fn backlog(&self) -> Result<Backlog, StoreError> {
        let sql = format!(
            "SELECT (SELECT count(*) {WAITING}), (SELECT c.began_ns + c.age_ns {WAITING} ORDER BY c.changed, c.id LIMIT 1), e.lost
             FROM export_cursor AS e WHERE e.target = ?"
        );
        let backlog = |row: &rusqlite::Row<'_>| {
            let count = |nth| row.get::<_, i64>(nth).map(i64::unsigned_abs);
            let oldest = row.get::<_, Option<i64>>(1)?.map(timestamp);
            Ok(Backlog { connections: count(0)?, oldest, lost: count(2)? })
        };
        let read = || self.database.prepare_cached(&sql)?.query_row([&self.target], backlog).optional();
        read().map(Option::unwrap_or_default).map_err(|error| StoreError::read(&self.path, &error))
    }

    /// Restarts with the first row, for a target that has lost its rows.
    pub fn rewind(&mut self) {
        self.read = Cursor { version: self.read.version, ..Cursor::START };
    }

    /// Reads the next connections in the order of their changes, at most `limit`. Empty: all were read. `with_events`: also their timelines.
    pub fn next(
        &mut self,
        since: Option<Timestamp>,
        limit: u32,
        with_events: bool,
    ) -> Result<Vec<StoredEnd>, StoreError> {
        let (ends, read) =
            self.ends(since, limit, with_events).map_err(|error| StoreError::read(&self.path, &error))?;
        self.read = read;
        Ok(ends)
    }

    /// Reads the connections after the cursor, in one transaction. Also returns the cursor of the last connection.
    fn ends(
        &self,
        since: Option<Timestamp>,
        limit: u32,
        with_events: bool,
    ) -> rusqlite::Result<(Vec<StoredEnd>, Cursor)> {
        const NEXT: &str = "SELECT changed, id, began_ns FROM connection
            WHERE (changed, id) > (?, ?) AND began_ns + age_ns >= ? ORDER BY changed, id LIMIT ?";
        let transaction = self.database.unchecked_transaction()?;
        let mut queries = Vec::new();
        for (columns, from) in parts().into_iter().take(if with_events { 4 } else { 3 }) {
            let sql = format!("SELECT {} FROM {from}", listed(&columns));
            queries.push((transaction.prepare_cached(&sql)?, named(&columns)));
        }
        let mut read = self.read;
        let mut found = transaction.prepare_cached(NEXT)?;
        let mut rows =
            found.query(params![read.changed, read.connection, since.map_or(i64::MIN, nanos), limit])?;
        let (mut ends, mut days, mut bytes) = (Vec::new(), BTreeSet::new(), 0);
        while let Some(row) = rows.next()?.filter(|_| bytes < MAX_BATCH_BYTES) {
            days.insert(row.get::<_, i64>(2)?.div_euclid(DAY_NS));
            if days.len() > MAX_DAYS {
                break;
            }
            let version = nanos(Timestamp::now()).max(read.version + 1);
            read = Cursor { changed: row.get(0)?, connection: row.get(1)?, version };
            let version = version.unsigned_abs();
            if let Some(end) = end(&mut queries, read.connection)? {
                let parts = end.subflows.iter().chain(&end.bottlenecks).chain(&end.events);
                bytes +=
                    size_of::<Option<Cell>>() * (end.connection.len() + parts.map(Vec::len).sum::<usize>());
                ends.push(StoredEnd { end, version });
            }
        }
        Ok((ends, read))
    }

    /// Records that the target has confirmed all rows that were read.
    pub fn confirm(&mut self) -> Result<(), StoreError> {
        let update = "UPDATE SET changed = excluded.changed, connection = excluded.connection, version = excluded.version";
        self.write_cursor(self.read, update)
    }
}

/// The query for a part of an end, and its columns.
type PartQuery<'d> = (CachedStatement<'d>, Vec<Column>);

/// Reads an end. `None`: the file has no such connection. Without a query for events, the end has no events.
fn end(queries: &mut [PartQuery<'_>], number: i64) -> rusqlite::Result<Option<End>> {
    let mut parts = queries.iter_mut().map(|query| rows(query, number));
    let mut next = || parts.next().unwrap_or_else(|| Ok(Vec::new()));
    let Some(connection) = next()?.pop() else { return Ok(None) };
    Ok(Some(End { connection, subflows: next()?, bottlenecks: next()?, events: next()? }))
}

fn rows((query, columns): &mut PartQuery<'_>, number: i64) -> rusqlite::Result<Vec<Row>> {
    let of_row = |row: &rusqlite::Row<'_>| {
        let cells = (0..).zip(&*columns).map(|(nth, column)| cell(nth, row.get_ref(nth)?, column.kind));
        cells.collect()
    };
    query.query_map([number], of_row)?.collect()
}
