// SPDX-License-Identifier: MIT OR Apache-2.0
//! Signals that end a command.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::Context as _;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

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
