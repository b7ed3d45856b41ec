// SPDX-License-Identifier: MIT OR Apache-2.0
//! Decides what of a snapshot is written: closed connections at once, open ones when they are not short, samples of long ones at times.

use std::borrow::Cow;
use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};

use jiff::Timestamp;
use mpwatch_model::capacity::shrink_map;
use mpwatch_model::connection::Connection as Flow;
use mpwatch_model::id::ConnectionId;
use mpwatch_model::snapshot::Snapshot;
use mpwatch_model::unit::Bytes;
use rusqlite::Connection;

use crate::earlier::EarlierRuns;
use crate::limits::Limits;
use crate::merge::EarlierRecord;
use crate::queue::{Batch, FinalState};
use crate::values::nanos;

/// A connection of this age or of [`LONG_BYTES`] is long: its counters are sampled.
const LONG_SECONDS: f64 = 60.0;
const LONG_BYTES: Bytes = Bytes(1_000_000);
/// Age from which an open connection has a row, which a killed writer has then recorded.
const OPEN_ROW_SECONDS: f64 = 10.0;
/// Factor by which a connection that carries nothing is sampled less often.
const IDLE_FACTOR: f64 = 30.0;

/// A connection to be written.
pub(crate) struct Change<'a> {
    /// Number of its row.
    pub(crate) number: i64,
    /// The file has no row of it yet.
    pub(crate) is_new: bool,
    pub(crate) flow: Cow<'a, Flow>,
    pub(crate) seen_at: Timestamp,
    /// Its counters are written as a sample, too.
    pub(crate) sampled: bool,
    /// Runs that have seen it.
    pub(crate) runs: i64,
}

/// A connection of the latest snapshot.
struct Tracked {
    number: i64,
    /// Its index in that snapshot.
    index: usize,
    /// The last turn whose snapshot contained it.
    turn: u64,
    /// This run has written its row.
    is_written: bool,
    /// Time of its last sample, and its payload then.
    sampled: Option<(i64, Bytes)>,
    /// Its record by earlier runs.
    earlier: Option<Box<EarlierRecord>>,
}

impl Tracked {
    fn change<'a>(&self, flow: &'a Flow, seen_at: Timestamp, sampled: bool) -> Change<'a> {
        let is_new = !self.is_written && self.earlier.is_none();
        let change =
            Change { number: self.number, is_new, flow: Cow::Borrowed(flow), seen_at, sampled, runs: 1 };
        let Some(earlier) = &self.earlier else { return change };
        let (flow, seen_at) = earlier.merge(flow, seen_at);
        Change { flow: Cow::Owned(flow), seen_at, runs: earlier.runs + 1, ..change }
    }
}

/// Gives a row to each connection that this run has not seen before.
struct Rows {
    next_number: i64,
    earlier: EarlierRuns,
}

impl Rows {
    /// The row of an earlier run, or a new one.
    fn of(&mut self, database: &Connection, id: ConnectionId) -> Tracked {
        let (number, earlier) = if let Some((number, earlier)) = self.earlier.find(database, id) {
            (number, Some(Box::new(earlier)))
        } else {
            self.next_number += 1;
            (self.next_number - 1, None)
        };
        Tracked { number, index: 0, turn: 0, is_written: false, sampled: None, earlier }
    }
}

/// The connections of the latest snapshot, and their rows.
pub(crate) struct Changes {
    tracked: HashMap<ConnectionId, Tracked>,
    turn: u64,
    rows: Rows,
}

impl Changes {
    /// `next_number`: number of the first new connection.
    pub(crate) fn new(next_number: i64, earlier: EarlierRuns) -> Self {
        Self { tracked: HashMap::new(), turn: 0, rows: Rows { next_number, earlier } }
    }

