// SPDX-License-Identifier: MIT OR Apache-2.0
//! Clocks: the kernel's boot clock for all arithmetic, the calendar only to date the boot.

use std::io;

use mpwatch_model::unit::Nanos;
use nix::sys::time::TimeValLike as _;
use nix::time::{ClockId, clock_gettime};

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
}

/// Now, on the clock of the kernel's records (`bpf_ktime_get_boot_ns`).
pub(crate) fn boot_now() -> io::Result<Nanos> {
    read(ClockId::CLOCK_BOOTTIME).map(|nanos| Nanos(nanos.unsigned_abs()))
}

/// Calendar time of the boot, in nanoseconds since 1970.
pub(crate) fn boot_epoch_ns() -> io::Result<i64> {
    Ok(read(ClockId::CLOCK_REALTIME)? - read(ClockId::CLOCK_BOOTTIME)?)
}

fn read(clock: ClockId) -> io::Result<i64> {
    Ok(clock_gettime(clock)?.num_nanoseconds())
}
