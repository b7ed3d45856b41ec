// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernel's statistics of each loaded program: verification, runs, missed events.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use libbpf_rs::Object;
use mpwatch_model::unit::Nanos;

use crate::support::hook::{Attach, HOOKS, Hook};

/// The kernel's statistics of one program (`struct bpf_prog_info`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProgramStats {
    /// Instructions that the verifier processed over all paths. It rejects programs with more than a million. 0 before Linux 5.16.
    pub verified_instructions: u32,
    /// Runs, counted only while run-time statistics are enabled.
    pub runs: u64,
    /// Total time of the runs, in nanoseconds.
    pub run_time_ns: u64,
    /// Events that the program missed because they interrupted the same program on their CPU.
    pub missed: u64,
}

/// The statistics of each loaded program of an object, by name.
pub(crate) fn stats(object: &Object) -> io::Result<Vec<(String, ProgramStats)>> {
    let loaded = object.progs().filter(libbpf_rs::ProgramImpl::autoload);
    loaded
        .map(|program| Ok((program.name().to_string_lossy().into_owned(), read_stats(program.as_fd())?)))
        .collect()
}

/// The kernel's statistics of a loaded program.
pub(crate) fn read_stats(program: BorrowedFd<'_>) -> io::Result<ProgramStats> {
    let mut info = libbpf_sys::bpf_prog_info::default();
    let mut length = u32::try_from(size_of_val(&info)).map_err(io::Error::other)?;
    // SAFETY: the kernel writes at most `length` bytes, which is the size of `info`, and `info` asks for no arrays.
    let code = unsafe {
        libbpf_sys::bpf_obj_get_info_by_fd(program.as_raw_fd(), (&raw mut info).cast(), &raw mut length)
    };
    if code < 0 {
        return Err(io::Error::from_raw_os_error(-code));
    }
    Ok(ProgramStats {
        verified_instructions: info.verified_insns,
        runs: info.run_cnt,
        run_time_ns: info.run_time_ns,
        missed: info.recursion_misses,
    })
}

/// Number and total time of all runs. `None`: run-time statistics are disabled.
pub(crate) fn measured(programs: &[(String, ProgramStats)]) -> Option<(u64, Nanos)> {
    let sum = |read: fn(&ProgramStats) -> u64| programs.iter().map(|(_, stats)| read(stats)).sum();
    let (runs, time): (u64, u64) = (sum(|stats| stats.runs), sum(|stats| stats.run_time_ns));
    (runs > 0).then_some((runs, Nanos(time)))
}

/// Upper bound of the number of events that no program handled. If two programs are on one tracepoint, each event needs only one of them: both
/// together missed at most the lower of their two counts.
pub(crate) fn events_missed(programs: &[(String, ProgramStats)]) -> u64 {
    let mut by_tracepoint = BTreeMap::new();
    for (name, stats) in programs {
        let is_ours = |hook: &&Hook| hook.program == name && hook.attach == Attach::Tracepoint;
        let Some(hook) = HOOKS.iter().find(is_ours) else { continue };
        let missed = by_tracepoint.entry(hook.target).or_insert(stats.missed);
        *missed = stats.missed.min(*missed);
    }
    by_tracepoint.into_values().sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn missed(counts: &[(&str, u64)]) -> u64 {
        let stats =
            |&(name, missed): &(&str, u64)| (name.to_owned(), ProgramStats { missed, ..Default::default() });
        events_missed(&counts.iter().map(stats).collect::<Vec<_>>())
    }

    #[test]
    fn an_event_that_one_of_two_programs_handles_is_not_missed() {
        assert_eq!(missed(&[("on_set_state", 57), ("on_set_state_nested", 0), ("on_segment", 3)]), 3);
        assert_eq!(missed(&[("on_set_state", 57), ("on_set_state_nested", 2)]), 2);
        assert_eq!(missed(&[("on_segment", 3), ("on_destroy", 4)]), 7);
    }
}
