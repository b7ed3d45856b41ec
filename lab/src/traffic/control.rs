// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lets a test read the progress of running traffic, hold connections at a gate before they close, and cancel the traffic.
//! Both ends share a control if they are threads of one process.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// Progress and control of a transfer. By default, connections are not held.
#[derive(Debug, Default)]
pub struct Control {
    sent: AtomicU64,
    received: AtomicU64,
    opened: AtomicU32,
    held: AtomicU32,
    listening: AtomicBool,
    opening_stopped: AtomicBool,
    client_finished: AtomicBool,
    gate: Mutex<Gate>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Gate {
    holds: bool,
    cancelled: bool,
}

impl Control {
    /// A control that keeps every connection open and idle, once its workload is done, until [`Control::release`].
    #[must_use]
    pub fn holding() -> Self {
        Self { gate: Mutex::new(Gate { holds: true, cancelled: false }), ..Self::default() }
    }

    /// Bytes that both ends have written so far.
    #[must_use]
    pub fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// Bytes that both ends have read so far.
    #[must_use]
    pub fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }

    /// Number of connections that the client has opened so far.
    #[must_use]
    pub fn opened(&self) -> u32 {
        self.opened.load(Ordering::Relaxed)
    }

    /// Number of connections that wait at the gate. All their data is acknowledged, unless a path has failed.
    #[must_use]
    pub fn held(&self) -> u32 {
        self.held.load(Ordering::Acquire)
    }

    /// Lets held and later connections close.
    pub fn release(&self) {
        self.change(|gate| gate.holds = false);
    }

    /// Makes the client open no further connections. Those that are open go on.
    pub fn stop_opening(&self) {
        self.opening_stopped.store(true, Ordering::Relaxed);
    }

    pub(super) fn opening_stopped(&self) -> bool {
        self.opening_stopped.load(Ordering::Relaxed)
    }

    /// Makes both ends stop soon.
    pub fn cancel(&self) {
        self.change(|gate| gate.cancelled = true);
    }

    fn change(&self, change: impl FnOnce(&mut Gate)) {
        change(&mut self.gate.lock().unwrap_or_else(PoisonError::into_inner));
        self.changed.notify_all();
    }

    pub(super) fn cancelled(&self) -> bool {
        self.gate.lock().unwrap_or_else(PoisonError::into_inner).cancelled
    }

    /// Waits at the gate until the connections are released, the traffic is cancelled, or the timeout expires.
    pub(super) fn wait_at_gate(&self, timeout: Duration) {
        self.held.fetch_add(1, Ordering::Release);
        self.wait(timeout, |gate| gate.holds && !gate.cancelled);
        self.held.fetch_sub(1, Ordering::Release);
    }

    /// Waits for a duration, or until the traffic is cancelled.
    pub(super) fn pause(&self, duration: Duration) {
        if !duration.is_zero() {
            self.wait(duration, |gate| !gate.cancelled);
        }
    }

    fn wait(&self, timeout: Duration, keep_waiting: impl Fn(&mut Gate) -> bool) {
        let gate = self.gate.lock().unwrap_or_else(PoisonError::into_inner);
        // The result is ignored, because the callers continue in the same way after a timeout.
        let _ = self.changed.wait_timeout_while(gate, timeout, keep_waiting);
    }

    pub(super) fn count_sent(&self, bytes: usize) {
        self.sent.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(super) fn count_received(&self, bytes: usize) {
        self.received.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(super) fn count_opened(&self) {
        self.opened.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether the server accepts connections.
    #[must_use]
    pub fn listening(&self) -> bool {
        self.listening.load(Ordering::Acquire)
    }

    pub(super) fn start_listening(&self) {
        self.listening.store(true, Ordering::Release);
    }

    /// Records that all connections of the client have ended. The server then accepts no further connections.
    pub fn finish_client(&self) {
        self.client_finished.store(true, Ordering::Release);
    }

    /// Whether all connections of the client have ended.
    #[must_use]
    pub fn client_finished(&self) -> bool {
        self.client_finished.load(Ordering::Acquire)
    }
}
