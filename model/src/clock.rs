// SPDX-License-Identifier: MIT OR Apache-2.0
//! Calendar time. All arithmetic uses the kernel's boot clock; the calendar only dates its zero, and may be set while tracing goes on (NTP
//! at boot, a virtual machine that was resumed). What was dated before is then moved by the difference.

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::unit::Nanos;

/// A larger change of the calendar is a step; the clock is slewed within smaller ones.
const MAX_SLEW_NS: u64 = 1_000_000_000;

/// The calendar was set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockChange {
    /// Boot-clock time at which that was noticed.
    pub at: Nanos,
    /// Calendar time, in nanoseconds since 1970, of boot-clock zero from now on.
    pub boot_epoch_ns: i64,
}

/// By how much the calendar was stepped. `None`: by so little that times of both calendars can be compared.
pub fn step(from_epoch_ns: i64, to_epoch_ns: i64) -> Option<i64> {
    let by = to_epoch_ns.saturating_sub(from_epoch_ns);
    (by.unsigned_abs() > MAX_SLEW_NS).then_some(by)
}

/// Moves a time by nanoseconds.
pub fn shifted(at: Timestamp, by_ns: i64) -> Timestamp {
    at.checked_add(SignedDuration::from_nanos(by_ns)).unwrap_or(at)
}

#[cfg(all(test, feature = "fixtures"))]
mod tests {
    use super::*;
    use crate::fixture;

    #[test]
    fn all_times_of_a_connection_move_together() {
        const HOUR_NS: i64 = 3_600_000_000_000;
        let before = fixture::failover(2);
        let mut after = before.clone();
        after.shift(HOUR_NS);
        let (text, moved) = [&before, &after].map(|one| serde_json::to_string(one).unwrap()).into();
        let times =
            |text: &str| -> Vec<Timestamp> { text.split('"').filter_map(|word| word.parse().ok()).collect() };
        let expected: Vec<_> = times(&text).into_iter().map(|at| shifted(at, HOUR_NS)).collect();
        assert!(expected.len() > 5);
        assert_eq!(times(&moved), expected);
    }

    #[test]
    fn a_slewed_clock_is_no_step() {
        assert_eq!((step(5, 1_000_000_005), step(5, 1_000_000_006)), (None, Some(1_000_000_001)));
        assert_eq!(step(0, -2_000_000_000), Some(-2_000_000_000));
    }
}
