// SPDX-License-Identifier: MIT OR Apache-2.0
//! Idle connections of a snapshot: connections that did not change for some ticks. Consecutive snapshots share them, and a connection is built
//! only when it is read, so the cost of a snapshot depends on the number of changed connections and not on the number of all connections.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crate::flow::bottleneck::Verdict;
use crate::flow::connection::Connection;
use crate::id::ConnectionId;
use crate::kernel::lifecycle::TcpState;
use crate::unit::Nanos;

/// Number of parts of the collection. A change copies only the part that it changes, and only if an older snapshot shares that part.
const PARTS: usize = 256;

/// A connection that is open and idle.
pub trait IdleConnection: fmt::Debug + Send + Sync {
    /// Its id.
    fn id(&self) -> ConnectionId;

    /// The connection as of this time of the boot clock. `boot_epoch_ns`: calendar time of boot-clock zero.
    fn connection(&self, at: Nanos, boot_epoch_ns: i64) -> Connection;
}

type Part = Arc<BTreeMap<ConnectionId, Arc<dyn IdleConnection>>>;

/// The idle connections of a snapshot, by id. A clone shares the connections.
#[derive(Clone, Debug)]
pub struct IdleConnections {
    parts: Vec<Part>,
    counts: OpenCounts,
    len: usize,
}

impl Default for IdleConnections {
    fn default() -> Self {
        Self { parts: vec![Part::default(); PARTS], counts: OpenCounts::default(), len: 0 }
    }
}

impl PartialEq for IdleConnections {
    fn eq(&self, other: &Self) -> bool {
        let ids = |all: &Self| all.iter().map(|idle| idle.id()).collect::<Vec<_>>();
        self.len == other.len && ids(self) == ids(other)
    }
}

impl IdleConnections {
    /// Number of idle connections.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no idle connections.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether this connection is idle.
    pub fn contains(&self, id: ConnectionId) -> bool {
        self.get(id).is_some()
    }

    /// The idle connection with this id. `None`: it is not idle.
    pub fn get(&self, id: ConnectionId) -> Option<&Arc<dyn IdleConnection>> {
        self.parts[part(id)].get(&id)
    }

    /// All idle connections.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<dyn IdleConnection>> {
        self.parts.iter().flat_map(|part| part.values())
    }

    /// Counts over all idle connections.
    pub fn counts(&self) -> &OpenCounts {
        &self.counts
    }

    /// Adds a connection that has become idle.
    pub fn insert(&mut self, idle: Arc<dyn IdleConnection>) {
        let id = idle.id();
        self.remove(id);
        self.counts.add(&idle.connection(Nanos(0), 0));
        self.len += 1;
        Arc::make_mut(&mut self.parts[part(id)]).insert(id, idle);
    }

    /// Removes a connection that is no longer idle. Its counts are the same at every time, so they are computed for time 0, as by `insert`.
    pub fn remove(&mut self, id: ConnectionId) {
        if !self.contains(id) {
            return;
        }
        if let Some(idle) = Arc::make_mut(&mut self.parts[part(id)]).remove(&id) {
            self.counts.remove(&idle.connection(Nanos(0), 0));
            self.len -= 1;
        }
    }
}

/// Index of the part with this connection. Socket cookies are sequential, so connections spread evenly over the parts.
fn part(id: ConnectionId) -> usize {
    usize::try_from(id.birth.0 % PARTS as u64).unwrap_or(0)
}

/// Counts over connections for the metrics of the machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpenCounts {
    /// Number of open connections by state, in the order of [`TcpState::ALL`].
    pub states: [i64; TcpState::ALL.len()],
    /// Open connections that asked for MPTCP and continue as plain TCP.
    pub fallbacks: i64,
    /// Number of open subflows, including subflows of closed connections.
    pub subflows: i64,
    /// Subflows of open connections beyond one per bottleneck, where known.
    pub extra_subflows: i64,
    /// Number of open connections by the id of their cause, of which a table has about 50.
    pub causes: BTreeMap<Cow<'static, str>, i64>,
    /// Number of pairs of subflows of open connections by verdict, in the order of [`Verdict::ALL`].
    pub pairs: [i64; Verdict::ALL.len()],
}

impl OpenCounts {
    /// Adds a connection to the counts.
    pub fn add(&mut self, connection: &Connection) {
        self.count(connection, 1);
    }

    /// Removes a connection from the counts, after [`OpenCounts::add`].
    pub fn remove(&mut self, connection: &Connection) {
        self.count(connection, -1);
    }

    fn count(&mut self, connection: &Connection, times: i64) {
        let open = connection.subflows.iter().filter(|subflow| subflow.closed.is_none());
        self.subflows += times * i64::try_from(open.count()).unwrap_or(i64::MAX);
        if !connection.is_open() {
            return;
        }
        self.states[connection.state as usize] += times;
        self.fallbacks += times * i64::from(connection.fallback.is_some());
        self.extra_subflows += times * i64::from(connection.extra_subflows.unwrap_or(0));
        if let Some(cause) = &connection.cause {
            *self.causes.entry(cause.id.clone()).or_default() += times;
        }
        for pair in connection.bottlenecks.iter().flat_map(|all| &all.pairs) {
            self.pairs[pair.verdict as usize] += times;
        }
    }
}
