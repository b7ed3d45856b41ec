// SPDX-License-Identifier: MIT OR Apache-2.0
//! Assigns rows to connections. A connection that earlier runs observed keeps its row, which is found by its identity.

use std::collections::{HashMap, VecDeque};

use jiff::Timestamp;
use mpwatch_model::id::{ConnectionId, NetnsCookie, SocketCookie, Token};
use rusqlite::{Connection as Database, Params, params};

use super::file::next_number;
use super::merge::EarlierRecord;
use crate::schema::rows::ConnectionRow;
use crate::schema::sql::{Loader, rows, select};
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

/// Maximum number of closed connections whose rows a late record can still change: their own, or one of a socket that outlives its
/// connection, as in FIN_WAIT1 after a restart.
const MAX_CLOSED: usize = 10_000;

/// A row that this run may continue.
struct Candidate {
    number: i64,
    overlaps: bool,
}

/// Assigns a row to each connection that is new in this run. It may continue rows of open connections of earlier runs of this boot, of those
/// that closed last, and of all connections of runs that overlap (recordings that are imported late).
pub(crate) struct RowNumbers {
    /// Number of the next new row.
    next: i64,
    /// Number of this run.
    run: i64,
    candidates: HashMap<ConnectionId, Candidate>,
    /// Connections that this run saw close, the latest last.
    closed: VecDeque<ConnectionId>,
    /// Only during a batch, because it has a copy of all names.
    pub(crate) loader: Option<Loader>,
}

impl RowNumbers {
    /// Reads the rows of this boot. Ids have no meaning on another boot, or if the boot is unknown.
    pub(crate) fn read(
        database: &Database,
        run: i64,
        boot_id: &str,
        began_ns: i64,
    ) -> rusqlite::Result<Self> {
        const IDS: &str =
            "SELECT c.id, n.cookie, c.token, c.birth FROM connection AS c JOIN netns AS n ON n.id = c.netns";
        let next = next_number(database, "connection")?;
        let mut numbers =
            Self { next, run, candidates: HashMap::new(), closed: VecDeque::new(), loader: None };
        if boot_id.is_empty() {
            return Ok(numbers);
        }
        let of_boot = format!("{IDS} WHERE c.run IN (SELECT id FROM run WHERE boot_id = ?) AND c.closed");
        let closed = format!("{of_boot} = 1 ORDER BY c.id DESC LIMIT {MAX_CLOSED}");
        numbers.add(database, &closed, params![boot_id], false)?;
        numbers.add(database, &format!("{of_boot} = 0"), params![boot_id], false)?;
        let same_time = "SELECT id FROM run WHERE boot_id = ? AND to_ns > ?";
        if database.prepare(same_time)?.exists(params![boot_id, began_ns])? {
            let all = format!("{IDS} WHERE c.run IN ({same_time})");
            numbers.add(database, &all, params![boot_id, began_ns], true)?;
        }
        Ok(numbers)
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
            let id = ConnectionId {
                netns: NetnsCookie(row.get::<_, i64>(1)?.cast_unsigned()),
                token: Token(row.get::<_, Option<u32>>(2)?.unwrap_or_default()),
                birth: SocketCookie(row.get::<_, i64>(3)?.cast_unsigned()),
            };
            self.candidates.insert(id, Candidate { number: row.get(0)?, overlaps });
        }
        Ok(())
    }

    /// The number of a connection's row, and its record by earlier runs. If that cannot be read, it stays unchanged, and the connection gets
    /// a new row.
    pub(crate) fn assign(&mut self, database: &Database, id: ConnectionId) -> (i64, Option<EarlierRecord>) {
        if let Some(Candidate { number, overlaps }) = self.candidates.remove(&id) {
            let earlier = self.load(database, number, overlaps).ok();
            if earlier.is_some() {
                return (number, earlier);
            }
        }
        self.next += 1;
        (self.next - 1, None)
    }

    /// Remembers the row of a connection that is no longer tracked, because a late record of it may follow.
    pub(crate) fn remember(&mut self, id: ConnectionId, number: i64) {
        self.candidates.insert(id, Candidate { number, overlaps: true });
        self.closed.push_back(id);
        if self.closed.len() > MAX_CLOSED
            && let Some(oldest) = self.closed.pop_front()
        {
            self.candidates.remove(&oldest);
        }
    }

    fn load(&mut self, database: &Database, number: i64, overlaps: bool) -> rusqlite::Result<EarlierRecord> {
        let loader = match &mut self.loader {
            Some(loader) => loader,
            none => none.insert(Loader::new(database)?),
        };
        let query = select::<ConnectionRow<'_>>(database, "WHERE id = ?")?;
        let found: Vec<ConnectionRow<'static>> = rows(database, &query, [number], &loader.names)?;
        let row = found.into_iter().next().ok_or(rusqlite::Error::QueryReturnedNoRows)?;
        let (began_ns, runs) = (nanos(row.began), row.runs + i64::from(row.run != self.run));
        let until_ns = began_ns.saturating_add(i64::try_from(row.age.0).unwrap_or(i64::MAX));
        let connection = loader.load(database, row)?;
        Ok(EarlierRecord { connection, began_ns, until_ns, overlaps, runs })
    }
}
