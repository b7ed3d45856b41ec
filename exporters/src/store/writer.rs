// SPDX-License-Identifier: MIT OR Apache-2.0
//! The writer: decides what of a snapshot is worth a row, writes it in one transaction, and where that fails keeps it and tries
//! again with the next snapshot. Never ends the process.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use jiff::Timestamp;
use mpwatch_model::connection::Connection as Flow;
use mpwatch_model::id::ConnectionId;
use mpwatch_model::snapshot::Snapshot;
use mpwatch_model::unit::Bytes;
use rusqlite::{Connection, ErrorCode, params};

use super::names::{Known, Names};
use super::retention::Retention;
use super::row::{EventRow, RunRow, SampleRow, insert, insertion, number};
use super::write::{Place, nanos, rows, samples};
use super::{Limits, Shared};

/// From this age on a flow is long, and sampled; so is one that has carried [`LONG_BYTES`].
const LONG_SECONDS: f64 = 60.0;
const LONG_BYTES: Bytes = Bytes(1_000_000);
/// How often what is known of the run itself is written.
const RUN_EVERY_NS: i64 = 10_000_000_000;

/// A connection that is in snapshots now.
struct Followed {
    row: i64,
    /// Its place in the snapshot before.
    place: usize,
    /// The last snapshot that had it.
    turn: u64,
    sampled_ns: Option<i64>,
}

/// A connection to be written.
struct Item<'a> {
    row: i64,
    flow: &'a Flow,
    seen_at: Timestamp,
    sampled: bool,
}

/// Owns the file.
pub(super) struct Writer {
    pub(super) database: Connection,
    limits: Limits,
    shared: Arc<Shared>,
    names: Known,
    retention: Retention,
    run: i64,
    began: Option<Timestamp>,
    run_written_ns: Option<i64>,
    next: i64,
    turn: u64,
    followed: HashMap<ConnectionId, Followed>,
    previous: Option<Arc<Snapshot>>,
    /// What could not be written, by its number.
    backlog: BTreeMap<i64, (Flow, Timestamp)>,
}

impl Writer {
    pub(super) fn new(database: Connection, limits: Limits, shared: Arc<Shared>) -> rusqlite::Result<Self> {
        let following = |table: &str| -> rusqlite::Result<i64> {
            database.query_row(&format!("SELECT ifnull(max(id), 0) + 1 FROM {table}"), [], |row| row.get(0))
        };
        let (run, next) = (following("run")?, following("connection")?);
        Ok(Self {
            database,
            limits,
            shared,
            names: Known::default(),
            retention: Retention::default(),
            run,
            began: None,
            run_written_ns: None,
            next,
            turn: 0,
            followed: HashMap::new(),
            previous: None,
            backlog: BTreeMap::new(),
        })
    }

    pub(super) fn began(&mut self, at: Timestamp) {
        self.began = Some(at);
    }

    /// Takes in a snapshot.
    pub(super) fn take(&mut self, snapshot: &Arc<Snapshot>) {
        self.turn += 1;
        self.began.get_or_insert(snapshot.at);
        let previous = self.previous.replace(Arc::clone(snapshot));
        let mut items = self.changes(snapshot, previous.as_deref());
        if let Some(previous) = &previous {
            items.extend(self.gone(previous));
        }
        let due = self.run_written_ns.is_none_or(|last| nanos(snapshot.at) - last >= RUN_EVERY_NS);
        self.save(&items, snapshot, due);
        if self.backlog.is_empty() {
            self.retire(nanos(snapshot.at));
        }
    }

    /// What is still open stays as it was last seen; the file is closed in order.
    pub(super) fn finish(mut self) {
        if let Some(last) = self.previous.take() {
            let open = last.connections.iter().filter(|flow| flow.is_open()).filter_map(|flow| {
                let row = self.followed.get(&flow.id)?.row;
                Some(Item { row, flow, seen_at: last.at, sampled: false })
            });
            let open: Vec<Item<'_>> = open.collect();
            self.save(&open, &last, true);
        }
        let lost = self.backlog.len() as u64;
        self.shared.with(|status| status.losses.flows_lost += lost);
        // Nothing of this is needed for what was committed to be safe.
        let _ = self.database.execute_batch("PRAGMA optimize; PRAGMA wal_checkpoint(TRUNCATE);");
    }

