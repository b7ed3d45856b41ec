// SPDX-License-Identifier: MIT OR Apache-2.0
//! The connected clients. Above the limit, a new client replaces the one idle for longest, so clients that stall do not lock out others.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::task::AbortHandle;

/// All clients.
pub(super) struct Clients {
    limit: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Counts arrivals and requests.
    clock: u64,
    by_id: HashMap<u64, Entry>,
}

struct Entry {
    /// When the client last sent a request, or connected.
    active_at: u64,
    task: AbortHandle,
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

    /// Adds a client. Returns whether it replaced another one. The task that `spawn` starts must not end before this returns.
    pub(super) fn add(self: &Arc<Self>, spawn: impl FnOnce(Client) -> AbortHandle) -> bool {
        let id = self.state().tick();
        let task = spawn(Client { clients: Arc::clone(self), id });
        let mut state = self.state();
        let idlest = state.by_id.iter().min_by_key(|(_, entry)| entry.active_at).map(|(id, _)| *id);
        let evicted =
            idlest.filter(|_| state.by_id.len() >= self.limit).and_then(|id| state.by_id.remove(&id));
        state.by_id.insert(id, Entry { active_at: id, task });
        evicted.inspect(|entry| entry.task.abort()).is_some()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }
}

impl Client {
    /// Records that the client sent a request.
    pub(super) fn mark_active(&self) {
        let mut state = self.clients.state();
        let now = state.tick();
        if let Some(entry) = state.by_id.get_mut(&self.id) {
            entry.active_at = now;
        }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.clients.state().by_id.remove(&self.id);
    }
}
