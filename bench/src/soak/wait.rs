// SPDX-License-Identifier: MIT OR Apache-2.0
//! Waits for a time, unless a flag is set.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Time between two checks of the flag.
const STOP_CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// Waits until `due` and returns `true`. If `stop` is set before, returns `false`.
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
