// SPDX-License-Identifier: MIT OR Apache-2.0
//! Decides what of a snapshot is written: closed connections at once, open ones when they are not short, samples of long ones at times.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::hash_map::Entry;
use std::collections::{BinaryHeap, HashMap, VecDeque};

use jiff::Timestamp;
use mpwatch_model::capacity::shrink_map;
use mpwatch_model::flow::connection::Connection;
use mpwatch_model::id::ConnectionId;
use mpwatch_model::snapshot::Snapshot;
use mpwatch_model::unit::Bytes;
use rusqlite::Connection as Database;

use super::earlier::EarlierRuns;
use super::limits::Limits;
use super::merge::EarlierRecord;
use super::queue::{Batch, FinalState};
use crate::schema::values::nanos;

/// A connection of this age or of [`LONG_BYTES`] is long: its counters are sampled.
const LONG_SECONDS: f64 = 60.0;
const LONG_BYTES: Bytes = Bytes(1_000_000);
/// Age from which an open connection has a row, which a killed writer has then recorded.
const OPEN_ROW_SECONDS: f64 = 10.0;
/// Factor by which a connection that carries nothing is sampled less often.
const IDLE_FACTOR: f64 = 30.0;
/// An idle connection is read again after this time, to find out whether it must be written.
const IDLE_CHECK_NS: i64 = 60_000_000_000;

/// A connection to be written.
pub(crate) struct Change<'a> {
    /// Number of its row.
    pub(crate) number: i64,
    /// The file has no row of it yet.
    pub(crate) is_new: bool,
    pub(crate) flow: Cow<'a, Connection>,
    pub(crate) seen_at: Timestamp,
    /// Its counters are written as a sample, too.
    pub(crate) sampled: bool,
    /// Runs that have seen it.
    pub(crate) runs: i64,
}

/// A connection of the latest snapshot.
struct Tracked {
    number: i64,
    /// The last turn whose snapshot listed it, and its index there.
    turn: u64,
    index: usize,
    /// When to read it again while it is idle. 0: it is not idle.
    due_ns: i64,
    /// This run has written its row.
    is_written: bool,
    /// Time of its last sample, and its payload then.
    sampled: Option<(i64, Bytes)>,
    /// Its record by earlier runs.
    earlier: Option<Box<EarlierRecord>>,
}

impl Tracked {
    fn change<'a>(&self, flow: Cow<'a, Connection>, seen_at: Timestamp, sampled: bool) -> Change<'a> {
        let is_new = !self.is_written && self.earlier.is_none();
        let Some(earlier) = &self.earlier else {
            return Change { number: self.number, is_new, flow, seen_at, sampled, runs: 1 };
        };
        let (flow, seen_at) = earlier.merge(&flow, seen_at);
        let (flow, runs) = (Cow::Owned(flow), earlier.runs + 1);
        Change { number: self.number, is_new, flow, seen_at, sampled, runs }
    }

    /// What is written of its state in a snapshot. `before`: its state in the snapshot before, if that listed it.
    fn in_snapshot<'a>(
        &mut self,
        flow: Cow<'a, Connection>,
        snapshot: &Snapshot,
        before: Option<&Connection>,
        limits: &Limits,
    ) -> Option<Change<'a>> {
        let at = snapshot.at;
        let sampled = flow.is_open() && is_sampled(&flow, snapshot, self.sampled, limits);
        if sampled {
            self.sampled = Some((nanos(at), carried(&flow)));
        }
        let needs_row = !self.is_written && flow.age_s >= OPEN_ROW_SECONDS;
        let is_written = sampled || needs_row || (!flow.is_open() && before != Some(&*flow));
        let change = is_written.then(|| self.change(flow, at, sampled));
        self.is_written |= is_written;
        change
    }

    /// Its state in the snapshot of the turn before this one, if that listed it.
    fn listed_before<'a>(&self, previous: Option<&'a Snapshot>, turn: u64) -> Option<&'a Connection> {
        previous.filter(|_| self.turn + 1 == turn)?.connections.get(self.index)
    }
}

/// Gives a row to each connection that this run has not seen before.
struct Rows {
    next_number: i64,
    earlier: EarlierRuns,
}

