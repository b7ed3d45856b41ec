// SPDX-License-Identifier: MIT OR Apache-2.0
//! Scales timeouts and amounts for emulated machines. A virtual machine without hardware virtualization is several times
//! slower than real hardware. There tests/vm/run sets the variables that this file reads; elsewhere the factors are 1.

use std::time::Duration;

/// A timeout for real hardware, multiplied by `$MPWATCH_TEST_SLOWDOWN`.
pub fn timeout(duration: Duration) -> Duration {
    duration.mul_f64(factor("MPWATCH_TEST_SLOWDOWN"))
}

/// A large number of bytes or connections, multiplied by `$MPWATCH_TEST_SCALE`.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a fraction of a positive number")]
pub fn amount(full: u64) -> u64 {
    (full as f64 * factor("MPWATCH_TEST_SCALE")) as u64
}

/// Whether the tests run on a machine that is emulated in software. CPU costs differ from real hardware there.
pub fn is_emulated() -> bool {
    factor("MPWATCH_TEST_SLOWDOWN") > 1.0
}

fn factor(name: &str) -> f64 {
    match std::env::var(name) {
        Ok(value) => value.parse().unwrap_or_else(|_| panic!("{name} is not a number: {value}")),
        Err(_) => 1.0,
    }
}
