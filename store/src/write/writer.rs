// SPDX-License-Identifier: MIT OR Apache-2.0
//! Writes each batch in one transaction. If that fails, connections wait in memory until the next batch. Never ends the process.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use mpwatch_model::flow::connection::Connection;
use mpwatch_model::host::machine::Losses;
use mpwatch_model::kernel::clock;
use mpwatch_model::snapshot::Snapshot;
use rusqlite::{Connection as Database, params};

use super::changes::{Change, Changes};
use super::clock::shift_run;
use super::earlier::EarlierRuns;
use super::limits::{Limits, SharedStatus};
use super::queue::Batch;
use super::retention::{Retention, used_bytes};
use crate::error::reason;
use crate::lock::{identity, is_still};
use crate::schema::names::{KnownNames, Names};
use crate::schema::record::Key;
use crate::schema::rows::{RunRow, UNFINISHED};
use crate::schema::sql::{Insertion, Insertions};
use crate::schema::values::{json, nanos};

/// How often the row of the run is written.
const RUN_INTERVAL_NS: i64 = 10_000_000_000;
/// The changes of a run are numbered from its own number times this: no number is used twice, and none has to be looked up.
const CHANGES_PER_RUN: i64 = 1 << 36;
/// At the end, so many idle connections are written at once.
const IDLE_AT_ONCE: usize = 1_000;
/// Pause between two attempts to write at the end.
const RETRY_PAUSE: Duration = Duration::from_millis(50);

/// A connection that waits to be written.
struct Pending {
    flow: Connection,
    seen_at: Timestamp,
    runs: i64,
}

/// Owns the file.
pub(crate) struct Writer {
    pub(crate) database: Database,
    path: PathBuf,
    file: Option<(u64, u64)>,
    status: Arc<SharedStatus>,
    names: KnownNames,
    retention: Retention,
    run: i64,
    began: Option<Timestamp>,
    /// By which calendar the times of this run are dated.
    boot_epoch_ns: Option<i64>,
    run_written_ns: Option<i64>,
    next_number: i64,
    next_change: i64,
    /// Set with the first batch.
    changes: Option<Changes>,
    previous: Option<Arc<Snapshot>>,
    /// A batch that came before the file could be read.
    unread: Option<Batch>,
    /// Connections that could not be written, by number.
    backlog: BTreeMap<i64, Pending>,
    /// All snapshots have come.
    is_ending: bool,
}

impl Writer {
    pub(crate) fn new(database: Database, status: Arc<SharedStatus>) -> rusqlite::Result<Self> {
        let following = |table: &str| -> rusqlite::Result<i64> {
            database.query_row(&format!("SELECT ifnull(max(id), 0) + 1 FROM {table}"), [], |row| row.get(0))
        };
        let (run, next_number) = (following("run")?, following("connection")?);
        let path = PathBuf::from(database.path().unwrap_or_default());
        let file = std::fs::metadata(&path).ok().map(|metadata| identity(&metadata));
        Ok(Self {
            database,
            path,
            file,
            status,
            names: KnownNames::default(),
            retention: Retention::default(),
            run,
            began: None,
            boot_epoch_ns: None,
            run_written_ns: None,
            next_number,
            next_change: run.saturating_mul(CHANGES_PER_RUN),
            changes: None,
            previous: None,
            unread: None,
            backlog: BTreeMap::new(),
            is_ending: false,
        })
    }

    /// Writes the changes of a batch.
    pub(crate) fn take(&mut self, batch: Batch) {
        let limits = self.status.with(|status| status.limits);
        let batch = self.with_unread(batch, &limits);
        let changes = self.follow_clock(&batch.snapshot).and_then(|()| self.changes(&batch.snapshot));
        let mut changes = match changes {
            Ok(changes) => changes,
            Err(error) => {
                // Without the earlier runs a connection could get a second row.
                self.status.with(|status| status.losses.paused = Some(reason(&error)));
                self.unread = Some(batch);
                return;
            }
        };
        let snapshot = &batch.snapshot;
        let previous = self.previous.replace(Arc::clone(snapshot));
        let found = changes.of(&self.database, &batch, previous.as_deref(), &limits);
        let due = self.run_written_ns.is_none_or(|last| nanos(snapshot.at) - last >= RUN_INTERVAL_NS);
        self.save(&found, snapshot, due);
        self.changes = Some(changes);
        if self.backlog.is_empty() {
            self.retire(nanos(snapshot.at), &limits);
        }
    }

    /// Merges the previous batch into this one, if the file could not be read then.
    fn with_unread(&mut self, batch: Batch, limits: &Limits) -> Batch {
        let Some(earlier) = self.unread.take() else { return batch };
        let (batch, lost) = batch.replacing(earlier, limits.backlog);
        self.status.with(|status| {
            status.losses.snapshots_dropped += 1;
            status.losses.flows_lost += lost;
        });
        batch
    }

