// SPDX-License-Identifier: MIT OR Apache-2.0
//! Identifies the network namespace of a file by its cookie, which the kernel never reuses, unlike the inode. A BPF program reads the cookie,
//! because entering the namespace would require CAP_SYS_ADMIN.

use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;
use std::{io, ptr};

use libbpf_rs::Object;
use mpwatch_model::id::NetnsCookie;
use nix::sched::CloneFlags;

use crate::namespace::is_namespace_file;

const PROGRAM: &str = "netns_cookie";

nix::ioctl_none!(
    /// The kind of a namespace file (ioctl_ns(2)).
    ns_get_nstype,
    0xb7,
    3
);

/// Reads cookies of network namespaces. Usable on any thread.
#[derive(Debug)]
pub struct CookieReader {
    program: OwnedFd,
}

impl CookieReader {
    /// `None`: the program is not loaded.
    pub(crate) fn new(object: &Object) -> Option<Self> {
        let program = object.progs().find(|program| program.name() == PROGRAM && program.autoload())?;
        Some(Self { program: program.as_fd().try_clone_to_owned().ok()? })
    }

    /// The cookie of the network namespace of a file such as `/run/netns/NAME`. `Ok(None)`: it is not a network namespace. For example, it is a
    /// plain file before the namespace is mounted on it and after it is unmounted.
    /// Fails if the file cannot be opened, or the kernel cannot run the program.
    pub fn cookie(&self, path: &Path) -> io::Result<Option<NetnsCookie>> {
        let file = File::open(path)?;
        if !is_namespace_file(&file)? {
            return Ok(None);
        }
        // SAFETY: the request takes no argument and the descriptor is open.
        let kind = unsafe { ns_get_nstype(file.as_raw_fd()) }?;
        if kind != CloneFlags::CLONE_NEWNET.bits() {
            return Ok(None);
        }
        let descriptor = u64::try_from(file.as_raw_fd()).map_err(io::Error::other)?;
        let [low, high] = [0, 1].map(|half| self.run([descriptor, half]));
        let cookie = u64::from(high?) << 32 | u64::from(low?);
        Ok((cookie != 0).then_some(NetnsCookie(cookie)))
    }

    /// Runs the program in this thread and returns its result.
    fn run(&self, arguments: [u64; 2]) -> io::Result<u32> {
        let mut options = libbpf_sys::bpf_test_run_opts {
            sz: size_of::<libbpf_sys::bpf_test_run_opts>() as u64,
            ctx_in: arguments.as_ptr().cast(),
            ctx_size_in: u32::try_from(size_of_val(&arguments)).map_err(io::Error::other)?,
            ctx_out: ptr::null_mut(),
            ..Default::default()
        };
        // SAFETY: `options` and the arguments that it points to live until the call returns.
        let code = unsafe { libbpf_sys::bpf_prog_test_run_opts(self.program.as_raw_fd(), &raw mut options) };
        if code < 0 { Err(io::Error::from_raw_os_error(-code)) } else { Ok(options.retval) }
    }
}
