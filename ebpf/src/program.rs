// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the kernel keeps of each loaded program: how hard it was to verify, how often it ran, and how often it could not.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use libbpf_rs::Object;
use mpwatch_model::unit::Nanos;

use crate::support::HOOKS;

/// The kernel's account of one program (`struct bpf_prog_info`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProgramStats {
    /// Instructions that the verifier processed, over all paths; the kernel refuses more than a million. 0 before Linux 5.16.
    pub verified_instructions: u32,
    /// Runs, and the nanoseconds that they took in all. Counted only while `kernel.bpf_stats_enabled` is set.
    pub runs: u64,
    /// See `runs`.
    pub run_time_ns: u64,
    /// Events that the program missed, because it had itself just been interrupted on that CPU.
    pub missed: u64,
}

/// The account of each loaded program of an object, by name.
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

/// All runs of our programs and the time that they took. `None`: the kernel counts neither where nobody has asked it to.
pub(crate) fn measured(programs: &[(String, ProgramStats)]) -> Option<(u64, Nanos)> {
    let sum = |read: fn(&ProgramStats) -> u64| programs.iter().map(|(_, stats)| read(stats)).sum();
    let (runs, time): (u64, u64) = (sum(|stats| stats.runs), sum(|stats| stats.run_time_ns));
    (runs > 0).then_some((runs, Nanos(time)))
}

/// What one of two programs on a hook misses, the other one sees.
pub(crate) fn events_missed(programs: &[(String, ProgramStats)]) -> u64 {
    let alone = |program: &str| !HOOKS.iter().any(|hook| hook.program == program && hook.has_twin());
    programs.iter().filter(|(program, _)| alone(program)).map(|(_, stats)| stats.missed).sum()
}
