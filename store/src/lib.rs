// SPDX-License-Identifier: MIT OR Apache-2.0
//! The store: every connection and subflow with its finals in an SQLite file, to be asked long after. One thread writes;
//! who has a snapshot hands it over and never waits. What others may read are the views (docs/store.md).

mod archive;
mod continued;
mod merge;
mod names;
mod open;
mod queue;
mod read;
mod retention;
mod row;
mod tables;
mod timeline;
mod verdicts;
mod write;
mod writer;

#[cfg(test)]
mod tests;

use std::path::Path;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use jiff::Timestamp;
use mpwatch_model::snapshot::Snapshot;

pub use archive::{Archive, Period};
pub use continued::Beginning;
pub use open::StoreError;
use queue::{EndsWith, Offered, Queue};
use writer::Writer;

/// What a store may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// How long closed connections are kept. `None`: for ever.
    pub age: Option<Duration>,
    /// How large the file may become, in bytes; then the oldest connections go. `None`: as large as the disk.
    pub bytes: Option<u64>,
    /// Snapshots that may wait for the writer, whatever is in them; more may as long as all that wait have no more connections than
    /// `backlog`. A further one takes the place of the last that waits, which is counted.
    pub queue: usize,
    /// Connections that wait in memory: the last pictures of those that are gone from a snapshot that another took the place of, and, as
    /// many again, all while the file cannot be written. Further ones are lost and counted.
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
            backlog: 20_000,
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
    /// Snapshots that another took the place of because the writer was behind: their samples of long flows are missing, no connection.
    pub snapshots_dropped: u64,
    /// Connections whose last counters are not in the file.
    pub flows_lost: u64,
    /// Samples of long flows that are not in the file.
    pub samples_lost: u64,
    /// Why nothing is written at the moment. `None`: all is well.
    pub paused: Option<String>,
}

/// How a store is doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreFigures {
    /// Connections whose rows are safe in the file; one that was written again counts again.
    pub written: u64,
    /// Connections deleted to keep the limits of age and size.
    pub retired: u64,
    /// Connections that wait in memory because the file cannot be written.
    pub waiting: u64,
    /// Bytes of the file that hold something; looked at every ten seconds.
    pub bytes: u64,
}

/// What both sides tell each other.
#[derive(Clone, Debug, Default)]
struct Status {
    limits: Limits,
    began: Option<Timestamp>,
    losses: StoreLosses,
    written: u64,
    retired: u64,
    waiting: u64,
    bytes: u64,
    /// How long writing at the end may take.
    farewell: Option<Duration>,
}

/// Seen by both sides.
#[derive(Default)]
struct Shared(Mutex<Status>);

impl Shared {
    fn with<T>(&self, change: impl FnOnce(&mut Status) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// An open store.
pub struct Store {
    queue: EndsWith,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    /// Closes when the writer is done.
    done: Receiver<()>,
}

/// How long writing at the end is tried where nobody says.
const FAREWELL: Duration = Duration::from_secs(5);
/// What closing the file may take after that.
const PAUSE: Duration = Duration::from_millis(700);

impl Store {
    /// Opens a file, or makes it, and starts the writer. The run begins with its first snapshot.
    pub fn open(path: &Path, limits: &Limits) -> Result<Self, StoreError> {
        Self::open_run(path, limits, None)
    }

    /// As [`Store::open`], for a run of which is known when it began. One that the file has already is refused.
    pub fn open_run(path: &Path, limits: &Limits, run: Option<&Beginning>) -> Result<Self, StoreError> {
        let (database, lock) = open::for_writing(path)?;
        let unreadable =
            |error: rusqlite::Error| StoreError::Read { path: path.to_owned(), why: error.to_string() };
        if let Some(run) = run
            && let Some(known) = continued::number_of(&database, run).map_err(unreadable)?
        {
            return Err(StoreError::Known { path: path.to_owned(), run: known, began: run.at });
        }
        let shared = Arc::new(Shared(Mutex::new(Status {
            limits: *limits,
            began: run.map(|run| run.at),
            ..Status::default()
        })));
        let queue = Arc::new(Queue::default());
        let (is_done, done) = mpsc::sync_channel(0);
        let mut writer = Writer::new(database, Arc::clone(&shared)).map_err(unreadable)?;
        let (for_writer, loads) = (Arc::clone(&shared), EndsWith(Arc::clone(&queue)));
        let work = move || {
            // Until the file is closed.
            let (_is_done, _lock) = (is_done, lock);
            while let Some(load) = loads.0.next() {
                let connections = load.connections();
                writer.take(load);
                loads.0.done(connections);
            }
            writer.finish(for_writer.with(|status| status.farewell).unwrap_or(FAREWELL));
        };
        let thread =
            std::thread::Builder::new().name("mpwatch-store".to_owned()).spawn(work).map_err(|error| {
                StoreError::Open {
                    path: path.to_owned(),
                    why: error.to_string(),
                    advice: "the system has no thread left for this user",
                    passes: false,
                }
            })?;
        Ok(Self { queue: EndsWith(queue), shared, thread: Some(thread), done })
    }

    /// When tracing began, before the first snapshot.
    pub fn began(&self, at: Timestamp) {
        self.shared.with(|status| status.began = Some(at));
    }

    /// Other limits from the next snapshot on; the length of the queue stays.
    pub fn limit(&self, limits: &Limits) {
        self.shared.with(|status| status.limits = *limits);
    }

    /// Hands over a snapshot. Never waits: where the writer is behind, it takes the place of the last one that waits, with what that one
    /// alone had.
    pub fn offer(&self, snapshot: &Arc<Snapshot>) {
        let limits = self.shared.with(|status| status.limits);
        let Offered { took_place, lost } = self.queue.0.offer(snapshot, &limits);
        self.shared.with(|status| {
            status.losses.snapshots_dropped += u64::from(took_place);
            status.losses.flows_lost += lost;
        });
    }

    /// Hands over a snapshot, and waits while the writer is behind: for what comes from a file, and can wait.
    pub fn deliver(&self, snapshot: &Arc<Snapshot>) {
        let limits = self.shared.with(|status| status.limits);
        self.queue.0.deliver(snapshot, &limits);
    }

    /// What was lost so far, and whether something is wrong now.
    pub fn losses(&self) -> StoreLosses {
        self.shared.with(|status| status.losses.clone())
    }

    /// How it is doing.
    pub fn figures(&self) -> StoreFigures {
        let of = |status: &mut Status| {
            let Status { written, retired, waiting, bytes, .. } = *status;
            StoreFigures { written, retired, waiting, bytes }
        };
        self.shared.with(of)
    }

    /// Writes what is still open, as it was last seen, and closes the file.
    pub fn close(mut self) -> StoreLosses {
        self.end();
        self.losses()
    }

    /// As [`Store::close`], within so long. A writer that is held up longer is left behind, with what it still had: what it has
    /// committed is safe.
    pub fn close_within(mut self, patience: Duration) -> StoreLosses {
        self.shared.with(|status| status.farewell = Some(patience));
        self.queue.0.end();
        if self.done.recv_timeout(patience + PAUSE) == Err(RecvTimeoutError::Timeout) {
            drop(self.thread.take());
            self.shared.with(|status| {
                status.losses.flows_lost += status.waiting;
                status.losses.paused.get_or_insert_with(|| "the writer is held up".to_owned());
            });
        }
        self.end();
        self.losses()
    }

    fn end(&mut self) {
        self.queue.0.end();
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
