// SPDX-License-Identifier: MIT OR Apache-2.0
//! What every test on the lab needs: waiting for a condition with a deadline, in place of sleeping and
//! hoping, and a loud refusal where a lab cannot be built. Knows nothing of networks.

use crate::error::{Error, Result};
use std::io::Write as _;
use std::thread;
use std::time::{Duration, Instant};

/// The first pause between two questions, and the longest: what comes soon is noticed at once, and a long wait leaves the
/// machine to what is waited for.
const PAUSES: (Duration, Duration) = (Duration::from_millis(2), Duration::from_millis(40));
/// A question that is costly is not asked for more than a fifth of the time.
const PAUSE_FOR_COST: u32 = 4;

/// Asks `condition` until it answers `Some`, and returns that; `what` is named when time runs out.
///
/// # Errors
/// [`Error::Timeout`] after `deadline`.
pub fn poll_until<T>(what: &str, deadline: Duration, mut condition: impl FnMut() -> Option<T>) -> Result<T> {
    let start = Instant::now();
    let mut pause = PAUSES.0;
    loop {
        let asked = Instant::now();
        if let Some(answer) = condition() {
            return Ok(answer);
        }
        if start.elapsed() > deadline {
            return Err(Error::Timeout { what: what.to_owned(), waited: deadline });
        }
        thread::sleep(pause.max(asked.elapsed() * PAUSE_FOR_COST));
        pause = pause.mul_f64(1.25).min(PAUSES.1);
    }
}

/// For the head of a test that needs root: whether it may run. Otherwise says SKIP on the real standard
/// error, past the test harness's capture.
///
/// # Panics
/// Without root when the environment says `MPWATCH_REQUIRE_ALL=1`, so that no CI passes by skipping.
#[must_use]
pub fn may_run(test: &str) -> bool {
    if nix::unistd::geteuid().is_root() {
        return true;
    }
    let required = std::env::var_os("MPWATCH_REQUIRE_ALL").is_some_and(|value| value == "1");
    assert!(!required, "{test} needs root, and MPWATCH_REQUIRE_ALL=1 forbids skipping");
    // A closed standard error is no reason to fail.
    let _ = writeln!(std::io::stderr(), "SKIP {test}: needs root (sudo)");
    false
}
