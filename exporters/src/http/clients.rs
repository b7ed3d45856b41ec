// SPDX-License-Identifier: MIT OR Apache-2.0
//! The connected clients. At the limit, a new client replaces the client that has been idle longest, so stalled clients cannot lock out
//! other clients.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::task::AbortHandle;

pub(super) struct Clients {
    limit: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// A logical clock: the number of new connections and requests so far.
    clock: u64,
    /// For each client, the clock when it connected or last sent a request, and its task.
    by_id: HashMap<u64, (u64, AbortHandle)>,
}

/// One client. Dropping it makes room for another.
pub(super) struct Client {
    clients: Arc<Clients>,
    id: u64,
}

impl Clients {
    pub(super) fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self { limit, state: Mutex::default() })
    }

    /// Adds a client. Returns whether it replaced another client. The task that `spawn` starts must not end before this function returns.
    pub(super) fn add(self: &Arc<Self>, spawn: impl FnOnce(Client) -> AbortHandle) -> bool {
        let id = self.tick().clock;
        let task = spawn(Client { clients: Arc::clone(self), id });
        let clients = &mut self.state().by_id;
        let idlest = clients.iter().min_by_key(|(_, (active_at, _))| *active_at).map(|(id, _)| *id);
        let evicted = idlest.filter(|_| clients.len() >= self.limit).and_then(|id| clients.remove(&id));
        clients.insert(id, (id, task));
        evicted.inspect(|(_, task)| task.abort()).is_some()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tick(&self) -> MutexGuard<'_, State> {
        let mut state = self.state();
        state.clock += 1;
        state
    }
}

impl Client {
    /// Records that the client sent a request.
    pub(super) fn mark_active(&self) {
        let mut state = self.clients.tick();
        let now = state.clock;
        state.by_id.entry(self.id).and_modify(|(active_at, _)| *active_at = now);
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.clients.state().by_id.remove(&self.id);
    }
}
