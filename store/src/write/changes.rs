// SPDX-License-Identifier: MIT OR Apache-2.0
//! Decides which rows a snapshot changes: rows of closed connections; rows of open connections, once they are 2 s old (or at once if they are
//! older than this run) and later when their state changes; samples of long connections.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::hash_map::{DefaultHasher, Entry};
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::hash::{Hash as _, Hasher as _};

use jiff::Timestamp;
use mpwatch_model::capacity::shrink_map;
use mpwatch_model::flow::connection::Connection;
use mpwatch_model::id::ConnectionId;
use mpwatch_model::snapshot::Snapshot;
use mpwatch_model::unit::Bytes;
use rusqlite::Connection as Database;

use super::earlier::RowNumbers;
use super::end::stop_rates;
use super::limits::Limits;
use super::merge::EarlierRecord;
use super::queue::{Batch, FinalState};
use crate::schema::values::nanos;

/// Minimum age of a long connection, whose counters are sampled. A connection with [`LONG_BYTES`] is long at any age.
const LONG_SECONDS: f64 = 60.0;
const LONG_BYTES: Bytes = Bytes(1_000_000);
/// Age at which an open connection gets a row; most connections close earlier. If mpwatch is killed, younger connections are lost.
const OPEN_ROW_SECONDS: f64 = 2.0;
/// Age of a long connection divided by the time between its samples, which is at most `sample_every`.
const AGE_PER_SAMPLE: f64 = 8.0;
/// Factor on the time between samples for a connection that carries no data, unless it is in an outage.
const IDLE_FACTOR: f64 = 30.0;
/// Time between two checks of whether an idle connection must be written.
const IDLE_CHECK_NS: i64 = 60_000_000_000;

/// The state of a connection that must be written.
pub(crate) struct Change<'a> {
    /// Number of its row.
    pub(crate) number: i64,
    /// The file has no row of it yet.
    pub(crate) is_new: bool,
    pub(crate) connection: Cow<'a, Connection>,
    pub(crate) seen_at: Timestamp,
    /// Its counters are also written as a sample.
    pub(crate) sampled: bool,
    /// Number of runs that observed it.
    pub(crate) runs: i64,
}

/// A connection of the latest snapshot.
#[derive(Default)]
struct Tracked {
    number: i64,
    /// The last batch whose snapshot listed it.
    batch: u64,
    /// Its index in that snapshot.
    index: usize,
    /// Time of the next check while it is idle. 0: it is not idle.
    due_ns: i64,
    /// Whether this run has written its row.
    is_written: bool,
    /// State in its row: see [`state`].
    state: u64,
    /// Time and payload of its last sample.
    sampled: Option<(i64, Bytes)>,
    /// Its record by earlier runs.
    earlier: Option<Box<EarlierRecord>>,
}

impl Tracked {
    fn new((number, earlier): (i64, Option<EarlierRecord>)) -> Self {
        Self { number, earlier: earlier.map(Box::new), ..Self::default() }
    }

    fn change<'a>(
        &self,
        mut connection: Cow<'a, Connection>,
        seen_at: Timestamp,
        sampled: bool,
    ) -> Change<'a> {
        if !connection.is_open() {
            // Later snapshots list it with rates of 0, and this change of the rates must not cause another write.
            stop_rates(connection.to_mut());
        }
        let is_new = !self.is_written && self.earlier.is_none();
        let mut change = Change { number: self.number, is_new, connection, seen_at, sampled, runs: 1 };
        if let Some(earlier) = &self.earlier {
            let (merged, seen_at) = earlier.merge(&change.connection, seen_at);
            change = Change { connection: Cow::Owned(merged), seen_at, runs: earlier.runs, ..change };
        }
        change
    }

    /// The change that its state in a snapshot requires. `before`: its state in the previous snapshot.
    fn in_snapshot<'a>(
        &mut self,
        connection: Cow<'a, Connection>,
        snapshot: &Snapshot,
        before: Option<&Connection>,
        limits: &Limits,
    ) -> Option<Change<'a>> {
        let at = snapshot.at;
        let sampled = connection.is_open() && is_sampled(&connection, snapshot, self.sampled, limits);
        if sampled {
            self.sampled = Some((nanos(at), carried(&connection)));
        }
        let state = state(&connection);
        let is_due = if !connection.is_open() {
            has_changed(before, &connection)
        } else if self.is_written {
            state != self.state
        } else {
            connection.age_s >= OPEN_ROW_SECONDS || !connection.seen_open
        };
        // Excess subflows are written now, because the tracker will drop them.
        if !sampled && !is_due && connection.excess_subflows() == 0 {
            return None;
        }
        (self.is_written, self.state) = (true, state);
        Some(self.change(connection, at, sampled))
    }

    /// Its state in the snapshot of the previous batch. `None`: that snapshot did not list it.
    fn in_previous<'a>(&self, previous: Option<&'a Snapshot>, batch: u64) -> Option<&'a Connection> {
        previous.filter(|_| self.batch + 1 == batch)?.connections.get(self.index)
    }
}

