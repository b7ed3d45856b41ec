// SPDX-License-Identifier: MIT OR Apache-2.0
//! Clocks: the kernel's boot clock for all arithmetic, the calendar only to date the boot.

use std::io;
use std::sync::OnceLock;

use mpwatch_model::kernel::clock;
use mpwatch_model::unit::Nanos;
use nix::sys::time::TimeValLike as _;
use nix::time::{ClockId, clock_gettime};

use crate::system::read_file;

/// Smaller differences between two measurements are noise, or a slewed clock, which exceeds this soon.
const TOLERANCE_NS: u64 = 1_000_000;
/// Maximum number of repetitions of an interrupted measurement.
const MAX_ATTEMPTS: u32 = 5;

/// Two clocks read together. Only suspending the machine drives them apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ClockPair {
    /// `CLOCK_MONOTONIC`, which stops while the machine is suspended.
    pub(crate) monotonic: Nanos,
    /// `CLOCK_BOOTTIME`, which does not.
    pub(crate) boot: Nanos,
}

impl ClockPair {
    /// Now. Zero if the kernel refuses, which it never does.
    pub(crate) fn now() -> Self {
        let now = |clock| Nanos(read(clock).unwrap_or_default().unsigned_abs());
        Self { monotonic: now(ClockId::CLOCK_MONOTONIC), boot: now(ClockId::CLOCK_BOOTTIME) }
    }

    /// How long the machine was suspended since an earlier time.
    pub(crate) fn suspended_since(self, earlier: Self) -> Nanos {
        self.boot.since(earlier.boot).since(self.monotonic.since(earlier.monotonic))
    }
}

/// Measures how long the machine was suspended.
pub(crate) struct SuspendMeter {
    last: ClockPair,
    now: Box<dyn FnMut() -> ClockPair + Send>,
}

impl SuspendMeter {
    /// Measures on the system's clocks from now on.
    pub(crate) fn start() -> Self {
        Self { last: ClockPair::now(), now: Box::new(ClockPair::now) }
    }

    /// Time suspended since the last call. Zero if the clocks differ by less than [`TOLERANCE_NS`], which happens without a suspension.
    pub(crate) fn take(&mut self) -> Nanos {
        let now = (self.now)();
        let asleep = now.suspended_since(self.last);
        self.last = now;
        if asleep.0 < TOLERANCE_NS { Nanos(0) } else { asleep }
    }
}

/// Now, on the clock of the kernel's records (`bpf_ktime_get_boot_ns`).
pub fn boot_now() -> io::Result<Nanos> {
    let now = read(ClockId::CLOCK_BOOTTIME)? - namespace_offset_ns();
    Ok(Nanos(now.unsigned_abs()))
}

/// Offset of `CLOCK_BOOTTIME` in this time namespace to the kernel's (time_namespaces(7)).
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

/// The calendar time of boot-clock zero, in nanoseconds since 1970. It changes when the calendar is set. The kernel does not announce that, so
/// it is measured at every tick.
pub(crate) struct Calendar {
    pub(crate) boot_epoch_ns: i64,
    measure: Box<dyn FnMut() -> io::Result<i64> + Send>,
}

impl Calendar {
    /// The calendar of the system.
    pub(crate) fn from_system() -> io::Result<Self> {
        Self::new(Box::new(measure))
    }

    fn new(mut measure: Box<dyn FnMut() -> io::Result<i64> + Send>) -> io::Result<Self> {
        Ok(Self { boot_epoch_ns: measure()?, measure })
    }

    /// Measures again. `None`: unchanged within [`TOLERANCE_NS`].
    pub(crate) fn change(&mut self) -> Option<i64> {
        let now = (self.measure)().ok()?;
        if now.abs_diff(self.boot_epoch_ns) <= TOLERANCE_NS {
            return None;
        }
        if let Some(by) = clock::step(self.boot_epoch_ns, now) {
            tracing::warn!(seconds = by as f64 / 1e9, "the calendar clock was set; times follow it");
        }
        self.boot_epoch_ns = now;
        Some(now)
    }
}

/// The best of a few attempts: the process may be interrupted between the readings.
fn measure() -> io::Result<i64> {
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
    fn the_calendar_is_followed_when_it_is_set_and_not_for_noise() {
        const DAY_NS: i64 = 86_400_000_000_000;
        let mut readings =
            vec![10 * DAY_NS, 10 * DAY_NS + 900_000, 20 * DAY_NS, 20 * DAY_NS, 19 * DAY_NS].into_iter();
        let measure = move || readings.next().ok_or_else(|| io::Error::other("no reading"));
        let mut calendar = Calendar::new(Box::new(measure)).unwrap();
        assert_eq!(calendar.boot_epoch_ns, 10 * DAY_NS);
        let changes: Vec<_> = (0..4).map(|_| calendar.change()).collect();
        assert_eq!(changes, [None, Some(20 * DAY_NS), None, Some(19 * DAY_NS)]);
        assert_eq!((calendar.change(), calendar.boot_epoch_ns), (None, 19 * DAY_NS), "a failed reading");
    }

    #[test]
    fn only_the_boot_clock_counts_suspended_time() {
        let at = |monotonic, boot| ClockPair { monotonic: Nanos(monotonic), boot: Nanos(boot) };
        let (noise, asleep) = (TOLERANCE_NS / 2, 3_600_000_000_000);
        let mut readings =
            vec![at(200, 1_200), at(300, 1_300 + noise), at(400, 1_400 + noise + asleep)].into_iter();
        let mut meter =
            SuspendMeter { last: at(100, 1_100), now: Box::new(move || readings.next().unwrap()) };
        assert_eq!([meter.take(), meter.take(), meter.take()], [Nanos(0), Nanos(0), Nanos(asleep)]);
    }

    #[test]
    fn the_offset_of_a_time_namespace_is_read() {
        let offsets = "monotonic           5         0\nboottime       864000 500000000\n";
        assert_eq!(boottime_offset_ns(offsets), Some(864_000_500_000_000));
        assert_eq!(boottime_offset_ns("boottime  -7  0"), Some(-7_000_000_000));
        assert_eq!(boottime_offset_ns(""), None);
    }
}
