// SPDX-License-Identifier: MIT OR Apache-2.0
//! How fast the machine under the tests is. A virtual machine without hardware support is several times slower than real hardware;
//! tests/vm/run sets these factors in its guests, and everywhere else they are 1.

use std::time::Duration;

/// The timeout of something that takes at most this long on real hardware: `$MPWATCH_TEST_SLOWDOWN` times that.
pub fn limit(duration: Duration) -> Duration {
    duration.mul_f64(setting("MPWATCH_TEST_SLOWDOWN"))
}

/// How much of a large amount of data a test moves: `$MPWATCH_TEST_SCALE` of it.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a part of a positive number")]
pub fn amount(full: u64) -> u64 {
    (full as f64 * setting("MPWATCH_TEST_SCALE")) as u64
}

/// Whether the tests run on a machine emulated in software, where costs mean nothing.
pub fn is_emulated() -> bool {
    setting("MPWATCH_TEST_SLOWDOWN") > 1.0
}

fn setting(name: &str) -> f64 {
    match std::env::var(name) {
        Ok(value) => value.parse().unwrap_or_else(|_| panic!("{name} is not a number: {value}")),
        Err(_) => 1.0,
    }
}
