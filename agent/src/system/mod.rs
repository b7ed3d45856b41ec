// SPDX-License-Identifier: MIT OR Apache-2.0
//! The machine and this process: clocks, files of `/proc`, signals, capabilities, default paths.

pub(crate) mod clock;
pub(crate) mod companion;
pub(crate) mod mib;
pub(crate) mod paths;
pub(crate) mod privilege;
pub(crate) mod procfs;
pub(crate) mod setup;

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::Context as _;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// Locks a mutex. If a thread panicked while it held the lock, the value is used as that thread left it.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A flag that SIGINT, SIGTERM and SIGHUP set. The kernel sends SIGHUP when the terminal is closed.
pub fn stop_flag() -> anyhow::Result<Arc<AtomicBool>> {
    stop_flag_for(&[SIGINT, SIGTERM, SIGHUP])
}

/// A flag that these signals set.
pub(crate) fn stop_flag_for(signals: &[i32]) -> anyhow::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in signals {
        signal_hook::flag::register(*signal, Arc::clone(&stop)).context("cannot listen for signals")?;
    }
    Ok(stop)
}
