// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reading BPF iterators: a fresh descriptor for each read, its records in a buffer that is kept from read to read.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use crate::decode::SUBFLOW_BYTES;

/// Bytes asked for in one read: what the kernel's own buffer for an iterator holds.
const READ_BYTES: usize = 32 * 1024;

/// Opens an iterator. What it walks may depend on the calling thread: `iter/tcp` walks that thread's network namespace.
pub(crate) fn open(link: BorrowedFd<'_>) -> io::Result<File> {
    // SAFETY: takes a descriptor that is open for as long as the borrow, and returns a new one or a negative errno.
    let fd = unsafe { libbpf_sys::bpf_iter_create(link.as_raw_fd()) };
    if fd < 0 {
        return Err(io::Error::from_raw_os_error(-fd));
    }
    // SAFETY: the kernel has just given us this descriptor and nobody else owns it.
    Ok(File::from(unsafe { OwnedFd::from_raw_fd(fd) }))
}

/// Runs an iterator whose program works by side effect and writes nothing.
pub(crate) fn run(link: BorrowedFd<'_>) -> io::Result<()> {
    let mut iterator = open(link)?;
    let mut nothing = [0; 64];
    while iterator.read(&mut nothing)? > 0 {}
    Ok(())
}

/// Calls `each` for every record of `record_bytes` that an iterator writes. `buffer` is reused.
pub(crate) fn for_each(
    link: BorrowedFd<'_>,
    record_bytes: usize,
    buffer: &mut Vec<u8>,
    mut each: impl FnMut(&[u8]),
) -> io::Result<()> {
    debug_assert!(record_bytes <= SUBFLOW_BYTES);
    let mut iterator = open(link)?;
    let mut kept = 0;
    buffer.resize(READ_BYTES + record_bytes, 0);
    loop {
        let read = match iterator.read(&mut buffer[kept..]) {
            Ok(0) => return Ok(()),
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        let filled = kept + read;
        let whole = filled - filled % record_bytes;
        buffer[..whole].chunks_exact(record_bytes).for_each(&mut each);
        buffer.copy_within(whole..filled, 0);
        kept = filled - whole;
    }
}
