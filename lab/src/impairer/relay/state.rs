// SPDX-License-Identifier: MIT OR Apache-2.0
//! State of one direction that its thread shares with the owner of the relay: impairment, stop flag and counters.

use crate::error::{Error, Result};
use crate::impairer::impairment::{ImpairerCounters, Impairment};
use std::io::Write as _;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

#[derive(Debug)]
pub(super) struct DirectionState {
    impairment: Mutex<Impairment>,
    impairment_changed: AtomicBool,
    stop: AtomicBool,
    /// To stop the thread, the owner writes to the first socket; the thread polls the second socket.
    wake: (UnixStream, UnixStream),
    pub(super) forwarded: AtomicU64,
    pub(super) forwarded_bytes: AtomicU64,
    pub(super) lost: AtomicU64,
    pub(super) corrupted: AtomicU64,
    pub(super) queue_drops: AtomicU64,
    pub(super) refused: AtomicU64,
    pub(super) overflowed: AtomicU64,
}

impl DirectionState {
    pub(super) fn new(impairment: Impairment) -> Result<Self> {
        let wake = UnixStream::pair().map_err(Error::os("create", "a socket pair"))?;
        Ok(Self {
            impairment: Mutex::new(impairment),
            impairment_changed: AtomicBool::new(false),
            stop: AtomicBool::new(false),
            wake,
            forwarded: AtomicU64::new(0),
            forwarded_bytes: AtomicU64::new(0),
            lost: AtomicU64::new(0),
            corrupted: AtomicU64::new(0),
            queue_drops: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            overflowed: AtomicU64::new(0),
        })
    }

    pub(super) fn set(&self, impairment: Impairment) {
        *self.impairment.lock().unwrap_or_else(PoisonError::into_inner) = impairment;
        self.impairment_changed.store(true, Ordering::Release);
    }

    pub(super) fn impairment(&self) -> Impairment {
        *self.impairment.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The new impairment. `None`: unchanged since the previous call.
    pub(super) fn changed_impairment(&self) -> Option<Impairment> {
        self.impairment_changed.swap(false, Ordering::AcqRel).then(|| self.impairment())
    }

    /// Makes the thread stop, also while it waits for packets.
    pub(super) fn stop(&self) {
        self.stop.store(true, Ordering::Release);
        let _ = (&self.wake.0).write_all(&[1]);
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    /// A file descriptor that becomes readable when the thread has to stop.
    pub(super) fn wake_fd(&self) -> BorrowedFd<'_> {
        self.wake.1.as_fd()
    }

    pub(super) fn counters(&self) -> ImpairerCounters {
        ImpairerCounters {
            forwarded: self.forwarded.load(Ordering::Relaxed),
            forwarded_bytes: self.forwarded_bytes.load(Ordering::Relaxed),
            lost: self.lost.load(Ordering::Relaxed),
            corrupted: self.corrupted.load(Ordering::Relaxed),
            queue_drops: self.queue_drops.load(Ordering::Relaxed),
            refused: self.refused.load(Ordering::Relaxed),
            overflowed: self.overflowed.load(Ordering::Relaxed),
        }
    }
}
