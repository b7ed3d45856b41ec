// SPDX-License-Identifier: MIT OR Apache-2.0
//! The store: every connection and subflow with its finals in an SQLite file, to be asked long after. One thread writes;
//! who has a snapshot hands it over and never waits. What others may read are the views (docs/store.md).

mod archive;
mod names;
mod open;
mod read;
mod retention;
mod row;
mod timeline;
mod write;
mod writer;

#[cfg(test)]
mod tests;

use std::path::Path;
use std::sync::mpsc::{self, SyncSender, TrySendError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use jiff::Timestamp;
use mpwatch_model::snapshot::Snapshot;

pub use archive::{Archive, Period, Sample, Samples};
pub use open::StoreError;
use writer::Writer;

/// What a store may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// How long closed connections are kept. `None`: for ever.
    pub age: Option<Duration>,
    /// How large the file may become, in bytes; then the oldest connections go. `None`: as large as the disk.
    pub bytes: Option<u64>,
    /// Snapshots that may wait for the writer; when there are so many, further ones are dropped and counted.
    pub queue: usize,
    /// Connections that wait in memory while the file cannot be written; further ones are lost and counted.
    pub backlog: usize,
    /// Longest time between two samples of a long flow.
    pub sample_every: Duration,
}

impl Default for Limits {
    /// Seven days, 1 GiB.
    fn default() -> Self {
        Self {
            age: Some(Duration::from_hours(7 * 24)),
            bytes: Some(1 << 30),
            queue: 4,
            backlog: 10_000,
            sample_every: Duration::from_secs(10),
        }
    }
}

impl Limits {
    /// Keeps everything.
    pub fn none() -> Self {
        Self { age: None, bytes: None, ..Self::default() }
    }
}

/// What did not get into the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoreLosses {
    /// Snapshots dropped because the writer was behind. A connection that closed is in two snapshots, so one of them is no loss yet.
    pub snapshots_dropped: u64,
    /// Connections whose last counters are not in the file.
    pub flows_lost: u64,
    /// Samples of long flows that are not in the file.
    pub samples_lost: u64,
    /// Why nothing is written at the moment. `None`: all is well.
    pub paused: Option<String>,
}

/// What the writer tells.
#[derive(Clone, Debug, Default)]
struct Status {
    losses: StoreLosses,
    written: u64,
    retired: u64,
}

/// Seen by both sides.
#[derive(Default)]
struct Shared(Mutex<Status>);

impl Shared {
    fn with<T>(&self, change: impl FnOnce(&mut Status) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

enum Message {
    Began(Timestamp),
    Snapshot(Arc<Snapshot>),
}

/// An open store.
pub struct Store {
    queue: Option<SyncSender<Message>>,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Store {
    /// Opens a file, or makes it, and starts the writer.
    pub fn open(path: &Path, limits: &Limits) -> Result<Self, StoreError> {
        let (database, lock) = open::for_writing(path)?;
        let shared = Arc::new(Shared::default());
        let (queue, messages) = mpsc::sync_channel(limits.queue.max(1));
        let mut writer = Writer::new(database, *limits, Arc::clone(&shared))
            .map_err(|error| StoreError::Read { path: path.to_owned(), why: error.to_string() })?;
        let work = move || {
            // Until the file is closed.
            let _lock = lock;
            for message in messages {
                match message {
                    Message::Began(at) => writer.began(at),
                    Message::Snapshot(snapshot) => writer.take(&snapshot),
                }
            }
            writer.finish();
        };
        let thread = std::thread::Builder::new().name("store".to_owned()).spawn(work).map_err(|error| {
            StoreError::Open {
                path: path.to_owned(),
                why: error.to_string(),
                advice: "the system has no thread left for this user",
            }
        })?;
        Ok(Self { queue: Some(queue), shared, thread: Some(thread) })
    }

    /// When tracing began. Without it a run begins with its first snapshot.
    pub fn began(&self, at: Timestamp) {
        self.send(Message::Began(at));
    }

    /// Hands over a snapshot. Never waits: where the writer is behind, the snapshot is dropped and counted.
    pub fn offer(&self, snapshot: &Arc<Snapshot>) {
        let Some(queue) = &self.queue else { return };
        let outcome = queue.try_send(Message::Snapshot(Arc::clone(snapshot)));
        if matches!(outcome, Err(TrySendError::Full(_))) {
            self.shared.with(|status| status.losses.snapshots_dropped += 1);
        }
    }

    /// Hands over a snapshot, and waits while the writer is behind: for what comes from a file, and can wait.
    pub fn deliver(&self, snapshot: &Arc<Snapshot>) {
        self.send(Message::Snapshot(Arc::clone(snapshot)));
    }

    fn send(&self, message: Message) {
        // The writer ends only after this side.
        let _ = self.queue.as_ref().map(|queue| queue.send(message));
    }

    /// What was lost so far, and whether something is wrong now.
    pub fn losses(&self) -> StoreLosses {
        self.shared.with(|status| status.losses.clone())
    }

    /// Connections whose rows are safe in the file; one that was written again counts again.
    pub fn written(&self) -> u64 {
        self.shared.with(|status| status.written)
    }

    /// Connections deleted to keep the limits of age and size.
    pub fn retired(&self) -> u64 {
        self.shared.with(|status| status.retired)
    }

    /// Writes what is still open, as it was last seen, and closes the file.
    pub fn close(mut self) -> StoreLosses {
        self.end();
        self.losses()
    }

    fn end(&mut self) {
        drop(self.queue.take());
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            let why = "the writer has failed, a bug of mpwatch".to_owned();
            self.shared.with(|status| status.losses.paused = Some(why));
        }
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        self.end();
    }
}
