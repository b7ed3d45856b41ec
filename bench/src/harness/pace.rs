// SPDX-License-Identifier: MIT OR Apache-2.0
//! How fast the machine under the tests is taken to be. A virtual machine without hardware support is several times slower than
//! what it emulates; tests/vm/run says so to the tests in it, and everywhere else these are one.

use std::time::Duration;

/// The limit of time for something that takes so long on real hardware: `$MPWATCH_TEST_SLOWDOWN` times that.
pub fn limit(duration: Duration) -> Duration {
    duration.mul_f64(setting("MPWATCH_TEST_SLOWDOWN"))
}

/// The part of a large amount that is to be moved or made: `$MPWATCH_TEST_SCALE` of it.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a part of a positive number")]
pub fn amount(full: u64) -> u64 {
    (full as f64 * setting("MPWATCH_TEST_SCALE")) as u64
}

/// Whether the tests run on a machine that is emulated in software, on which costs are not those of any real one.
pub fn is_emulated() -> bool {
    setting("MPWATCH_TEST_SLOWDOWN") > 1.0
}

fn setting(name: &str) -> f64 {
    match std::env::var(name) {
        Ok(value) => value.parse().unwrap_or_else(|_| panic!("{name} is no number: {value}")),
        Err(_) => 1.0,
    }
}
