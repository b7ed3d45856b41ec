// SPDX-License-Identifier: MIT OR Apache-2.0
//! Connections of earlier runs that this run may see again: found by their identity, so that each keeps its row.

use std::collections::HashMap;

use jiff::Timestamp;
use mpwatch_model::id::{ConnectionId, NetnsCookie, SocketCookie, Token};
use rusqlite::{Connection as Database, Params, Row, params};

use super::merge::EarlierRecord;
use crate::schema::rows::ConnectionRow;
use crate::schema::sql::{Loader, rows, select};
use crate::schema::values::nanos;

/// When and on which boot a run began: no two runs have both in common.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunStart {
    /// Boot id of the machine.
    pub boot_id: String,
    /// When tracing began.
    pub at: Timestamp,
}

/// The number of a run, if the file has it.
pub(crate) fn number_of(database: &Database, run: &RunStart) -> rusqlite::Result<Option<i64>> {
    let mut query = database.prepare("SELECT min(id) FROM run WHERE boot_id = ? AND from_ns = ?")?;
    query.query_one(params![run.boot_id, nanos(run.at)], |row| row.get(0))
}

/// A row that may be seen again.
struct Candidate {
    number: i64,
    overlaps: bool,
}

/// Rows that may be seen again, by identity: open ones of earlier runs of this boot, and all rows of overlapping runs (late imports).
#[derive(Default)]
pub(crate) struct EarlierRuns {
    candidates: HashMap<ConnectionId, Candidate>,
    loader: Option<Loader>,
}

impl EarlierRuns {
    /// The rows of this boot. Ids mean nothing on another boot, or if the boot is unknown.
    pub(crate) fn of(database: &Database, boot_id: &str, began_ns: i64) -> rusqlite::Result<Self> {
        const IDS: &str =
            "SELECT c.id, n.cookie, c.token, c.birth FROM connection AS c JOIN netns AS n ON n.id = c.netns";
        let mut earlier = Self::default();
        if boot_id.is_empty() {
            return Ok(earlier);
        }
        let open = format!("{IDS} WHERE c.run IN (SELECT id FROM run WHERE boot_id = ?) AND c.closed = 0");
        earlier.add(database, &open, params![boot_id], false)?;
        let same_time = "SELECT id FROM run WHERE boot_id = ? AND to_ns > ?";
        if database.prepare(same_time)?.exists(params![boot_id, began_ns])? {
            let all = format!("{IDS} WHERE c.run IN ({same_time})");
            earlier.add(database, &all, params![boot_id, began_ns], true)?;
        }
        Ok(earlier)
    }

    fn add(
        &mut self,
        database: &Database,
        query: &str,
        values: impl Params,
        overlaps: bool,
    ) -> rusqlite::Result<()> {
        let mut query = database.prepare(query)?;
        let mut found = query.query(values)?;
        while let Some(row) = found.next()? {
            self.candidates.insert(identity(row)?, Candidate { number: row.get(0)?, overlaps });
        }
        Ok(())
    }

    /// The number and the record of a connection that the file has. A row that cannot be read stays as it is, and a new one is written.
    pub(crate) fn find(&mut self, database: &Database, id: ConnectionId) -> Option<(i64, EarlierRecord)> {
        if self.candidates.is_empty() {
            return None;
        }
        let Candidate { number, overlaps } = self.candidates.remove(&id)?;
        let earlier = self.load(database, number, overlaps).ok();
        if self.candidates.is_empty() {
            self.loader = None;
        }
        earlier.map(|earlier| (number, earlier))
    }

    fn load(&mut self, database: &Database, number: i64, overlaps: bool) -> rusqlite::Result<EarlierRecord> {
        let loader = match &mut self.loader {
            Some(loader) => loader,
            none => none.insert(Loader::new(database)?),
        };
        let query = select::<ConnectionRow<'_>>(database, "WHERE id = ?")?;
        let found: Vec<ConnectionRow<'static>> = rows(database, &query, [number], &loader.names)?;
        let row = found.into_iter().next().ok_or(rusqlite::Error::QueryReturnedNoRows)?;
        let (began_ns, runs) = (nanos(row.began), row.runs);
        let until_ns = began_ns.saturating_add(i64::try_from(row.age.0).unwrap_or(i64::MAX));
        let flow = loader.load(database, row)?;
        Ok(EarlierRecord { flow, began_ns, until_ns, overlaps, runs })
    }
}

fn identity(row: &Row<'_>) -> rusqlite::Result<ConnectionId> {
    Ok(ConnectionId {
        netns: NetnsCookie(row.get::<_, i64>(1)?.cast_unsigned()),
        token: Token(row.get::<_, Option<u32>>(2)?.unwrap_or_default()),
        birth: SocketCookie(row.get::<_, i64>(3)?.cast_unsigned()),
    })
}
