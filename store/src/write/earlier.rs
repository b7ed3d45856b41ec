// SPDX-License-Identifier: MIT OR Apache-2.0
//! Assigns rows to connections. A connection that earlier runs observed keeps its row, which is found by its identity.

use jiff::Timestamp;
use mpwatch_model::id::ConnectionId;
use rusqlite::{Connection as Database, OptionalExtension as _, params};

use super::end::reopened;
use super::merge::EarlierRecord;
use crate::schema::sql::Loader;
use crate::schema::tables::next_number;
use crate::schema::values::nanos;

/// When and on which boot a run began, which identifies the run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunStart {
    /// Boot id of the machine.
    pub boot_id: String,
    /// When tracing began.
    pub at: Timestamp,
}

/// The number of a run, if the file contains it.
pub(crate) fn number_of(database: &Database, run: &RunStart) -> rusqlite::Result<Option<i64>> {
    let mut query = database.prepare("SELECT min(id) FROM run WHERE boot_id = ? AND from_ns = ?")?;
    query.query_one(params![run.boot_id, nanos(run.at)], |row| row.get(0))
}

/// Assigns a row to each connection that is new to the writer: the row that an earlier run of this boot, or this run, has written for it, or a
/// new row.
pub(crate) struct RowNumbers {
    /// Number of the next new row.
    next: i64,
    /// Number of this run.
    run: i64,
    /// Boot id of the machine; empty: unknown. Ids of connections have no meaning on another boot.
    boot_id: String,
    began_ns: i64,
    /// `None` between batches, because a loader keeps all names in memory.
    pub(crate) loader: Option<Loader>,
}

impl RowNumbers {
    pub(crate) fn new(database: &Database, run: i64, start: RunStart) -> rusqlite::Result<Self> {
        let next = next_number(database, "connection")?;
        Ok(Self { next, run, boot_id: start.boot_id, began_ns: nanos(start.at), loader: None })
    }

    /// The number of a connection's row, and its record so far. If the row cannot be read, it stays unchanged, and the connection gets a new row.
    pub(crate) fn assign(&mut self, database: &Database, id: ConnectionId) -> (i64, Option<EarlierRecord>) {
        if let Ok(Some((number, earlier))) = self.find(database, id) {
            return (number, Some(earlier));
        }
        self.next += 1;
        (self.next - 1, None)
    }

    fn find(
        &mut self,
        database: &Database,
        id: ConnectionId,
    ) -> rusqlite::Result<Option<(i64, EarlierRecord)>> {
        // Runs overlap if a recording is imported late.
        const ROW: &str = "SELECT c.id, c.run = ?1 OR r.to_ns > ?2 FROM connection AS c
            JOIN run AS r ON r.id = c.run JOIN netns AS n ON n.id = c.netns
            WHERE c.birth = ?3 AND c.token IS ?4 AND n.cookie = ?5 AND r.boot_id = ?6 AND r.boot_id <> ''";
        let Self { run, began_ns, boot_id, .. } = &*self;
        let (birth, netns) = (id.birth.0.cast_signed(), id.netns.0.cast_signed());
        let token = id.token.known().map(|token| token.0);
        let row = database
            .prepare_cached(ROW)?
            .query_row(params![run, began_ns, birth, token, netns, boot_id], |row| {
                Ok((row.get(0)?, row.get(1)?))
            });
        let Some((number, overlaps)) = row.optional()? else { return Ok(None) };
        let loader = match &mut self.loader {
            Some(loader) => loader,
            none => none.insert(Loader::new(database)?),
        };
        let Some((row, connection)) = loader.load(database, number)? else { return Ok(None) };
        let (began_ns, runs) = (nanos(row.began), row.runs + i64::from(row.run != self.run));
        let until_ns = began_ns.saturating_add(i64::try_from(row.age.0).unwrap_or(i64::MAX));
        let connection = reopened(connection);
        Ok(Some((number, EarlierRecord { connection, began_ns, until_ns, overlaps, runs })))
    }
}
