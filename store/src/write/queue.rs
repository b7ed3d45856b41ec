// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bounded queue of snapshots for the writer. If the writer is behind, a new snapshot replaces the last one in the queue, because open
//! connections need only their newest state. Final states that only the replaced snapshot had are kept with the new one.

use std::collections::{HashSet, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use mpwatch_model::flow::connection::Connection;
use mpwatch_model::id::ConnectionId;
use mpwatch_model::kernel::clock;
use mpwatch_model::snapshot::Snapshot;

use super::limits::Limits;

/// Maximum number of snapshots in the queue, however small.
const MAX_WAITING: usize = 256;

/// The last state of a connection that later snapshots do not contain.
pub(crate) struct FinalState {
    pub(crate) connection: Connection,
    pub(crate) seen_at: Timestamp,
}

/// A snapshot, and what remains of the snapshots that it replaced.
pub(crate) struct Batch {
    pub(crate) snapshot: Arc<Snapshot>,
    /// Final states that only the replaced snapshots had.
    pub(crate) finals: VecDeque<FinalState>,
    /// Connections that the replaced snapshots listed and that have become idle.
    pub(crate) now_idle: Vec<ConnectionId>,
    /// Whether it replaced another snapshot.
    pub(crate) has_replaced: bool,
}

impl Batch {
    pub(crate) fn new(snapshot: &Arc<Snapshot>) -> Self {
        Self {
            snapshot: Arc::clone(snapshot),
            finals: VecDeque::new(),
            now_idle: Vec::new(),
            has_replaced: false,
        }
    }

    /// Number of connections that the snapshot lists. Idle connections do not count, because all snapshots share them.
    pub(crate) fn connections(&self) -> usize {
        self.snapshot.connections.len()
    }

    /// Replaces an earlier batch but keeps at most `max_finals` of its final states. Also returns the number of discarded final states.
    pub(crate) fn replacing(mut self, earlier: Self, max_finals: usize) -> (Self, u64) {
        let here: HashSet<ConnectionId> =
            self.snapshot.connections.iter().map(|connection| connection.id).collect();
        let seen_at = earlier.snapshot.at;
        let missing = earlier.snapshot.connections.iter().filter(|connection| !here.contains(&connection.id));
        let (idle, gone): (Vec<&Connection>, Vec<&Connection>) =
            missing.partition(|connection| self.snapshot.idle.contains(connection.id));
        let gone = gone.into_iter().map(|connection| FinalState { connection: connection.clone(), seen_at });
        self.finals = earlier.finals;
        self.finals.extend(gone);
        self.now_idle = earlier.now_idle;
        self.now_idle.retain(|id| !here.contains(id) && self.snapshot.idle.contains(*id));
        self.now_idle.extend(idle.into_iter().map(|connection| connection.id));
        self.has_replaced = true;
        if let Some(by_ns) = clock::step(earlier.snapshot.boot_epoch_ns, self.snapshot.boot_epoch_ns) {
            for last in &mut self.finals {
                last.connection.shift(by_ns);
                last.seen_at = clock::shifted(last.seen_at, by_ns);
            }
        }
        let lost = self.finals.len().saturating_sub(max_finals);
        self.finals.drain(..lost);
        (self, lost as u64)
    }
}

#[derive(Default)]
struct QueueState {
    waiting: VecDeque<Batch>,
    /// Connections in the waiting snapshots and in the snapshot that is being written.
    connections: usize,
    is_closed: bool,
}

/// The queue between the source of snapshots and the writer.
#[derive(Default)]
pub(crate) struct Queue {
    state: Mutex<QueueState>,
    changed: Condvar,
}

impl Queue {
    fn state(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a snapshot. Never waits. Returns whether it replaced another snapshot, which will not be written, and the number of final states
    /// that were dropped.
    pub(crate) fn offer(&self, snapshot: &Arc<Snapshot>, limits: &Limits) -> (bool, u64) {
        let batch = Batch::new(snapshot);
        let mut state = self.state();
        let has_room = state.waiting.len() < limits.queue.max(1)
            || (state.waiting.len() < MAX_WAITING
                && state.connections + batch.connections() <= limits.backlog);
        let replaced = if has_room { None } else { state.waiting.pop_back() };
        state.connections += batch.connections();
        let (batch, offered) = match replaced {
            None => (batch, (false, 0)),
            Some(earlier) => {
                state.connections -= earlier.connections();
                let (batch, lost) = batch.replacing(earlier, limits.backlog);
                (batch, (true, lost))
            }
        };
        state.waiting.push_back(batch);
        drop(state);
        self.changed.notify_all();
        offered
    }

    /// Adds a snapshot. Waits while the queue is full, unless it is closed.
    pub(crate) fn deliver(&self, snapshot: &Arc<Snapshot>, limits: &Limits) {
        let full = |state: &mut QueueState| state.waiting.len() >= limits.queue.max(1) && !state.is_closed;
        let mut state = self.changed.wait_while(self.state(), full).unwrap_or_else(PoisonError::into_inner);
        state.connections += snapshot.connections.len();
        state.waiting.push_back(Batch::new(snapshot));
        drop(state);
        self.changed.notify_all();
    }

    /// Waits for the next batch and removes it. Its connections count towards the limit until [`Queue::done`]. `None`: the queue is closed and empty.
    pub(crate) fn next(&self) -> Option<Batch> {
        let idle = |state: &mut QueueState| state.waiting.is_empty() && !state.is_closed;
        let mut state = self.changed.wait_while(self.state(), idle).unwrap_or_else(PoisonError::into_inner);
        let batch = state.waiting.pop_front();
        drop(state);
        self.changed.notify_all();
        batch
    }

    /// Marks a batch with this many connections as written.
    pub(crate) fn done(&self, connections: usize) {
        self.state().connections -= connections;
    }

    /// Closes the queue: there is no further snapshot, or no writer.
    pub(crate) fn close(&self) {
        self.state().is_closed = true;
        self.changed.notify_all();
    }
}

/// Closes the queue when it is dropped, also after a panic of its owner.
pub(crate) struct CloseOnDrop(pub(crate) Arc<Queue>);

impl Drop for CloseOnDrop {
    fn drop(&mut self) {
        self.0.close();
    }
}

#[cfg(test)]
mod tests {
    use mpwatch_fixtures as fixture;

    use super::*;

    fn snapshot(connections: Vec<Connection>) -> Arc<Snapshot> {
        Arc::new(fixture::snapshot(connections))
    }

    fn limits(queue: usize, backlog: usize) -> Limits {
        Limits { queue, backlog, ..Limits::none() }
    }

    /// The connections of a batch: final states, and connections of the snapshot.
    fn ids(batch: &Batch) -> (Vec<ConnectionId>, Vec<ConnectionId>) {
        let own = batch.snapshot.connections.iter().map(|connection| connection.id).collect();
        (batch.finals.iter().map(|last| last.connection.id).collect(), own)
    }

    #[test]
    fn a_full_queue_keeps_the_newest_snapshot_and_final_states() {
        let queue = Queue::default();
        let limits = limits(1, 1);
        let [one, two, three, four] = [1, 2, 3, 4].map(|n| fixture::connection(n, 1));
        let offered = [
            vec![one.clone(), two.clone()],
            vec![two.clone(), three.clone()],
            vec![three.clone()],
            vec![four.clone()],
        ]
        .map(|flows| queue.offer(&snapshot(flows), &limits));
        assert_eq!(offered, [(false, 0), (true, 0), (true, 1), (true, 1)]);
        let batch = queue.next().unwrap();
        assert_eq!(ids(&batch), (vec![three.id], vec![four.id]), "the oldest was dropped");
        assert_eq!(queue.offer(&snapshot(vec![one.clone()]), &limits), (false, 0));
        queue.done(batch.connections());
        queue.close();
        assert_eq!(queue.next().map(|batch| ids(&batch)), Some((vec![], vec![one.id])));
        assert!(queue.next().is_none());
    }

    #[test]
    fn small_snapshots_wait_without_being_replaced() {
        let queue = Queue::default();
        for n in 1..=20 {
            let (replaced, _) = queue.offer(&snapshot(vec![fixture::connection(n, 1)]), &limits(4, 20));
            assert!(!replaced, "{n}");
        }
        assert!(queue.offer(&snapshot(vec![fixture::connection(21, 1)]), &limits(4, 20)).0);
    }
}