/// The connections of the latest snapshot, and their rows.
pub(crate) struct Changes {
    tracked: HashMap<ConnectionId, Tracked>,
    /// Times of the next checks of idle connections.
    due: BinaryHeap<Reverse<(i64, ConnectionId)>>,
    /// Number of the current batch.
    pub(super) batch: u64,
    rows: RowNumbers,
}

impl Changes {
    pub(crate) fn new(rows: RowNumbers) -> Self {
        Self { tracked: HashMap::new(), due: BinaryHeap::new(), batch: 0, rows }
    }

    /// The changes of a batch. `previous`: the snapshot of the previous batch.
    pub(crate) fn in_batch<'a>(
        &mut self,
        database: &Database,
        batch: &'a Batch,
        previous: Option<&'a Snapshot>,
        limits: &Limits,
    ) -> Vec<Change<'a>> {
        self.batch += 1;
        if self.batch == 1 {
            // A store that was opened late has not listed them.
            for idle in batch.snapshot.idle.iter() {
                let tracked = || Tracked::new(self.rows.assign(database, idle.id()));
                self.tracked.entry(idle.id()).or_insert_with(tracked);
                self.schedule(idle.id(), 1);
            }
        }
        let mut changes = self.replaced(database, &batch.finals, previous);
        changes.extend(self.listed(database, &batch.snapshot, previous, limits));
        for id in &batch.now_idle {
            self.tracked.entry(*id).or_insert_with(|| Tracked::new(self.rows.assign(database, *id)));
            self.schedule(*id, 1);
        }
        if let Some(previous) = previous {
            self.gone(batch, previous, &mut changes);
        }
        self.idle(&batch.snapshot, limits, &mut changes);
        self.rows.loader = None;
        shrink_map(&mut self.tracked);
        changes
    }

    /// The last state of a connection, if it is tracked.
    pub(crate) fn last_state<'a>(
        &self,
        connection: Cow<'a, Connection>,
        at: Timestamp,
    ) -> Option<Change<'a>> {
        Some(self.tracked.get(&connection.id)?.change(connection, at, false))
    }

    pub(super) fn tracks(&self, id: ConnectionId) -> bool {
        self.tracked.contains_key(&id)
    }

    /// Adds `by_ns` to all times, because the calendar was set.
    pub(crate) fn shift(&mut self, by_ns: i64) {
        for tracked in self.tracked.values_mut() {
            if let Some((at_ns, _)) = &mut tracked.sampled {
                *at_ns += by_ns;
            }
            if let Some(earlier) = &mut tracked.earlier {
                earlier.shift(by_ns);
            }
            if tracked.due_ns != 0 {
                tracked.due_ns += by_ns;
            }
        }
        let due = std::mem::take(&mut self.due).into_iter();
        self.due = due.map(|Reverse((due_ns, id))| Reverse((due_ns + by_ns, id))).collect();
    }

    /// The changes for final states that only replaced snapshots contained.
    fn replaced<'a>(
        &mut self,
        database: &Database,
        finals: &'a VecDeque<FinalState>,
        previous: Option<&Snapshot>,
    ) -> Vec<Change<'a>> {
        let mut changes = Vec::new();
        for FinalState { connection, seen_at } in finals {
            let known = self.tracked.remove(&connection.id);
            let before = known.as_ref().and_then(|known| known.in_previous(previous, self.batch));
            if connection.is_open() || has_changed(before, connection) {
                let tracked =
                    known.unwrap_or_else(|| Tracked::new(self.rows.assign(database, connection.id)));
                changes.push(tracked.change(Cow::Borrowed(connection), *seen_at, false));
            }
        }
        changes
    }

    fn listed<'a>(
        &mut self,
        database: &Database,
        snapshot: &'a Snapshot,
        previous: Option<&Snapshot>,
        limits: &Limits,
    ) -> Vec<Change<'a>> {
        let mut changes = Vec::new();
        for (index, connection) in snapshot.connections.iter().enumerate() {
            let (tracked, before) = match self.tracked.entry(connection.id) {
                Entry::Occupied(known) => {
                    let before = known.get().in_previous(previous, self.batch);
                    (known.into_mut(), before)
                }
                Entry::Vacant(free) => {
                    (free.insert(Tracked::new(self.rows.assign(database, connection.id))), None)
                }
            };
            changes.extend(tracked.in_snapshot(Cow::Borrowed(connection), snapshot, before, limits));
            (tracked.index, tracked.batch, tracked.due_ns) = (index, self.batch, 0);
        }
        changes
    }

    /// Connections that only the previous snapshot listed. They are idle, or have disappeared without a final state, because the snapshot
    /// with that state was dropped.
    fn gone<'a>(&mut self, batch: &Batch, previous: &'a Snapshot, changes: &mut Vec<Change<'a>>) {
        for connection in &previous.connections {
            let Entry::Occupied(known) = self.tracked.entry(connection.id) else { continue };
            if known.get().batch == self.batch {
                continue;
            }
            if batch.snapshot.idle.contains(connection.id) {
                self.schedule(connection.id, 1);
            } else {
                let gone = known.remove();
                changes.extend(
                    connection.is_open().then(|| gone.change(Cow::Borrowed(connection), previous.at, false)),
                );
            }
        }
        // Connections that were idle may have ended in a replaced snapshot. Their final states are among `finals`, or were dropped.
        if batch.has_replaced {
            let (current, idle) = (self.batch, &batch.snapshot.idle);
            self.tracked.retain(|id, tracked| tracked.batch == current || idle.contains(*id));
        }
    }

    fn schedule(&mut self, id: ConnectionId, due_ns: i64) {
        if let Some(tracked) = self.tracked.get_mut(&id) {
            tracked.due_ns = due_ns;
            self.due.push(Reverse((due_ns, id)));
        }
    }

    /// Checks idle connections for which a row or a sample may be due.
    fn idle(&mut self, snapshot: &Snapshot, limits: &Limits, changes: &mut Vec<Change<'_>>) {
        let now_ns = nanos(snapshot.at);
        let at = snapshot.boot_time();
        while let Some(Reverse((due_ns, id))) = self.due.peek().copied().filter(|due| due.0.0 <= now_ns) {
            self.due.pop();
            let tracked = self.tracked.get_mut(&id).filter(|tracked| tracked.due_ns == due_ns);
            let (Some(tracked), Some(idle)) = (tracked, snapshot.idle.get(id)) else { continue };
            let connection = idle.connection(at, snapshot.boot_epoch_ns);
            let wait = next_check(&connection, tracked.is_written);
            changes.extend(tracked.in_snapshot(Cow::Owned(connection), snapshot, None, limits));
            self.schedule(id, now_ns + wait);
        }
    }
}

