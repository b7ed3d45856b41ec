// SPDX-License-Identifier: MIT OR Apache-2.0
//! A wait that a stop flag ends.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Time between two checks of the flag.
const STOP_CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// Waits until `due`. `false`: `stop` was set.
pub(super) fn wait_until(due: Instant, stop: &AtomicBool) -> bool {
    while !stop.load(Ordering::Relaxed) {
        let left = due.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return true;
        }
        thread::sleep(left.min(STOP_CHECK_INTERVAL));
    }
    false
}