    /// If the calendar was set since the previous batch, moves all times of this run, in the file and in memory.
    fn follow_clock(&mut self, snapshot: &Snapshot) -> rusqlite::Result<()> {
        let before = *self.boot_epoch_ns.get_or_insert(snapshot.boot_epoch_ns);
        let Some(by_ns) = clock::step(before, snapshot.boot_epoch_ns) else { return Ok(()) };
        self.next_change += 1;
        shift_run(&self.database, self.run, by_ns, self.next_change)?;
        self.boot_epoch_ns = Some(snapshot.boot_epoch_ns);
        self.began = self.began.map(|at| clock::shifted(at, by_ns));
        self.run_written_ns = None;
        if let Some(changes) = &mut self.changes {
            changes.shift(by_ns);
        }
        for pending in self.backlog.values_mut() {
            pending.flow.shift(by_ns);
            pending.seen_at = clock::shifted(pending.seen_at, by_ns);
        }
        if let Some(previous) = &mut self.previous {
            let previous = Arc::make_mut(previous);
            previous.at = clock::shifted(previous.at, by_ns);
            previous.boot_epoch_ns = snapshot.boot_epoch_ns;
            for flow in &mut previous.connections {
                flow.shift(by_ns);
            }
        }
        Ok(())
    }

    /// The state of changes; the first call reads the connections that earlier runs left open.
    fn changes(&mut self, snapshot: &Snapshot) -> rusqlite::Result<Changes> {
        if let Some(changes) = self.changes.take() {
            return Ok(changes);
        }
        let began = self.status.with(|status| status.began);
        let began = nanos(*self.began.get_or_insert(began.unwrap_or(snapshot.at)));
        let earlier = EarlierRuns::of(&self.database, &snapshot.host.boot_id, began)?;
        Ok(Changes::new(self.next_number, earlier))
    }

