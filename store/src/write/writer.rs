// SPDX-License-Identifier: MIT OR Apache-2.0
//! Writes each batch of snapshots in one transaction. If that fails, connections wait in the backlog for the next batch.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mpwatch_model::kernel::clock;
use mpwatch_model::snapshot::Snapshot;
use rusqlite::Connection as Database;

use super::backlog::Backlog;
use super::changes::{Change, Changes};
use super::earlier::{RowNumbers, RunStart};
use super::file::DatabaseFile;
use super::limits::{Limits, SharedStatus};
use super::queue::Batch;
use super::run::{ROW_INTERVAL_NS, Run};
use crate::error::{is_full, reason};
use crate::schema::values::nanos;

/// Connections per transaction: with `open::LOG_PAGES`, the log has at most 4 MB while no other program reads the file.
const WRITTEN_AT_ONCE: usize = 500;
/// Time between two attempts to write at the end.
const RETRY_PAUSE: Duration = Duration::from_millis(50);

pub(crate) struct Writer {
    pub(crate) file: DatabaseFile,
    run: Run,
    backlog: Backlog,
    status: Arc<SharedStatus>,
    /// `None` before the first batch.
    changes: Option<Changes>,
    previous: Option<Arc<Snapshot>>,
    /// Whether all rows that earlier runs left open were checked.
    has_ended_rows: bool,
    /// A batch that arrived while the file could not be read.
    unread: Option<Batch>,
}

impl Writer {
    pub(crate) fn new(database: Database, status: Arc<SharedStatus>) -> rusqlite::Result<Self> {
        let (file, run, backlog) = (DatabaseFile::new(database)?, Run::default(), Backlog::default());
        Ok(Self {
            file,
            run,
            backlog,
            status,
            changes: None,
            previous: None,
            has_ended_rows: false,
            unread: None,
        })
    }

    /// Writes the changes of a batch.
    pub(crate) fn write(&mut self, batch: Batch) {
        let limits = self.status.with(|status| status.limits);
        let batch = self.merge_unread(batch, &limits);
        let mut changes =
            match self.follow_clock(&batch.snapshot).and_then(|()| self.changes(&batch.snapshot)) {
                Ok(changes) => changes,
                Err(error) => {
                    // The batch is written later: without the rows of earlier runs, a connection could get a second row.
                    if is_full(&error) {
                        let _ = self.file.enforce_limits(&limits, nanos(batch.snapshot.at));
                    }
                    self.status.with(|status| status.losses.paused = Some(reason(&error)));
                    self.unread = Some(batch);
                    return;
                }
            };
        let snapshot = &batch.snapshot;
        let previous = self.previous.replace(Arc::clone(snapshot));
        let found = changes.in_batch(&self.file.database, &batch, previous.as_deref(), &limits);
        let is_due = |written_ns| nanos(snapshot.at) - written_ns >= ROW_INTERVAL_NS;
        let can_delete = self.save(&found, snapshot, self.run.row_written_ns.is_none_or(is_due));
        self.end_left_open(&changes, snapshot);
        self.changes = Some(changes);
        if can_delete {
            let deleted = self.file.enforce_limits(&limits, nanos(snapshot.at));
            self.status.with(|status| {
                status.figures.retired = self.file.retention.retired;
                // The next batch repeats the deletion.
                if let Err(error) = deleted {
                    let why = || format!("old connections could not be deleted: {}", reason(&error));
                    status.losses.paused.get_or_insert_with(why);
                }
            });
        }
    }

    /// Writes the connections that are still open and closes the file. Repeats failed attempts until the timeout.
    pub(crate) fn finish(mut self, timeout: Duration) {
        let deadline = Instant::now() + timeout;
        while let Some(unread) = self.unread.take_if(|_| Instant::now() < deadline) {
            self.write(unread);
            if self.unread.is_some() {
                std::thread::sleep(RETRY_PAUSE);
            }
        }
        self.run.has_ended = true;
        let has_successor = self.status.with(|status| status.has_successor);
        let previous = self.previous.take();
        if has_successor {
            self.backlog.0.retain(|_, change| !change.connection.is_open());
        }
        if let Some(last) = previous.as_ref().filter(|_| !has_successor) {
            self.write_last_states(last, deadline);
            while self.backlog.len() > 0 && Instant::now() < deadline {
                std::thread::sleep(RETRY_PAUSE);
                self.file.use_reserve();
                self.save(&[], last, true);
            }
        }
        let unread = self.unread.as_ref().map_or(0, |batch| batch.finals.len() + batch.connections());
        let lost = (self.backlog.len() + unread) as u64;
        self.status.with(|status| status.losses.flows_lost += lost);
        if let Some(last) = previous.filter(|_| lost > 0) {
            self.file.reserve_space(0);
            let row = self.status.with(|status| self.run.row(self.file.run, &last, status));
            let _ = self.file.commit(last.at, Some(&row), std::iter::empty(), &Limits::none());
        }
        self.file.merge_log();
    }

    /// Ends rows of connections that ended while mpwatch was not running. The first batch may lack a socket that the kernel's iterator skipped.
    fn end_left_open(&mut self, changes: &Changes, snapshot: &Snapshot) {
        if self.has_ended_rows || changes.batch < 2 || self.backlog.len() > 0 {
            return;
        }
        let Some(at) = self.run.began else { return };
        let start = RunStart { boot_id: snapshot.host.boot_id.clone(), at };
        // After an error, the next batch repeats this.
        let ended = self.file.end_left_open(&start, snapshot, |id| changes.tracks(id));
        self.has_ended_rows = ended.unwrap_or_else(|_| {
            // Their numbers may have been assigned in the transaction that was rolled back.
            self.file.names.forget();
            false
        });
    }

