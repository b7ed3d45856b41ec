// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernel's run-time statistics of BPF programs (`BPF_ENABLE_STATS`), and an empty program for comparison. Only the crate bench uses this.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::ptr;

use libbpf_sys::bpf_insn;

use crate::tracer::program::{self, ProgramStats};

/// Enables run-time statistics of all BPF programs of this machine until the result is dropped. Changes no sysctl.
/// Fails if a capability is missing.
pub fn enable() -> io::Result<OwnedFd> {
    // SAFETY: takes no pointers.
    owned(unsafe { libbpf_sys::bpf_enable_stats(libbpf_sys::BPF_STATS_RUN_TIME) })
}

/// A program that returns at once, attached to a tracepoint. Its run time is the overhead of the statistics.
#[derive(Debug)]
pub struct EmptyProgram {
    // First, so that the program is detached before it is closed.
    _link: OwnedFd,
    program: OwnedFd,
}

impl EmptyProgram {
    /// Loads the program and attaches it to a tracepoint such as `sys_enter`.
    /// Fails if the kernel refuses to load or attach the program.
    pub fn attach(tracepoint: &CStr) -> io::Result<Self> {
        // r0 = 0; exit
        let instructions = [0xb7, 0x95].map(|code: u8| bpf_insn { code, ..bpf_insn::default() });
        // SAFETY: name, licence and instructions live through the call, the length is the number of instructions, and options may be NULL.
        let program = owned(unsafe {
            libbpf_sys::bpf_prog_load(
                libbpf_sys::BPF_PROG_TYPE_RAW_TRACEPOINT,
                c"empty".as_ptr(),
                c"GPL".as_ptr(),
                instructions.as_ptr(),
                instructions.len() as libbpf_sys::size_t,
                ptr::null_mut(),
            )
        })?;
        // SAFETY: the name lives through the call, the descriptor is open.
        let link = unsafe { libbpf_sys::bpf_raw_tracepoint_open(tracepoint.as_ptr(), program.as_raw_fd()) };
        Ok(Self { _link: owned(link)?, program })
    }

    /// The kernel's statistics of the program.
    pub fn stats(&self) -> io::Result<ProgramStats> {
        program::read_stats(self.program.as_fd())
    }
}

/// Owns a descriptor that libbpf has just opened. A negative value is an error number.
fn owned(fd: RawFd) -> io::Result<OwnedFd> {
    if fd < 0 {
        return Err(io::Error::from_raw_os_error(-fd));
    }
    // SAFETY: the kernel has just given us this descriptor and nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}
