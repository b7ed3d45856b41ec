// SPDX-License-Identifier: MIT OR Apache-2.0
//! Calendar time. All arithmetic uses the kernel's boot clock; outputs add the calendar time of boot-clock zero. If the calendar clock is
//! set during tracing (NTP at boot, a resumed virtual machine), earlier times are shifted by the difference.

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::unit::Nanos;

/// A change of the calendar clock by more than this is a step; smaller changes are slewing.
const MAX_SLEW_NS: u64 = 1_000_000_000;

/// A change of the calendar clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockChange {
    /// Boot-clock time at which the change was noticed.
    pub at: Nanos,
    /// Calendar time, in nanoseconds since 1970, of boot-clock zero from now on.
    pub boot_epoch_ns: i64,
}

/// Step of the calendar clock, in nanoseconds. `None`: it was not set, so times before and after can be compared.
pub fn step(from_epoch_ns: i64, to_epoch_ns: i64) -> Option<i64> {
    let by = to_epoch_ns.saturating_sub(from_epoch_ns);
    (by.unsigned_abs() > MAX_SLEW_NS).then_some(by)
}

/// The time `at`, moved by `by_ns` nanoseconds.
pub fn shifted(at: Timestamp, by_ns: i64) -> Timestamp {
    at.checked_add(SignedDuration::from_nanos(by_ns)).unwrap_or(at)
}