    /// Closed connections as soon as they are seen and whenever more is known of them, long ones from time to time.
    fn changes<'a>(&mut self, snapshot: &'a Snapshot, previous: Option<&Snapshot>) -> Vec<Item<'a>> {
        let mut items = Vec::new();
        for (place, flow) in snapshot.connections.iter().enumerate() {
            let next = &mut self.next;
            let mut is_new = false;
            let followed = self.followed.entry(flow.id).or_insert_with(|| {
                is_new = true;
                *next += 1;
                Followed { row: *next - 1, place, turn: 0, sampled_ns: None }
            });
            let before =
                previous.and_then(|previous| previous.connections.get(followed.place)).filter(|_| !is_new);
            let sampled = flow.is_open()
                && is_long(flow)
                && is_due(flow, nanos(snapshot.at), followed.sampled_ns, &self.limits);
            if sampled {
                followed.sampled_ns = Some(nanos(snapshot.at));
            }
            if sampled || (!flow.is_open() && before != Some(flow)) {
                items.push(Item { row: followed.row, flow, seen_at: snapshot.at, sampled });
            }
            (followed.place, followed.turn) = (place, self.turn);
        }
        items
    }

    /// Connections that are in no snapshot any more. Their last picture has been written, unless the one in which they were closed
    /// was dropped.
    fn gone<'a>(&mut self, previous: &'a Snapshot) -> Vec<Item<'a>> {
        let turn = self.turn;
        let mut items = Vec::new();
        self.followed.retain(|_, followed| {
            let is_here = followed.turn == turn;
            if let Some(flow) = previous.connections.get(followed.place).filter(|f| !is_here && f.is_open()) {
                items.push(Item { row: followed.row, flow, seen_at: previous.at, sampled: false });
            }
            is_here
        });
        items
    }

    /// Writes these, and what waits; or lets all of it wait.
    fn save(&mut self, items: &[Item<'_>], snapshot: &Snapshot, with_run: bool) {
        for item in items {
            self.backlog.remove(&item.row);
        }
        let written = (items.len() + self.backlog.len()) as u64;
        match self.commit(items, snapshot, with_run) {
            Ok(()) => {
                self.backlog.clear();
                if with_run {
                    self.run_written_ns = Some(nanos(snapshot.at));
                }
                self.shared.with(|status| {
                    status.written += written;
                    status.losses.paused = None;
                });
            }
            Err(error) => self.postpone(items, &error),
        }
    }

    fn postpone(&mut self, items: &[Item<'_>], error: &rusqlite::Error) {
        // Numbers that were given in what was rolled back mean nothing.
        self.names = Known::default();
        for item in items {
            self.backlog.insert(item.row, (item.flow.clone(), item.seen_at));
        }
        let mut lost = 0;
        while self.backlog.len() > self.limits.backlog {
            self.backlog.pop_first();
            lost += 1;
        }
        let samples = items.iter().filter(|item| item.sampled).count() as u64;
        let waiting = self.backlog.len();
        self.shared.with(|status| {
            status.losses.flows_lost += lost;
            status.losses.samples_lost += samples;
            status.losses.paused = Some(format!("{}; {waiting} connections wait for it", reason(error)));
        });
    }

    fn commit(&mut self, items: &[Item<'_>], snapshot: &Snapshot, with_run: bool) -> rusqlite::Result<()> {
        let transaction = self.database.unchecked_transaction()?;
        if with_run {
            let run = self.run_row(snapshot)?;
            insert(&mut *insertion::<RunRow>(&transaction)?, &run)?;
        } else {
            transaction
                .prepare_cached("UPDATE run SET to_ns = ? WHERE id = ?")?
                .execute(params![nanos(snapshot.at), self.run])?;
        }
        let waiting = self.backlog.iter().map(|(&row, (flow, seen_at))| Item {
            row,
            flow,
            seen_at: *seen_at,
            sampled: false,
        });
        let mut tables = Tables::of(&transaction)?;
        let mut names = Names { database: &transaction, known: &mut self.names };
        for item in waiting {
            tables.write(&item, self.run, &mut names)?;
        }
        for item in items {
            tables.write(item, self.run, &mut names)?;
        }
        drop(tables);
        transaction.commit()
    }

    fn run_row(&self, snapshot: &Snapshot) -> rusqlite::Result<RunRow> {
        let host = &snapshot.host;
        let losses = self.shared.with(|status| status.losses.clone());
        Ok(RunRow {
            id: self.run,
            host: host.name.clone(),
            boot_id: host.boot_id.clone(),
            kernel: host.kernel.clone(),
            mpwatch: host.mpwatch.clone(),
            from_ns: nanos(self.began.unwrap_or(snapshot.at)),
            to_ns: nanos(snapshot.at),
            missing: json(&host.missing)?,
            losses: json(&snapshot.losses)?,
            counters: json(&snapshot.counters)?,
            cpus: snapshot.cpus.as_ref().map(json).transpose()?,
            energy: snapshot.energy.as_ref().map(json).transpose()?,
            snapshots_dropped: number(losses.snapshots_dropped),
            flows_lost: number(losses.flows_lost),
            samples_lost: number(losses.samples_lost),
        })
    }

    fn retire(&mut self, now_ns: i64) {
        match self.retention.enforce(&self.database, &self.limits, now_ns, &mut self.names) {
            Ok(0) => {}
            Ok(retired) => self.shared.with(|status| status.retired += retired),
            // Nothing is lost by it; the next time may be better.
            Err(error) => self.shared.with(|status| {
                status.losses.paused =
                    Some(format!("old connections could not be deleted: {}", reason(&error)));
            }),
        }
    }
}

pub(super) fn json(value: &impl serde::Serialize) -> rusqlite::Result<String> {
    serde_json::to_string(value).map_err(|error| rusqlite::Error::ToSqlConversionFailure(Box::new(error)))
}

/// Words for what keeps the store from writing.
fn reason(error: &rusqlite::Error) -> String {
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => "the disk is full".to_owned(),
        Some(ErrorCode::ReadOnly) => "the file may not be written any more".to_owned(),
        _ => error.to_string(),
    }
}

fn is_long(flow: &Flow) -> bool {
    let carried = flow.bytes_sent.unwrap_or_default() + flow.bytes_received.unwrap_or_default();
    flow.age_s >= LONG_SECONDS || carried >= LONG_BYTES
}

/// The younger a flow, the sooner its next sample: an eighth of its age, up to the limit.
fn is_due(flow: &Flow, now_ns: i64, sampled_ns: Option<i64>, limits: &Limits) -> bool {
    let gap = (flow.age_s / 8.0).clamp(0.0, limits.sample_every.as_secs_f64());
    sampled_ns.is_none_or(|last| (now_ns - last) as f64 / 1e9 >= gap)
}

/// The insertions of a transaction.
struct Tables<'a> {
    database: &'a Connection,
    connection: rusqlite::CachedStatement<'a>,
    subflow: rusqlite::CachedStatement<'a>,
}

impl<'a> Tables<'a> {
    fn of(database: &'a Connection) -> rusqlite::Result<Self> {
        Ok(Self {
            database,
            connection: insertion::<super::row::ConnectionRow>(database)?,
            subflow: insertion::<super::row::SubflowRow>(database)?,
        })
    }

    fn write(&mut self, item: &Item<'_>, run: i64, names: &mut Names<'_>) -> rusqlite::Result<()> {
        let place = Place { run, connection: item.row, seen_at: item.seen_at };
        let rows = rows(item.flow, place, names)?;
        insert(&mut self.connection, &rows.connection)?;
        for subflow in &rows.subflows {
            insert(&mut self.subflow, subflow)?;
        }
        if !rows.events.is_empty() {
            // An earlier picture may have had more of them: what is a flag now was none before.
            self.database.prepare_cached("DELETE FROM event WHERE connection = ?")?.execute([item.row])?;
            let mut insertion = insertion::<EventRow>(self.database)?;
            for event in &rows.events {
                insert(&mut insertion, event)?;
            }
        }
        if item.sampled {
            let mut insertion = insertion::<SampleRow>(self.database)?;
            for sample in samples(item.flow, place) {
                insert(&mut insertion, &sample)?;
            }
        }
        Ok(())
    }
}
