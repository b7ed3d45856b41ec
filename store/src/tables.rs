// SPDX-License-Identifier: MIT OR Apache-2.0
//! Writes the rows of connections into a transaction; what an earlier picture of one had, and this one has not, goes.

use std::borrow::Cow;

use jiff::Timestamp;
use mpwatch_model::connection::Connection as Flow;
use rusqlite::{CachedStatement, Connection, params};

use super::names::Names;
use super::row::{ConnectionRow, PLACES, Row, SubflowRow, insert, insertion};
use super::verdicts;
use super::write::{Place, rows, samples};

/// A connection to be written.
pub(super) struct Item<'a> {
    pub(super) row: i64,
    /// The file has nothing of it yet.
    pub(super) is_new: bool,
    pub(super) flow: Cow<'a, Flow>,
    pub(super) seen_at: Timestamp,
    pub(super) sampled: bool,
    /// Runs that have seen it.
    pub(super) runs: i64,
}

/// The insertions of a transaction.
pub(super) struct Tables<'a> {
    database: &'a Connection,
    connection: CachedStatement<'a>,
    subflow: CachedStatement<'a>,
}

impl<'a> Tables<'a> {
    pub(super) fn of(database: &'a Connection) -> rusqlite::Result<Self> {
        Ok(Self {
            database,
            connection: insertion::<ConnectionRow>(database)?,
            subflow: insertion::<SubflowRow>(database)?,
        })
    }

    pub(super) fn write(&mut self, item: &Item<'_>, run: i64, names: &mut Names<'_>) -> rusqlite::Result<()> {
        let place = Place { run, connection: item.row, seen_at: item.seen_at, runs: item.runs };
        let rows = rows(&item.flow, place, names)?;
        if item.runs > 1 {
            self.move_samples(item.row, rows.connection.began_ns)?;
        }
        if !item.is_new {
            self.clear(item.row)?;
        }
        insert(&mut self.connection, &rows.connection)?;
        for subflow in &rows.subflows {
            insert(&mut self.subflow, subflow)?;
        }
        self.insert_all(rows.ends.as_slice())?;
        self.insert_all(&rows.verdicts)?;
        self.insert_all(&rows.events)?;
        if item.sampled {
            self.insert_all(&samples(&item.flow, place))?;
        }
        Ok(())
    }

    fn insert_all<R: Row>(&self, rows: &[R]) -> rusqlite::Result<()> {
        if rows.is_empty() {
            return Ok(());
        }
        let mut insertion = insertion::<R>(self.database)?;
        rows.iter().try_for_each(|row| insert(&mut insertion, row))
    }

    /// An earlier picture may have had more of these: an event that is a flag now was none before. Rows of the connection and of its
    /// subflows, which only become more, are written over.
    fn clear(&self, connection: i64) -> rusqlite::Result<()> {
        let delete = |sql: &str| self.database.prepare_cached(sql);
        delete("DELETE FROM event WHERE connection = ?")?.execute([connection])?;
        delete("DELETE FROM ends WHERE connection = ?")?.execute([connection])?;
        delete("DELETE FROM verdict WHERE id >= ? AND id < ?")?.execute(verdicts::range(connection))?;
        Ok(())
    }

    /// Samples are relative to the beginning of their connection, which another run may have known better.
    fn move_samples(&self, connection: i64, began_ns: i64) -> rusqlite::Result<()> {
        let mut stored = self.database.prepare_cached("SELECT began_ns - ? FROM connection WHERE id = ?")?;
        let shift: i64 = stored.query_one([began_ns, connection], |row| row.get(0))?;
        if shift == 0 {
            return Ok(());
        }
        // By way of negative times, so that none meets another that has not moved yet.
        let (first, last) = (connection * PLACES, (connection + 1) * PLACES);
        let range = params![first, last];
        let away = "UPDATE sample SET after_ns = -1 - after_ns WHERE subflow >= ? AND subflow < ?";
        self.database.prepare_cached(away)?.execute(range)?;
        let back = "UPDATE sample SET after_ns = -1 - after_ns + ? WHERE subflow >= ? AND subflow < ?";
        self.database.prepare_cached(back)?.execute(params![shift, first, last])?;
        Ok(())
    }
}