    /// The changes that a batch writes. `previous`: the snapshot of the batch before.
    pub(crate) fn of<'a>(
        &mut self,
        database: &Connection,
        batch: &'a Batch,
        previous: Option<&'a Snapshot>,
        limits: &Limits,
    ) -> Vec<Change<'a>> {
        self.turn += 1;
        let mut changes = self.of_replaced(database, &batch.finals, previous);
        changes.extend(self.of_snapshot(database, &batch.snapshot, previous, limits));
        if let Some(previous) = previous {
            self.of_gone(previous, &mut changes);
        }
        changes
    }

    /// Every connection that is still open.
    pub(crate) fn of_open<'a>(&self, last: &'a Snapshot) -> Vec<Change<'a>> {
        let open = last.connections.iter().filter(|flow| flow.is_open());
        open.filter_map(|flow| Some(self.tracked.get(&flow.id)?.change(flow, last.at, false))).collect()
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
        }
    }

    /// Final states that only the replaced snapshots contained.
    fn of_replaced<'a>(
        &mut self,
        database: &Connection,
        finals: &'a VecDeque<FinalState>,
        previous: Option<&Snapshot>,
    ) -> Vec<Change<'a>> {
        let mut changes = Vec::new();
        for FinalState { flow, seen_at } in finals {
            let known = self.tracked.remove(&flow.id);
            let before = known.as_ref().and_then(|known| previous?.connections.get(known.index));
            if before != Some(flow) || flow.is_open() {
                let tracked = known.unwrap_or_else(|| self.rows.of(database, flow.id));
                changes.push(tracked.change(flow, *seen_at, false));
            }
        }
        changes
    }

    fn of_snapshot<'a>(
        &mut self,
        database: &Connection,
        snapshot: &'a Snapshot,
        previous: Option<&Snapshot>,
        limits: &Limits,
    ) -> Vec<Change<'a>> {
        let mut changes = Vec::new();
        let now_ns = nanos(snapshot.at);
        for (index, flow) in snapshot.connections.iter().enumerate() {
            let (tracked, before) = match self.tracked.entry(flow.id) {
                Entry::Occupied(known) => {
                    let known = known.into_mut();
                    let before = previous.and_then(|previous| previous.connections.get(known.index));
                    (known, before)
                }
                Entry::Vacant(free) => (free.insert(self.rows.of(database, flow.id)), None),
            };
            let sampled = flow.is_open() && is_long(flow) && is_due(flow, now_ns, tracked.sampled, limits);
            if sampled {
                tracked.sampled = Some((now_ns, carried(flow)));
            }
            let needs_row = !tracked.is_written && flow.age_s >= OPEN_ROW_SECONDS;
            if sampled || needs_row || (!flow.is_open() && before != Some(flow)) {
                changes.push(tracked.change(flow, snapshot.at, sampled));
                tracked.is_written = true;
            }
            (tracked.index, tracked.turn) = (index, self.turn);
        }
        changes
    }

    /// Connections that disappeared without a final state, because the snapshot in which they were closed was dropped.
    fn of_gone<'a>(&mut self, previous: &'a Snapshot, changes: &mut Vec<Change<'a>>) {
        let turn = self.turn;
        self.tracked.retain(|_, tracked| {
            let is_here = tracked.turn == turn;
            let gone = previous.connections.get(tracked.index).filter(|flow| !is_here && flow.is_open());
            changes.extend(gone.map(|flow| tracked.change(flow, previous.at, false)));
            is_here
        });
        shrink_map(&mut self.tracked);
    }
}

fn carried(flow: &Flow) -> Bytes {
    flow.bytes_sent.unwrap_or_default() + flow.bytes_received.unwrap_or_default()
}

fn is_long(flow: &Flow) -> bool {
    flow.age_s >= LONG_SECONDS || carried(flow) >= LONG_BYTES
}

/// A sample is due after an eighth of the connection's age, at most `sample_every`; much later if it carried nothing.
fn is_due(flow: &Flow, now_ns: i64, sampled: Option<(i64, Bytes)>, limits: &Limits) -> bool {
    let gap = (flow.age_s / 8.0).clamp(0.0, limits.sample_every.as_secs_f64());
    sampled.is_none_or(|(last_ns, then)| {
        let gap = if carried(flow) == then { gap * IDLE_FACTOR } else { gap };
        (now_ns - last_ns) as f64 / 1e9 >= gap
    })
}
