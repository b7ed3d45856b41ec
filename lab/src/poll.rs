// SPDX-License-Identifier: MIT OR Apache-2.0
//! Waits for a condition, with a timeout.

use crate::error::{Error, Result};
use std::thread;
use std::time::{Duration, Instant};

/// The pause between two checks grows from `MIN_PAUSE` to `MAX_PAUSE`: a short wait ends quickly, and a
/// long wait uses little CPU time.
const MIN_PAUSE: Duration = Duration::from_millis(2);
const MAX_PAUSE: Duration = Duration::from_millis(40);
/// After a check that took time T, the pause is at least this multiple of T: checks take at most a fifth of the time.
const PAUSE_PER_CHECK: u32 = 4;

/// Calls `condition` until it returns `Some`, and returns the value. `what` names the condition in the error.
///
/// # Errors
/// [`Error::Timeout`] after `timeout`.
pub fn poll_until<T>(what: &str, timeout: Duration, mut condition: impl FnMut() -> Option<T>) -> Result<T> {
    let start = Instant::now();
    let mut pause = MIN_PAUSE;
    loop {
        let check_started = Instant::now();
        if let Some(value) = condition() {
            return Ok(value);
        }
        if start.elapsed() > timeout {
            return Err(Error::Timeout { what: what.to_owned(), waited: timeout });
        }
        thread::sleep(pause.max(check_started.elapsed() * PAUSE_PER_CHECK));
        pause = pause.mul_f64(1.25).min(MAX_PAUSE);
    }
}
