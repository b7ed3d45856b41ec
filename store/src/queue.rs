// SPDX-License-Identifier: MIT OR Apache-2.0
//! What waits for the writer: snapshots, in order and bounded. Where the writer is behind, a new snapshot takes the place of the last one
//! that waits and takes over what that one alone had: the last pictures of connections that are gone. Of open ones the newest picture
//! is all that a file needs.

use std::collections::{HashSet, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use mpwatch_model::connection::Connection as Flow;
use mpwatch_model::id::ConnectionId;
use mpwatch_model::snapshot::Snapshot;

use super::Limits;

/// Snapshots that wait at most, however little is in them.
const LONGEST: usize = 256;

/// The last picture of a connection that is in no later snapshot.
pub(super) struct Last {
    pub(super) flow: Flow,
    pub(super) seen_at: Timestamp,
}

/// A snapshot, and what only those before it had whose place it took.
pub(super) struct Load {
    pub(super) snapshot: Arc<Snapshot>,
    pub(super) lasts: VecDeque<Last>,
}

impl Load {
    pub(super) fn of(snapshot: &Arc<Snapshot>) -> Self {
        Self { snapshot: Arc::clone(snapshot), lasts: VecDeque::new() }
    }

    /// How many the snapshot has.
    pub(super) fn connections(&self) -> usize {
        self.snapshot.connections.len()
    }

    /// This one, with all that is needed of an earlier one, and how many connections of that there was no room for.
    pub(super) fn after(mut self, earlier: Self, most: usize) -> (Self, u64) {
        let here: HashSet<ConnectionId> = self.snapshot.connections.iter().map(|flow| flow.id).collect();
        let seen_at = earlier.snapshot.at;
        let gone = earlier.snapshot.connections.iter().filter(|flow| !here.contains(&flow.id));
        let gone = gone.map(|flow| Last { flow: flow.clone(), seen_at });
        self.lasts = earlier.lasts;
        self.lasts.extend(gone);
        let too_many = self.lasts.len().saturating_sub(most);
        self.lasts.drain(..too_many);
        (self, too_many as u64)
    }
}

/// What became of a snapshot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Offered {
    /// Whether it took the place of one that the writer will not see.
    pub(super) took_place: bool,
    /// Connections of that one whose last picture there was no room for.
    pub(super) lost: u64,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Load>,
    /// Connections in the snapshots that wait, and in the one that is being written.
    connections: usize,
    is_over: bool,
}

/// Between who has snapshots and the writer.
#[derive(Default)]
pub(super) struct Queue {
    state: Mutex<State>,
    changed: Condvar,
}

impl Queue {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands over a snapshot. Never waits.
    pub(super) fn offer(&self, snapshot: &Arc<Snapshot>, limits: &Limits) -> Offered {
        let load = Load::of(snapshot);
        let mut state = self.state();
        let has_room = state.waiting.len() < limits.queue.max(1)
            || (state.waiting.len() < LONGEST && state.connections + load.connections() <= limits.backlog);
        let replaced = if has_room { None } else { state.waiting.pop_back() };
        state.connections += load.connections();
        let (load, offered) = match replaced {
            None => (load, Offered::default()),
            Some(earlier) => {
                state.connections -= earlier.connections();
                let (load, lost) = load.after(earlier, limits.backlog);
                (load, Offered { took_place: true, lost })
            }
        };
        state.waiting.push_back(load);
        drop(state);
        self.changed.notify_all();
        offered
    }

    /// Hands over a snapshot; waits while there are too many, or nobody takes them any more.
    pub(super) fn deliver(&self, snapshot: &Arc<Snapshot>, limits: &Limits) {
        let full = |state: &mut State| state.waiting.len() >= limits.queue.max(1) && !state.is_over;
        let mut state = self.changed.wait_while(self.state(), full).unwrap_or_else(PoisonError::into_inner);
        state.connections += snapshot.connections.len();
        state.waiting.push_back(Load::of(snapshot));
        drop(state);
        self.changed.notify_all();
    }

    /// The next one, which counts as waiting until it is [`Queue::done`]. `None`: there will be no more.
    pub(super) fn next(&self) -> Option<Load> {
        let idle = |state: &mut State| state.waiting.is_empty() && !state.is_over;
        let mut state = self.changed.wait_while(self.state(), idle).unwrap_or_else(PoisonError::into_inner);
        let load = state.waiting.pop_front();
        drop(state);
        self.changed.notify_all();
        load
    }

    /// One of so many connections is written.
    pub(super) fn done(&self, connections: usize) {
        self.state().connections -= connections;
    }

    /// From now on nothing more comes, or nobody takes it.
    pub(super) fn end(&self) {
        self.state().is_over = true;
        self.changed.notify_all();
    }
}

/// Ends the queue when it goes: also where its owner fails.
pub(super) struct EndsWith(pub(super) Arc<Queue>);

impl Drop for EndsWith {
    fn drop(&mut self) {
        self.0.end();
    }
}

#[cfg(test)]
mod tests {
    use mpwatch_model::fixture;

    use super::*;

    fn snapshot(connections: Vec<Flow>) -> Arc<Snapshot> {
        Arc::new(fixture::snapshot(connections))
    }

    fn limits(queue: usize, backlog: usize) -> Limits {
        Limits { queue, backlog, ..Limits::none() }
    }

    /// The connections of a load: first those of earlier snapshots, then those of its own.
    fn ids(load: &Load) -> (Vec<ConnectionId>, Vec<ConnectionId>) {
        let own = load.snapshot.connections.iter().map(|flow| flow.id).collect();
        (load.lasts.iter().map(|last| last.flow.id).collect(), own)
    }

    #[test]
    fn without_room_the_newest_picture_counts_and_what_is_gone_stays() {
        let queue = Queue::default();
        let limits = limits(1, 1);
        let [one, two, three, four] = [1, 2, 3, 4].map(|n| fixture::connection(n, 1));
        let told = [
            vec![one.clone(), two.clone()],
            vec![two.clone(), three.clone()],
            vec![three.clone()],
            vec![four.clone()],
        ]
        .map(|flows| queue.offer(&snapshot(flows), &limits));
        assert_eq!(
            told.map(|told| (told.took_place, told.lost)),
            [(false, 0), (true, 0), (true, 1), (true, 1)]
        );
        let load = queue.next().unwrap();
        assert_eq!(ids(&load), (vec![three.id], vec![four.id]), "the oldest had no room");
        assert_eq!(queue.offer(&snapshot(vec![one.clone()]), &limits), Offered::default());
        queue.done(load.connections());
        queue.end();
        assert_eq!(queue.next().map(|load| ids(&load)), Some((vec![], vec![one.id])));
        assert!(queue.next().is_none());
    }

    #[test]
    fn small_snapshots_wait_one_by_one() {
        let queue = Queue::default();
        for n in 1..=20 {
            let offered = queue.offer(&snapshot(vec![fixture::connection(n, 1)]), &limits(4, 20));
            assert!(!offered.took_place, "{n}");
        }
        assert!(queue.offer(&snapshot(vec![fixture::connection(21, 1)]), &limits(4, 20)).took_place);
    }
}
