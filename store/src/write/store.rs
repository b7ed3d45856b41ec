// SPDX-License-Identifier: MIT OR Apache-2.0
//! An open store. It passes snapshots to the thread that writes the file.

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::Duration;

use jiff::Timestamp;
use mpwatch_model::snapshot::Snapshot;

use super::earlier::{self, RunStart};
use super::limits::{Limits, SharedStatus, Status, StoreFigures, StoreLosses};
use super::queue::{CloseOnDrop, Queue};
use super::writer::Writer;
use crate::error::StoreError;
use crate::open;

/// Default maximum duration of writing at the end.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);
/// Additional time for closing the file after that.
const CLOSE_MARGIN: Duration = Duration::from_millis(700);

/// An open store.
pub struct Store {
    queue: CloseOnDrop,
    status: Arc<SharedStatus>,
    thread: Option<JoinHandle<()>>,
    /// Disconnected when the writer has finished.
    done: Receiver<()>,
}

impl Store {
    /// Opens a file, or creates it, and starts the writer. The run begins with its first snapshot.
    pub fn open(path: &Path, limits: &Limits) -> Result<Self, StoreError> {
        Self::open_run(path, limits, None)
    }

    /// As [`Store::open`], for a run whose start is known. Fails if the file already contains this run.
    pub fn open_run(path: &Path, limits: &Limits, run: Option<&RunStart>) -> Result<Self, StoreError> {
        let (database, lock) = open::for_writing(path)?;
        let unreadable = |error: rusqlite::Error| StoreError::read(path, &error);
        if let Some(run) = run
            && let Some(number) = earlier::number_of(&database, run).map_err(unreadable)?
        {
            return Err(StoreError::duplicate(path, number, run.at));
        }
        let began = run.map(|run| run.at);
        let status = Arc::new(SharedStatus::new(Status { limits: *limits, began, ..Status::default() }));
        let queue = Arc::new(Queue::default());
        let (is_done, done) = mpsc::sync_channel(0);
        let mut writer = Writer::new(database, Arc::clone(&status)).map_err(unreadable)?;
        let (of_writer, batches) = (Arc::clone(&status), CloseOnDrop(Arc::clone(&queue)));
        let work = move || {
            // Drops both only after the file is closed.
            let (_is_done, _lock) = (is_done, lock);
            while let Some(batch) = batches.0.next() {
                let connections = batch.connections();
                writer.write(batch);
                batches.0.done(connections);
            }
            writer.finish(of_writer.with(|status| status.close_timeout).unwrap_or(CLOSE_TIMEOUT));
        };
        let thread = std::thread::Builder::new().name("mpwatch-store".to_owned()).spawn(work);
        let advice = "this user may not start more threads";
        let thread = thread.map_err(|error| StoreError::refused(path, error, advice))?;
        Ok(Self { queue: CloseOnDrop(queue), status, thread: Some(thread), done })
    }

    /// Sets when tracing began. Must be called before the first snapshot.
    pub fn set_began(&self, at: Timestamp) {
        self.status.with(|status| status.began = Some(at));
    }

    /// Marks the run as incomplete for this reason, because the source of snapshots ended prematurely.
    pub fn set_cut_short(&self, reason: &str) {
        self.status.with(|status| status.cut_short = Some(reason.to_owned()));
    }

    /// Sets new limits, which apply from the next snapshot on.
    pub fn set_limits(&self, limits: &Limits) {
        self.status.with(|status| status.limits = *limits);
    }

    /// Passes a snapshot to the writer without waiting. If the writer is behind, this snapshot replaces the last one in the queue, whose final
    /// states are kept.
    pub fn offer(&self, snapshot: &Arc<Snapshot>) {
        let limits = self.status.with(|status| status.limits);
        let (replaced, lost) = self.queue.0.offer(snapshot, &limits);
        self.status.with(|status| {
            status.losses.snapshots_dropped += u64::from(replaced);
            status.losses.flows_lost += lost;
        });
    }

    /// Passes a snapshot to the writer, and waits while the writer is behind. For snapshots from a recording.
    pub fn deliver(&self, snapshot: &Arc<Snapshot>) {
        let limits = self.status.with(|status| status.limits);
        self.queue.0.deliver(snapshot, &limits);
    }

    /// Data lost so far, and whether the store is paused.
    pub fn losses(&self) -> StoreLosses {
        self.status.with(|status| status.losses.clone())
    }

    /// Closes the store of a file that was removed or replaced. A new store of the same source gets the open connections, so they are not lost.
    pub fn close_removed(self) -> StoreLosses {
        self.status.with(|status| status.has_successor = true);
        self.close_within(Duration::ZERO)
    }

    /// Whether the file was removed or replaced.
    pub fn is_removed(&self) -> bool {
        self.status.with(|status| status.is_removed)
    }

    /// Figures of the store.
    pub fn figures(&self) -> StoreFigures {
        self.status.with(|status| status.figures)
    }

    /// Writes the connections that are still open and closes the file.
    pub fn close(mut self) -> StoreLosses {
        self.join();
        self.losses()
    }

    /// As [`Store::close`], with a timeout. After the timeout, the store abandons the writer and the connections that it has not written.
    /// Committed rows are safe.
    pub fn close_within(mut self, timeout: Duration) -> StoreLosses {
        self.status.with(|status| status.close_timeout = Some(timeout));
        self.queue.0.close();
        if self.done.recv_timeout(timeout + CLOSE_MARGIN) == Err(RecvTimeoutError::Timeout) {
            drop(self.thread.take());
            self.status.with(|status| {
                status.losses.flows_lost += status.figures.waiting;
                status.losses.paused.get_or_insert_with(|| "the writer is blocked".to_owned());
            });
        }
        self.join();
        self.losses()
    }

    fn join(&mut self) {
        self.queue.0.close();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            let why = "the writer panicked: a bug in mpwatch".to_owned();
            self.status.with(|status| status.losses.paused = Some(why));
        }
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        self.join();
    }
}
