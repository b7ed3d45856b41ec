// SPDX-License-Identifier: MIT OR Apache-2.0
//! Who is connected. There is room for a fixed number; one more takes the place of whoever has been quiet for longest, so that
//! clients which do nothing, or never read what they asked for, keep nobody out.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::task::AbortHandle;

/// All of them.
pub(super) struct Clients {
    most: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    turns: u64,
    /// By the turn at which each was last heard of. `None`: its task is about to begin.
    by_turn: BTreeMap<u64, Option<AbortHandle>>,
}

/// The place of one client. Dropping it gives it back.
pub(super) struct Place {
    clients: Arc<Clients>,
    turn: Mutex<u64>,
}

impl Clients {
    pub(super) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self { most, state: Mutex::default() })
    }

    /// A place for one more; and whether another one lost its own for it.
    pub(super) fn enter(self: &Arc<Self>) -> (Arc<Place>, bool) {
        let mut state = self.state();
        let mut evicted = false;
        if state.by_turn.len() >= self.most
            && let Some((_, quietest)) = state.by_turn.pop_first()
        {
            evicted = true;
            if let Some(task) = quietest {
                task.abort();
            }
        }
        let turn = state.next();
        state.by_turn.insert(turn, None);
        (Arc::new(Place { clients: Arc::clone(self), turn: Mutex::new(turn) }), evicted)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn next(&mut self) -> u64 {
        self.turns += 1;
        self.turns
    }
}

impl Place {
    /// The task that serves the client: ends when the place is taken.
    pub(super) fn served_by(&self, task: AbortHandle) {
        let turn = *self.turn();
        match self.clients.state().by_turn.get_mut(&turn) {
            Some(entry) => *entry = Some(task),
            // Taken, or done, before it began.
            None => task.abort(),
        }
    }

    /// The client has asked for something.
    pub(super) fn heard(&self) {
        let mut turn = self.turn();
        let mut state = self.clients.state();
        if let Some(task) = state.by_turn.remove(&turn) {
            *turn = state.next();
            state.by_turn.insert(*turn, task);
        }
    }

    fn turn(&self) -> MutexGuard<'_, u64> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let turn = *self.turn();
        self.clients.state().by_turn.remove(&turn);
    }
}
