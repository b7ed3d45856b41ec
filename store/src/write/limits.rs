// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a store may take, and how it is doing.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;

/// Limits of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// How long closed connections are kept. `None`: for ever.
    pub age: Option<Duration>,
    /// How large the file may become, in bytes; then the oldest connections are deleted. `None`: as large as the disk.
    pub bytes: Option<u64>,
    /// Snapshots that may wait for the writer; more if together they have at most `backlog` connections. Further ones replace the last.
    pub queue: usize,
    /// Connections that may wait in memory: final states from replaced snapshots, and as many again while the file cannot be written.
    pub backlog: usize,
    /// Maximum time between two samples of a long connection.
    pub sample_every: Duration,
    /// Time between two samples of every open connection, if snapshots are as frequent. `None`: `sample_every` and the age of a connection
    /// decide.
    pub sample_step: Option<Duration>,
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
            sample_step: None,
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
    /// Snapshots that were replaced because the writer was behind: their samples of long connections are missing, no connection.
    pub snapshots_dropped: u64,
    /// Connections whose last counters are not in the file.
    pub flows_lost: u64,
    /// Samples of long connections that are not in the file.
    pub samples_lost: u64,
    /// Why nothing can be written now. `None`: all is well.
    pub paused: Option<String>,
}

/// How a store is doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreFigures {
    /// Connections whose rows are committed; one that was written again counts again.
    pub written: u64,
    /// Connections deleted to keep the limits of age and size.
    pub retired: u64,
    /// Connections that wait in memory because the file cannot be written.
    pub waiting: u64,
    /// Bytes of the file in use; updated every ten seconds.
    pub bytes: u64,
}

/// What the store and its writer report to each other.
#[derive(Clone, Debug, Default)]
pub(crate) struct Status {
    pub(crate) limits: Limits,
    /// When tracing began, if that is known before the first snapshot.
    pub(crate) began: Option<Timestamp>,
    pub(crate) losses: StoreLosses,
    pub(crate) figures: StoreFigures,
    /// Why the source of the snapshots ended too early.
    pub(crate) cut_short: Option<String>,
    /// How long writing at the end may take.
    pub(crate) close_timeout: Option<Duration>,
}

/// The status, which the store and its writer both change.
#[derive(Default)]
pub(crate) struct SharedStatus(Mutex<Status>);

impl SharedStatus {
    pub(crate) fn new(status: Status) -> Self {
        Self(Mutex::new(status))
    }

    pub(crate) fn with<T>(&self, change: impl FnOnce(&mut Status) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