impl Rows {
    /// The row of an earlier run, or a new one.
    fn of(&mut self, database: &Database, id: ConnectionId) -> Tracked {
        let (number, earlier) = if let Some((number, earlier)) = self.earlier.find(database, id) {
            (number, Some(Box::new(earlier)))
        } else {
            self.next_number += 1;
            (self.next_number - 1, None)
        };
        Tracked { number, index: 0, turn: 0, due_ns: 0, is_written: false, sampled: None, earlier }
    }
}

/// The connections of the latest snapshot, and their rows.
pub(crate) struct Changes {
    tracked: HashMap<ConnectionId, Tracked>,
    /// When to read which idle connection again.
    due: BinaryHeap<Reverse<(i64, ConnectionId)>>,
    turn: u64,
    rows: Rows,
}

impl Changes {
    /// `next_number`: number of the first new connection.
    pub(crate) fn new(next_number: i64, earlier: EarlierRuns) -> Self {
        Self { tracked: HashMap::new(), due: BinaryHeap::new(), turn: 0, rows: Rows { next_number, earlier } }
    }

    /// The changes that a batch writes. `previous`: the snapshot of the batch before.
    pub(crate) fn of<'a>(
        &mut self,
        database: &Database,
        batch: &'a Batch,
        previous: Option<&'a Snapshot>,
        limits: &Limits,
    ) -> Vec<Change<'a>> {
        self.turn += 1;
        let mut changes = self.of_replaced(database, &batch.finals, previous);
        changes.extend(self.of_snapshot(database, &batch.snapshot, previous, limits));
        for id in &batch.idle_since {
            if !self.tracked.contains_key(id) {
                self.tracked.insert(*id, self.rows.of(database, *id));
            }
            self.schedule(*id, 1);
        }
        if let Some(previous) = previous {
            self.of_gone(batch, previous, &mut changes);
        }
        self.of_idle(&batch.snapshot, limits, &mut changes);
        shrink_map(&mut self.tracked);
        changes
    }

    /// Every connection that the last snapshot lists as open.
    pub(crate) fn of_open<'a>(&self, last: &'a Snapshot) -> Vec<Change<'a>> {
        let open = last.connections.iter().filter(|flow| flow.is_open());
        open.filter_map(|flow| self.last_state(Cow::Borrowed(flow), last.at)).collect()
    }

    /// The last state of a connection, if it is tracked.
    pub(crate) fn last_state<'a>(&self, flow: Cow<'a, Connection>, at: Timestamp) -> Option<Change<'a>> {
        Some(self.tracked.get(&flow.id)?.change(flow, at, false))
    }

    /// The calendar was set: moves what is known of connections and the times of their samples.
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

    /// Final states that only the replaced snapshots contained.
    fn of_replaced<'a>(
        &mut self,
        database: &Database,
        finals: &'a VecDeque<FinalState>,
        previous: Option<&Snapshot>,
    ) -> Vec<Change<'a>> {
        let mut changes = Vec::new();
        for FinalState { flow, seen_at } in finals {
            let known = self.tracked.remove(&flow.id);
            let before = known.as_ref().and_then(|known| known.listed_before(previous, self.turn));
            if before != Some(flow) || flow.is_open() {
                let tracked = known.unwrap_or_else(|| self.rows.of(database, flow.id));
                changes.push(tracked.change(Cow::Borrowed(flow), *seen_at, false));
            }
        }
        changes
    }

    fn of_snapshot<'a>(
        &mut self,
        database: &Database,
        snapshot: &'a Snapshot,
        previous: Option<&Snapshot>,
        limits: &Limits,
    ) -> Vec<Change<'a>> {
        let mut changes = Vec::new();
        for (index, flow) in snapshot.connections.iter().enumerate() {
            let (tracked, before) = match self.tracked.entry(flow.id) {
                Entry::Occupied(known) => {
                    let before = known.get().listed_before(previous, self.turn);
                    (known.into_mut(), before)
                }
                Entry::Vacant(free) => (free.insert(self.rows.of(database, flow.id)), None),
            };
            changes.extend(tracked.in_snapshot(Cow::Borrowed(flow), snapshot, before, limits));
            (tracked.index, tracked.turn, tracked.due_ns) = (index, self.turn, 0);
        }
        changes
    }

    /// Connections that the snapshot before listed and this one does not: they are idle, or have disappeared without a final state, because
    /// the snapshot in which they were closed was dropped.
    fn of_gone<'a>(&mut self, batch: &Batch, previous: &'a Snapshot, changes: &mut Vec<Change<'a>>) {
        for flow in &previous.connections {
            let Entry::Occupied(known) = self.tracked.entry(flow.id) else { continue };
            if known.get().turn == self.turn {
                continue;
            }
            if batch.snapshot.idle.contains(flow.id) {
                self.schedule(flow.id, 1);
            } else {
                let gone = known.remove();
                changes.extend(flow.is_open().then(|| gone.change(Cow::Borrowed(flow), previous.at, false)));
            }
        }
        // Those that were idle before have final states among the replaced snapshots, unless there was no room.
        if batch.has_replaced {
            let (turn, idle) = (self.turn, &batch.snapshot.idle);
            self.tracked.retain(|id, tracked| tracked.turn == turn || idle.contains(*id));
        }
    }

    fn schedule(&mut self, id: ConnectionId, due_ns: i64) {
        if let Some(tracked) = self.tracked.get_mut(&id) {
            tracked.due_ns = due_ns;
            self.due.push(Reverse((due_ns, id)));
        }
    }

    /// Idle connections of which a row or a sample may be due.
    fn of_idle(&mut self, snapshot: &Snapshot, limits: &Limits, changes: &mut Vec<Change<'_>>) {
        let now_ns = nanos(snapshot.at);
        let at = snapshot.boot_time();
        while let Some(Reverse((due_ns, id))) = self.due.peek().copied().filter(|due| due.0.0 <= now_ns) {
            self.due.pop();
            let tracked = self.tracked.get_mut(&id).filter(|tracked| tracked.due_ns == due_ns);
            let (Some(tracked), Some(idle)) = (tracked, snapshot.idle.get(id)) else { continue };
            let flow = idle.connection(at, snapshot.boot_epoch_ns);
            let wait = next_check(&flow, tracked.is_written);
            changes.extend(tracked.in_snapshot(Cow::Owned(flow), snapshot, None, limits));
            self.schedule(id, now_ns + wait);
        }
    }
}

