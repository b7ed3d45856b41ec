// SPDX-License-Identifier: MIT OR Apache-2.0
//! Connections of earlier runs that this run may see again: found by identity, so that each stays one row.

use std::collections::HashMap;

use mpwatch_model::id::{ConnectionId, NetnsCookie, SocketCookie, Token};
use rusqlite::{Connection, Row as Found, params};

use super::archive::{Parts, dictionary};
use super::merge::Earlier;
use super::read;
use super::row::{ConnectionRow, Row as _, select};
use super::write::nanos;

/// When and on which boot a run began: no two runs have both in common.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Beginning {
    /// Boot id of the machine.
    pub boot_id: String,
    /// When tracing began.
    pub at: jiff::Timestamp,
}

/// The number of a run, if the file has it.
pub(super) fn number_of(database: &Connection, run: &Beginning) -> rusqlite::Result<Option<i64>> {
    let mut query = database.prepare("SELECT min(id) FROM run WHERE boot_id = ? AND from_ns = ?")?;
    query.query_one(params![run.boot_id, nanos(run.at)], |row| row.get(0))
}

/// A row that may be seen again.
struct Candidate {
    row: i64,
    overlaps: bool,
}

/// Rows that may be seen again, by identity. Those of a run that this one continues are open ones only; those of a run that saw the same
/// time (a recording that is imported late) are all.
#[derive(Default)]
pub(super) struct Continued {
    candidates: HashMap<ConnectionId, Candidate>,
    dictionary: Option<read::Dictionary>,
}

impl Continued {
    /// What the file has of this boot. Ids mean nothing across boots, nor where the boot is not known.
    pub(super) fn of(database: &Connection, boot_id: &str, began_ns: i64) -> rusqlite::Result<Self> {
        const WHAT: &str = "SELECT c.id, n.cookie, c.token, c.birth FROM connection AS c JOIN connection_kind AS k ON k.id = c.kind JOIN netns AS n ON n.id = k.netns";
        let mut continued = Self::default();
        if boot_id.is_empty() {
            return Ok(continued);
        }
        let open =
            format!("{WHAT} WHERE c.run IN (SELECT id FROM run WHERE boot_id = ?) AND c.flags & 2 = 0");
        continued.add(database, &open, params![boot_id], false)?;
        let same_time = "SELECT id FROM run WHERE boot_id = ? AND to_ns > ?";
        if database.prepare(same_time)?.exists(params![boot_id, began_ns])? {
            let all = format!("{WHAT} WHERE c.run IN ({same_time})");
            continued.add(database, &all, params![boot_id, began_ns], true)?;
        }
        Ok(continued)
    }

    fn add(
        &mut self,
        database: &Connection,
        query: &str,
        values: impl rusqlite::Params,
        overlaps: bool,
    ) -> rusqlite::Result<()> {
        let mut query = database.prepare(query)?;
        let mut rows = query.query(values)?;
        while let Some(row) = rows.next()? {
            let (row, id) = identity(row)?;
            self.candidates.insert(id, Candidate { row, overlaps });
        }
        Ok(())
    }

    /// What the file has of this connection, and its number. A row that cannot be read is left as it is, and a new one begun.
    pub(super) fn find(&mut self, database: &Connection, id: ConnectionId) -> Option<(i64, Earlier)> {
        let Candidate { row, overlaps } = self.candidates.remove(&id)?;
        let earlier = self.load(database, row, overlaps).ok().flatten();
        if self.candidates.is_empty() {
            self.dictionary = None;
        }
        earlier.map(|earlier| (row, earlier))
    }

    fn load(&mut self, database: &Connection, row: i64, overlaps: bool) -> rusqlite::Result<Option<Earlier>> {
        let words = match &mut self.dictionary {
            Some(words) => words,
            none => none.insert(dictionary(database)?),
        };
        let found = database
            .prepare_cached(&select::<ConnectionRow>("WHERE id = ?"))?
            .query_one([row], ConnectionRow::read)?;
        let (began_ns, until_ns) = (found.began_ns, found.began_ns.saturating_add(found.age_ns));
        let runs = words.connections.get(&found.kind).map_or(1, |kind| kind.runs);
        let stored = Parts::of(database)?.read(found)?;
        let Ok(flow) = read::connection(&stored, words) else { return Ok(None) };
        Ok(Some(Earlier { flow, began_ns, until_ns, overlaps, runs }))
    }
}

fn identity(row: &Found<'_>) -> rusqlite::Result<(i64, ConnectionId)> {
    let id = ConnectionId {
        netns: NetnsCookie(row.get::<_, i64>(1)?.cast_unsigned()),
        token: Token(row.get::<_, i32>(2)?.cast_unsigned()),
        birth: SocketCookie(row.get::<_, i64>(3)?.cast_unsigned()),
    };
    Ok((row.get(0)?, id))
}