/// Nanoseconds until the next check of an idle connection: when it is old enough for a row or for samples, or after [`IDLE_CHECK_NS`].
#[allow(clippy::cast_possible_truncation, reason = "at most a minute in nanoseconds")]
fn next_check(connection: &Connection, is_written: bool) -> i64 {
    let age = if is_written { LONG_SECONDS } else { OPEN_ROW_SECONDS };
    let wait = (age - connection.age_s) * 1e9;
    if wait > 0.0 { wait.min(IDLE_CHECK_NS as f64) as i64 + 1 } else { IDLE_CHECK_NS }
}

/// A hash that changes after an event, when an outage or the failure of a path begins or ends, and when a connect waits too long.
fn state(connection: &Connection) -> u64 {
    let mut hasher = DefaultHasher::new();
    let waits = !connection.subflows.iter().any(mpwatch_model::flow::subflow::Subflow::is_path)
        && !mpwatch_model::finding::of_connection(connection).is_empty();
    (connection.timeline.last().map(|entry| entry.at), connection.outage_since, waits).hash(&mut hasher);
    connection.subflows.iter().for_each(|subflow| subflow.is_failed().hash(&mut hasher));
    hasher.finish()
}

/// Whether the record of a closed connection differs from its previous state in other values than the rates, which drop to 0 after its end.
fn has_changed(before: Option<&Connection>, now: &Connection) -> bool {
    let without_rates = |connection: &Connection| {
        let mut connection = connection.clone();
        stop_rates(&mut connection);
        connection
    };
    before.is_none_or(|before| before != now && without_rates(before) != without_rates(now))
}

fn carried(connection: &Connection) -> Bytes {
    connection.bytes_sent.unwrap_or_default() + connection.bytes_received.unwrap_or_default()
}

/// Whether to write a sample of an open connection. `sampled`: time and payload of its last sample.
fn is_sampled(
    connection: &Connection,
    snapshot: &Snapshot,
    sampled: Option<(i64, Bytes)>,
    limits: &Limits,
) -> bool {
    let (age_s, carried) = (connection.age_s, carried(connection));
    let is_long = age_s >= LONG_SECONDS || carried >= LONG_BYTES;
    let Some((last_ns, then)) = sampled else { return is_long || limits.sample_step.is_some() };
    let gap = match limits.sample_step {
        // Selects the nearest snapshot, because ticks are some milliseconds early or late.
        Some(step) => step.as_secs_f64() - snapshot.interval_s.unwrap_or(0.0) / 2.0,
        None if !is_long => return false,
        None => {
            let gap = (age_s / AGE_PER_SAMPLE).clamp(0.0, limits.sample_every.as_secs_f64());
            let is_idle = carried == then && connection.outage_since.is_none();
            if is_idle { gap * IDLE_FACTOR } else { gap }
        }
    };
    (nanos(snapshot.at) - last_ns) as f64 / 1e9 >= gap
}
