// SPDX-License-Identifier: MIT OR Apache-2.0
//! What one run of a program takes on this machine, with the kernel's dispatch: from system calls of this thread, which are longer while the
//! programs of the ledger are attached to them.

use std::time::{Duration, Instant};

use mpwatch_model::unit::Nanos;
use nix::unistd::getppid;

/// What a run took on the machine of docs/performance.md. It stands in where none was measured: without a ledger, or with an exact one.
pub(crate) const TYPICAL: Nanos = Nanos(200);
/// What the programs take that follow a socket from its opening to its final record, for each record: about 14 runs, two of them at each
/// change of state, and the record of 900 bytes. Measured on that machine while it was busy: 10 to 12 us, with what the measurement itself and
/// the segments take.
pub(crate) const PER_RECORD: Nanos = Nanos(8_000);
/// Anything else is a fault of the measurement.
const PLAUSIBLE: std::ops::RangeInclusive<u64> = 40..=2_000;

const CALLS: u32 = 500;
/// The shortest one counts: the others were disturbed.
const BATCHES: u32 = 7;
/// A program runs at the entry of a system call, and another one at its exit.
const RUNS_PER_CALL: u32 = 2;

/// A batch of cheap system calls.
pub(crate) fn time_calls() -> Duration {
    let batch = |_| {
        let start = Instant::now();
        for _ in 0..CALLS {
            let _ = getppid();
        }
        start.elapsed()
    };
    (0..BATCHES).map(batch).min().unwrap_or_default()
}

/// The time per run, from a batch without the programs and one with them.
pub(crate) fn per_run(without: Duration, with: Duration) -> Nanos {
    let nanos = with.saturating_sub(without).as_nanos() / u128::from(CALLS * RUNS_PER_CALL);
    let nanos = u64::try_from(nanos).ok().filter(|nanos| PLAUSIBLE.contains(nanos));
    nanos.map_or(TYPICAL, Nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_a_run_is_half_of_what_a_call_takes_longer() {
        let per_call = |nanos| Duration::from_nanos(nanos) * CALLS;
        assert_eq!(per_run(per_call(100), per_call(400)), Nanos(150));
    }

    #[test]
    fn an_implausible_time_is_not_used() {
        let per_call = |nanos| Duration::from_nanos(nanos) * CALLS;
        assert_eq!(per_run(per_call(400), per_call(100)), TYPICAL);
        assert_eq!(per_run(per_call(100), per_call(120)), TYPICAL);
        assert_eq!(per_run(Duration::ZERO, Duration::from_mins(1)), TYPICAL);
    }
}