    /// Writes the connections that are still open and closes the file in order. Tries again until the timeout.
    pub(crate) fn finish(mut self, timeout: Duration) {
        let end = Instant::now() + timeout;
        while let Some(unread) = self.unread.take_if(|_| Instant::now() < end) {
            self.take(unread);
            if self.unread.is_some() {
                std::thread::sleep(RETRY_PAUSE);
            }
        }
        self.is_ending = true;
        if let Some(last) = self.previous.take() {
            let open = self.changes.as_ref().map(|changes| changes.of_open(&last)).unwrap_or_default();
            self.save(&open, &last, true);
            let idle: Vec<_> = last.idle.iter().collect();
            // Without the time for it, they keep the state of their last sample.
            for part in idle.chunks(IDLE_AT_ONCE).take_while(|_| Instant::now() < end) {
                let flows = part.iter().map(|one| one.connection(last.boot_time(), last.boot_epoch_ns));
                let state = |flow| self.changes.as_ref()?.last_state(Cow::Owned(flow), last.at);
                let part: Vec<Change<'_>> = flows.filter_map(state).collect();
                self.save(&part, &last, false);
            }
            while !self.backlog.is_empty() && Instant::now() < end {
                std::thread::sleep(RETRY_PAUSE);
                self.save(&[], &last, true);
            }
        }
        let unread = self.unread.as_ref().map_or(0, |batch| batch.finals.len() + batch.connections());
        let lost = (self.backlog.len() + unread) as u64;
        self.status.with(|status| status.losses.flows_lost += lost);
        // What was committed is safe without this.
        let _ = self.database.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)");
    }

    /// Writes the changes and the backlog, or keeps all of it in the backlog.
    fn save(&mut self, changes: &[Change<'_>], snapshot: &Snapshot, with_run: bool) {
        for change in changes {
            self.backlog.remove(&change.number);
        }
        let written = (changes.len() + self.backlog.len()) as u64;
        match self.commit(changes, snapshot, with_run) {
            Ok(()) => {
                self.backlog.clear();
                let bytes = if with_run { used_bytes(&self.database).ok() } else { None };
                if with_run {
                    self.run_written_ns = Some(nanos(snapshot.at));
                }
                self.status.with(|status| {
                    status.figures.written += written;
                    status.figures.waiting = 0;
                    status.figures.bytes = bytes.map_or(status.figures.bytes, i64::unsigned_abs);
                    status.losses.paused = None;
                });
            }
            Err(error) => self.postpone(changes, &error),
        }
    }

    fn postpone(&mut self, changes: &[Change<'_>], error: &rusqlite::Error) {
        // Their numbers were given in a transaction that was rolled back.
        self.names.forget();
        for Change { number, flow, seen_at, runs, .. } in changes {
            let pending = Pending { flow: flow.as_ref().clone(), seen_at: *seen_at, runs: *runs };
            self.backlog.insert(*number, pending);
        }
        let most = self.status.with(|status| status.limits.backlog);
        let mut lost = 0;
        while self.backlog.len() > most {
            self.backlog.pop_first();
            lost += 1;
        }
        let samples = changes.iter().filter(|change| change.sampled).count() as u64;
        let waiting = self.backlog.len();
        self.status.with(|status| {
            status.figures.waiting = waiting as u64;
            status.losses.flows_lost += lost;
            status.losses.samples_lost += samples;
            status.losses.paused = Some(format!("{}; {waiting} connections wait", reason(error)));
        });
    }

    fn commit(
        &mut self,
        changes: &[Change<'_>],
        snapshot: &Snapshot,
        with_run: bool,
    ) -> rusqlite::Result<()> {
        // SQLite would go on writing a file that has no name any more.
        self.check_file()?;
        let run_row = if with_run { Some(self.run_row(snapshot)?) } else { None };
        let transaction = self.database.unchecked_transaction()?;
        let names = &mut Names { database: &transaction, known: &mut self.names };
        if let Some(row) = run_row {
            Insertion::new::<RunRow>(&transaction)?.insert(&row, names)?;
        } else {
            let update = "UPDATE run SET to_ns = ? WHERE id = ?";
            transaction.prepare_cached(update)?.execute(params![nanos(snapshot.at), self.run])?;
        }
        let waiting = self.backlog.iter().map(|(&number, pending)| {
            let Pending { flow, seen_at, runs } = pending;
            let flow = Cow::Borrowed(flow);
            Change { number, is_new: false, flow, seen_at: *seen_at, sampled: false, runs: *runs }
        });
        let waiting: Vec<Change<'_>> = waiting.collect();
        let mut insertions = Insertions::new(&transaction)?;
        for Change { number, is_new, flow, seen_at, sampled, runs } in waiting.iter().chain(changes) {
            self.next_change += 1;
            let (run, number) = (self.run, *number);
            let key = Key { id: number, run, runs: *runs, seen_at: *seen_at, changed: self.next_change };
            insertions.write(flow, key, *is_new, names)?;
            if *sampled {
                insertions.write_samples(flow, key, names)?;
            }
        }
        drop(insertions);
        transaction.commit()?;
        // Removed meanwhile: what was just committed is in no file. If the file comes back, its rows are written
        // once more, which changes nothing but the count of lost samples.
        self.check_file()
    }

    /// Fails if the file was removed or another took its name.
    fn check_file(&self) -> rusqlite::Result<()> {
        let is_there = self.file.is_some_and(|file| is_still(&self.path, file));
        if is_there { Ok(()) } else { Err(rusqlite::Error::InvalidPath(self.path.clone())) }
    }

    fn run_row(&self, snapshot: &Snapshot) -> rusqlite::Result<RunRow> {
        let (host, setup) = (&snapshot.host, &snapshot.setup);
        let (losses, cut_short) =
            self.status.with(|status| (status.losses.clone(), status.cut_short.clone()));
        Ok(RunRow {
            id: self.run,
            host: host.name.clone(),
            boot_id: host.boot_id.clone(),
            kernel: host.kernel.clone(),
            mpwatch: host.mpwatch.clone(),
            clock_error: host.clock_error,
            from: self.began.unwrap_or(snapshot.at),
            to: snapshot.at,
            missing: json(&host.missing)?,
            // Losses of the store have columns.
            losses: json(&Losses {
                store_snapshots_dropped: 0,
                store_flows_lost: 0,
                store_samples_lost: 0,
                ..snapshot.losses
            })?,
            counters: json(&snapshot.counters)?,
            cpus: snapshot.cpus.as_ref().map(json).transpose()?,
            energy: snapshot.energy.as_ref().map(json).transpose()?,
            snapshots_dropped: losses.snapshots_dropped,
            flows_lost: losses.flows_lost,
            samples_lost: losses.samples_lost,
            labels: json(&setup.labels)?,
            interval: setup.interval_ms,
            cpu_model: setup.cpu_model.clone(),
            governor: setup.governor.clone(),
            sysctls: json(&setup.mptcp_sysctls)?,
            cut_short: if self.is_ending { cut_short } else { Some(UNFINISHED.to_owned()) },
        })
    }

    fn retire(&mut self, now_ns: i64, limits: &Limits) {
        match self.retention.enforce(&self.database, limits, now_ns, &mut self.names) {
            Ok(0) => {}
            Ok(retired) => self.status.with(|status| status.figures.retired += retired),
            // Not fatal: the next batch tries again.
            Err(error) => self.status.with(|status| {
                let why = reason(&error);
                status.losses.paused = Some(format!("old connections could not be deleted: {why}"));
            }),
        }
    }
}
