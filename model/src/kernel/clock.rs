// SPDX-License-Identifier: MIT OR Apache-2.0
//! Calendar time. All arithmetic uses the kernel's boot clock; outputs add the calendar time of its zero. The calendar may be set during tracing
//! (NTP at boot, a resumed virtual machine): earlier times are then shifted by the difference.

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::unit::Nanos;

/// A larger change of the calendar is a step; a smaller one is slewing.
const MAX_SLEW_NS: u64 = 1_000_000_000;

/// The calendar was set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockChange {
    /// Boot-clock time at which the change was noticed.
    pub at: Nanos,
    /// Calendar time, in nanoseconds since 1970, of boot-clock zero from now on.
    pub boot_epoch_ns: i64,
}

/// Step of the calendar, in nanoseconds. `None`: times before and after it can be compared.
pub fn step(from_epoch_ns: i64, to_epoch_ns: i64) -> Option<i64> {
    let by = to_epoch_ns.saturating_sub(from_epoch_ns);
    (by.unsigned_abs() > MAX_SLEW_NS).then_some(by)
}

/// A time moved by this many nanoseconds.
pub fn shifted(at: Timestamp, by_ns: i64) -> Timestamp {
    at.checked_add(SignedDuration::from_nanos(by_ns)).unwrap_or(at)
}
