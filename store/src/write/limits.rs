// SPDX-License-Identifier: MIT OR Apache-2.0
//! Limits and status of a store.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;

/// Limits of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum age of closed connections. `None`: unlimited.
    pub age: Option<Duration>,
    /// Maximum size of the file in bytes. If it is larger, the oldest connections are deleted. `None`: unlimited.
    pub bytes: Option<u64>,
    /// Maximum number of snapshots that wait for the writer. More may wait if together they have at most `backlog` connections. Beyond both
    /// limits, a new snapshot replaces the last one.
    pub queue: usize,
    /// Maximum number of connections that wait in memory: this many final states from replaced snapshots, and this many connections that
    /// could not be written.
    pub backlog: usize,
    /// Maximum time between two samples of a long connection.
    pub sample_every: Duration,
    /// Time between two samples of every open connection, at least the time between snapshots. `None`: it depends on `sample_every` and the
    /// age of the connection.
    pub sample_step: Option<Duration>,
}

impl Default for Limits {
    /// Keeps closed connections for seven days, and the file below 1 GiB.
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

/// Data that the file does not contain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoreLosses {
    /// Snapshots that were replaced because the writer was behind. Their samples of long connections are missing, but not their connections.
    pub snapshots_dropped: u64,
    /// Connections whose last counters are not in the file.
    pub flows_lost: u64,
    /// Samples of long connections that are not in the file.
    pub samples_lost: u64,
    /// Why nothing can be written now. `None`: no error.
    pub paused: Option<String>,
}

/// Figures of a store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreFigures {
    /// Connections whose rows were committed; each write of a connection counts.
    pub written: u64,
    /// Connections that were deleted because of the limits of age and size.
    pub retired: u64,
    /// Connections that wait in memory because the file cannot be written.
    pub waiting: u64,
    /// Bytes of the file in use, and of its log; updated every ten seconds.
    pub bytes: u64,
}

/// State that the store and its writer share.
#[derive(Clone, Debug, Default)]
pub(crate) struct Status {
    pub(crate) limits: Limits,
    /// When tracing began. `None`: at the first snapshot.
    pub(crate) began: Option<Timestamp>,
    pub(crate) losses: StoreLosses,
    pub(crate) figures: StoreFigures,
    /// The file was removed or replaced.
    pub(crate) is_removed: bool,
    /// Another store gets the connections that are open at the end.
    pub(crate) has_successor: bool,
    /// Why the source of snapshots ended prematurely. `None`: it did not.
    pub(crate) cut_short: Option<String>,
    /// Maximum duration of writing at the end. `None`: the default.
    pub(crate) close_timeout: Option<Duration>,
}

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
