// SPDX-License-Identifier: MIT OR Apache-2.0
//! Clocks. All arithmetic uses the kernel's boot clock; the calendar only dates the boot.

use std::io;
use std::sync::OnceLock;

use mpwatch_model::kernel::clock;
use mpwatch_model::unit::Nanos;
use nix::sys::time::TimeValLike as _;
use nix::time::{ClockId, clock_gettime};

use crate::system::procfs::read_file;

/// Smaller differences between two measurements are noise, or come from a slewed clock, whose difference soon exceeds the tolerance.
const TOLERANCE_NS: u64 = 1_000_000;
/// Maximum number of repetitions of an interrupted measurement.
const MAX_ATTEMPTS: u32 = 5;

/// Two clocks that are read together. Their difference changes only while the machine is suspended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ClockPair {
    /// `CLOCK_MONOTONIC`, which stops while the machine is suspended.
    pub(crate) monotonic: Nanos,
    /// `CLOCK_BOOTTIME`, which does not stop.
    pub(crate) boot: Nanos,
}

impl ClockPair {
    /// Reads both clocks. Zero if reading fails, which never happens.
    pub(crate) fn now() -> Self {
        let now = |clock| Nanos(read(clock).unwrap_or_default().unsigned_abs());
        Self { monotonic: now(ClockId::CLOCK_MONOTONIC), boot: now(ClockId::CLOCK_BOOTTIME) }
    }

    /// How long the machine was suspended since an earlier time. Zero if the clocks differ by less than [`TOLERANCE_NS`], which happens without
    /// a suspension.
    pub(crate) fn suspended_since(self, earlier: Self) -> Nanos {
        let asleep = self.boot.since(earlier.boot).since(self.monotonic.since(earlier.monotonic));
        if asleep.0 < TOLERANCE_NS { Nanos(0) } else { asleep }
    }
}

/// The current time of the clock in the kernel's records (`bpf_ktime_get_boot_ns`).
pub fn boot_now() -> io::Result<Nanos> {
    let now = read(ClockId::CLOCK_BOOTTIME)? - namespace_offset_ns();
    Ok(Nanos(now.unsigned_abs()))
}

/// Difference between `CLOCK_BOOTTIME` in this time namespace (time_namespaces(7)) and in the kernel.
fn namespace_offset_ns() -> i64 {
    static OFFSET_NS: OnceLock<i64> = OnceLock::new();
    *OFFSET_NS.get_or_init(|| {
        let offsets = read_file("/proc/self/timens_offsets").unwrap_or_default();
        boottime_offset_ns(&offsets).unwrap_or_default()
    })
}

/// The offset of the boot clock in `/proc/PID/timens_offsets`: a name, seconds and nanoseconds in each line.
fn boottime_offset_ns(offsets: &str) -> Option<i64> {
    let line = offsets.lines().find(|line| line.starts_with("boottime"))?;
    let mut numbers = line.split_whitespace().skip(1).map(str::parse::<i64>);
    Some(numbers.next()?.ok()? * 1_000_000_000 + numbers.next()?.ok()?)
}

/// The calendar time of boot-clock zero, if it differs from `before` by more than [`TOLERANCE_NS`]: the calendar was set. The kernel does not
/// announce such a change, so it is measured at every tick. Both times are in nanoseconds since 1970.
pub(crate) fn calendar_change(before: i64, now: io::Result<i64>) -> Option<i64> {
    let now = now.ok().filter(|now| now.abs_diff(before) > TOLERANCE_NS)?;
    if let Some(by) = clock::step(before, now) {
        tracing::warn!(seconds = by as f64 / 1e9, "the calendar clock was set; times follow it");
    }
    Some(now)
}

/// Measures the calendar time of boot-clock zero. Keeps the fastest of a few attempts: an interruption between the readings adds an error.
pub(crate) fn boot_epoch_ns() -> io::Result<i64> {
    let attempt = || -> io::Result<(u64, i64)> {
        let before = boot_now()?.0;
        let calendar = read(ClockId::CLOCK_REALTIME)?;
        let took = boot_now()?.0.saturating_sub(before);
        Ok((took, calendar - (before + took / 2).cast_signed()))
    };
    let mut best = attempt()?;
    for _ in 0..MAX_ATTEMPTS {
        if best.0 <= TOLERANCE_NS / 10 {
            break;
        }
        best = best.min(attempt()?);
    }
    Ok(best.1)
}

fn read(clock: ClockId) -> io::Result<i64> {
    Ok(clock_gettime(clock)?.num_nanoseconds())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn setting_the_calendar_is_a_change_and_noise_is_not() {
        const DAY_NS: i64 = 86_400_000_000_000;
        assert_eq!(calendar_change(DAY_NS, Ok(DAY_NS + 900_000)), None);
        assert_eq!(calendar_change(DAY_NS, Ok(20 * DAY_NS)), Some(20 * DAY_NS));
        assert_eq!(calendar_change(DAY_NS, Ok(0)), Some(0));
        assert_eq!(calendar_change(DAY_NS, Err(io::Error::other("no reading"))), None);
    }

    #[test]
    fn only_the_boot_clock_counts_suspended_time() {
        let at = |monotonic, boot| ClockPair { monotonic: Nanos(monotonic), boot: Nanos(boot) };
        let suspended = |by| at(200, 1_200 + by).suspended_since(at(100, 1_100)).0;
        assert_eq!([0, TOLERANCE_NS / 2, 3_600_000_000_000].map(suspended), [0, 0, 3_600_000_000_000]);
    }

    #[test]
    fn the_offset_of_a_time_namespace_is_read() {
        let offsets = "monotonic           5         0\nboottime       864000 500000000\n";
        assert_eq!(boottime_offset_ns(offsets), Some(864_000_500_000_000));
        assert_eq!(boottime_offset_ns("boottime  -7  0"), Some(-7_000_000_000));
        assert_eq!(boottime_offset_ns(""), None);
    }
}
