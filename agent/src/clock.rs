// SPDX-License-Identifier: MIT OR Apache-2.0
//! The two clocks: the kernel's boot clock for all arithmetic, the calendar only to say when that clock began.

use std::io;

use mpwatch_model::unit::Nanos;
use nix::time::{ClockId, clock_gettime};

use crate::energy::sampler::Times;

/// Now, on the clock of the kernel's records (`bpf_ktime_get_boot_ns`).
pub(crate) fn boot_now() -> io::Result<Nanos> {
    read(ClockId::CLOCK_BOOTTIME).map(|nanos| Nanos(nanos.unsigned_abs()))
}

/// Calendar time of boot-clock zero, in nanoseconds since 1970.
pub(crate) fn boot_epoch_ns() -> io::Result<i64> {
    Ok(read(ClockId::CLOCK_REALTIME)? - read(ClockId::CLOCK_BOOTTIME)?)
}

/// The two clocks that only suspending the machine drives apart. Zero where the kernel refuses to tell, which it never does.
pub(crate) fn both() -> Times {
    let now = |clock| Nanos(read(clock).unwrap_or_default().unsigned_abs());
    Times { monotonic: now(ClockId::CLOCK_MONOTONIC), boot: now(ClockId::CLOCK_BOOTTIME) }
}

fn read(clock: ClockId) -> io::Result<i64> {
    let time = clock_gettime(clock)?;
    Ok(time.tv_sec() * 1_000_000_000 + time.tv_nsec())
}
