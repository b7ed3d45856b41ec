// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernel's statistics of each loaded program: verification, runs, missed events.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use libbpf_rs::Object;
use mpwatch_model::unit::Nanos;

use crate::hook::HOOKS;

/// The kernel's statistics of one program (`struct bpf_prog_info`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProgramStats {
    /// Instructions that the verifier processed over all paths. The kernel rejects more than a million. 0 before Linux 5.16.
    pub verified_instructions: u32,
    /// Runs. Counted only while run-time statistics are enabled.
    pub runs: u64,
    /// Total time of the runs, in nanoseconds.
    pub run_time_ns: u64,
    /// Events that the program missed because the event interrupted the same program on that CPU.
    pub missed: u64,
}

/// The statistics of each loaded program of an object, by name.
pub(crate) fn stats(object: &Object) -> io::Result<Vec<(String, ProgramStats)>> {
    let loaded = object.progs().filter(libbpf_rs::ProgramImpl::autoload);
    loaded.map(|program| Ok((program.name().to_string_lossy().into_owned(), of(program.as_fd())?))).collect()
}

pub(crate) fn of(program: BorrowedFd<'_>) -> io::Result<ProgramStats> {
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

/// All runs of our programs and their time. `None`: run-time statistics are disabled.
pub(crate) fn measured(programs: &[(String, ProgramStats)]) -> Option<(u64, Nanos)> {
    let sum = |read: fn(&ProgramStats) -> u64| programs.iter().map(|(_, stats)| read(stats)).sum();
    let (runs, time): (u64, u64) = (sum(|stats| stats.runs), sum(|stats| stats.run_time_ns));
    (runs > 0).then_some((runs, Nanos(time)))
}

/// Missed events. Of two programs on the same tracepoint one sees what the other misses, so those do not count.
pub(crate) fn events_missed(programs: &[(String, ProgramStats)]) -> u64 {
    let alone = |program: &str| !HOOKS.iter().any(|hook| hook.program == program && hook.has_twin());
    programs.iter().filter(|(program, _)| alone(program)).map(|(_, stats)| stats.missed).sum()
}