    /// Merges an earlier batch, which arrived while the file could not be read, into this batch.
    fn merge_unread(&mut self, batch: Batch, limits: &Limits) -> Batch {
        let Some(earlier) = self.unread.take() else { return batch };
        let (batch, lost) = batch.replacing(earlier, limits.backlog);
        self.status.with(|status| {
            status.losses.snapshots_dropped += 1;
            status.losses.flows_lost += lost;
        });
        batch
    }

    /// If the calendar was set since the previous batch or run, moves all times of this boot, in the file and in memory.
    fn follow_clock(&mut self, snapshot: &Snapshot) -> rusqlite::Result<()> {
        let Some(by_ns) = self.run.clock_step(snapshot) else { return Ok(()) };
        self.file.follow_clock(snapshot)?;
        self.run.shift(by_ns, snapshot);
        self.backlog.shift(by_ns);
        // Earlier runs can have ended before this one now.
        (self.has_ended_rows, self.file.checked) = (false, 0);
        if let Some(changes) = &mut self.changes {
            changes.shift(by_ns);
        }
        if let Some(previous) = &mut self.previous {
            let previous = Arc::make_mut(previous);
            previous.at = clock::shifted(previous.at, by_ns);
            previous.boot_epoch_ns = snapshot.boot_epoch_ns;
            for connection in &mut previous.connections {
                connection.shift(by_ns);
            }
        }
        Ok(())
    }

    /// Takes the state of changes out of the writer. The first call creates this state.
    fn changes(&mut self, snapshot: &Snapshot) -> rusqlite::Result<Changes> {
        if let Some(changes) = self.changes.take() {
            return Ok(changes);
        }
        let began = self.status.with(|status| status.began).unwrap_or(snapshot.at);
        let start =
            RunStart { boot_id: snapshot.host.boot_id.clone(), at: *self.run.began.get_or_insert(began) };
        Ok(Changes::new(RowNumbers::new(&self.file.database, self.file.run, start)?))
    }

    /// Writes the last states of the connections that are still open. After the deadline, idle connections keep the state of their last row.
    fn write_last_states(&mut self, last: &Snapshot, deadline: Instant) {
        let Some(changes) = self.changes.take() else { return };
        let open = last.connections.iter().filter(|connection| connection.is_open());
        let states = open.filter_map(|open| changes.last_state(Cow::Borrowed(open), last.at));
        self.save(&states.collect::<Vec<_>>(), last, true);
        let idle: Vec<_> = last.idle.iter().collect();
        for part in idle.chunks(WRITTEN_AT_ONCE).take_while(|_| Instant::now() < deadline) {
            let states = part.iter().map(|flow| flow.connection(last.boot_time(), last.boot_epoch_ns));
            let states: Vec<Change<'_>> =
                states.filter_map(|state| changes.last_state(Cow::Owned(state), last.at)).collect();
            self.save(&states, last, false);
        }
    }

    /// Writes the changes and the backlog, or adds the changes to the backlog. Returns whether rows can be deleted now.
    fn save(&mut self, changes: &[Change<'_>], snapshot: &Snapshot, with_run: bool) -> bool {
        for newer in changes {
            self.backlog.0.remove(&newer.number);
        }
        let row = self.status.with(|status| with_run.then(|| self.run.row(self.file.run, snapshot, status)));
        let limits = self.status.with(|status| status.limits);
        let mut changes = changes;
        loop {
            let waiting = self.backlog.len().min(WRITTEN_AT_ONCE);
            let (now, later) = changes.split_at(changes.len().min(WRITTEN_AT_ONCE - waiting));
            let part = self.backlog.0.values().take(waiting).chain(now);
            if let Err(error) = self.file.commit(snapshot.at, row.as_ref(), part, &limits) {
                self.postpone(changes, &error);
                return is_full(&error);
            }
            self.backlog.remove_first(waiting);
            changes = later;
            self.status.with(|status| status.figures.written += (waiting + now.len()) as u64);
            if changes.is_empty() && self.backlog.len() == 0 {
                break;
            }
        }
        let bytes = if with_run { self.file.used_bytes() } else { None };
        if with_run {
            self.run.row_written_ns = Some(nanos(snapshot.at));
        }
        self.status.with(|status| {
            status.figures.waiting = 0;
            status.figures.bytes = bytes.unwrap_or(status.figures.bytes);
            status.losses.paused = None;
            status.is_removed = false;
        });
        true
    }

    fn postpone(&mut self, changes: &[Change<'_>], error: &rusqlite::Error) {
        let limit = self.status.with(|status| status.limits.backlog);
        let lost = self.backlog.add(changes, limit);
        let samples = changes.iter().filter(|change| change.sampled).count() as u64;
        let (waiting, bytes) = (self.backlog.len(), self.file.used_bytes());
        self.status.with(|status| {
            status.figures.waiting = waiting as u64;
            status.figures.bytes = bytes.unwrap_or(status.figures.bytes);
            status.losses.flows_lost += lost;
            status.losses.samples_lost += samples;
            status.is_removed = matches!(error, rusqlite::Error::InvalidPath(_));
            status.losses.paused = Some(format!("{}; {waiting} connections wait", reason(error)));
        });
    }
}
