// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures the time of one run of a program on this machine, including the kernel's dispatch, by how much longer system calls of this thread
//! take while programs of the ledger are attached to them.

use std::time::{Duration, Instant};

use mpwatch_model::unit::Nanos;
use nix::unistd::getppid;

/// Time of a run on the machine of docs/performance.md. Used without a sampled ledger, or if the measurement is implausible.
pub(crate) const TYPICAL: Nanos = Nanos(200);
/// Time of the programs for a socket from its opening to its final record: about 14 runs, two of them per change of state, and the final
/// record. A measurement on the same machine, when it was busy, gave 10 to 12 us, which included the measurement itself and the segments.
pub(crate) const PER_RECORD: Nanos = Nanos(8_000);
/// Plausible times of a run in nanoseconds; anything else is an error of measurement.
const PLAUSIBLE: std::ops::RangeInclusive<u64> = 40..=2_000;

const CALLS: u32 = 500;
/// Batches per measurement. The shortest one is used, because interruptions only lengthen a batch.
const BATCHES: u32 = 7;
/// One program runs at the entry of a system call, another at its exit.
const RUNS_PER_CALL: u32 = 2;

/// Duration of a batch of cheap system calls.
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

/// Time per run, from batches without and with the programs.
pub(crate) fn per_run(without: Duration, with: Duration) -> Nanos {
    let nanos = with.saturating_sub(without).as_nanos() / u128::from(CALLS * RUNS_PER_CALL);
    let nanos = u64::try_from(nanos).ok().filter(|nanos| PLAUSIBLE.contains(nanos));
    nanos.map_or(TYPICAL, Nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_a_run_is_half_of_the_added_time_of_a_call() {
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