/// When to read an idle connection again: when it is old enough for a row or for samples, or after the usual time.
#[allow(clippy::cast_possible_truncation, reason = "at most a minute in nanoseconds")]
fn next_check(flow: &Connection, is_written: bool) -> i64 {
    let age = if is_written { LONG_SECONDS } else { OPEN_ROW_SECONDS };
    let wait = (age - flow.age_s) * 1e9;
    if wait > 0.0 { wait.min(IDLE_CHECK_NS as f64) as i64 + 1 } else { IDLE_CHECK_NS }
}

fn carried(flow: &Connection) -> Bytes {
    flow.bytes_sent.unwrap_or_default() + flow.bytes_received.unwrap_or_default()
}

fn is_long(flow: &Connection) -> bool {
    flow.age_s >= LONG_SECONDS || carried(flow) >= LONG_BYTES
}

/// Whether a sample of an open connection is written. `sampled`: its last one.
fn is_sampled(
    flow: &Connection,
    snapshot: &Snapshot,
    sampled: Option<(i64, Bytes)>,
    limits: &Limits,
) -> bool {
    let now_ns = nanos(snapshot.at);
    let Some(step) = limits.sample_step else {
        return is_long(flow) && is_due(flow, now_ns, sampled, limits);
    };
    // The nearest snapshot: ticks are some milliseconds early or late.
    let gap = step.as_secs_f64() - snapshot.interval_s.unwrap_or(0.0) / 2.0;
    sampled.is_none_or(|(last_ns, _)| (now_ns - last_ns) as f64 / 1e9 >= gap)
}

/// A sample is due after an eighth of the connection's age, at most `sample_every`; much later if it carried nothing.
fn is_due(flow: &Connection, now_ns: i64, sampled: Option<(i64, Bytes)>, limits: &Limits) -> bool {
    let gap = (flow.age_s / 8.0).clamp(0.0, limits.sample_every.as_secs_f64());
    sampled.is_none_or(|(last_ns, then)| {
        let gap = if carried(flow) == then { gap * IDLE_FACTOR } else { gap };
        (now_ns - last_ns) as f64 / 1e9 >= gap
    })
}
