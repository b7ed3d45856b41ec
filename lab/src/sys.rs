// SPDX-License-Identifier: MIT OR Apache-2.0
//! System calls that no safe crate wraps: batches on packet sockets, the
//! ethtool ioctl, socket options read as bytes, perf counters of threads. This is the lab's only `unsafe` code.
#![allow(unsafe_code)]

use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::ptr::{addr_of_mut, from_mut, from_ref, null_mut};

/// Maximum number of frames per call.
pub(crate) const BATCH: usize = 64;

/// Reads a socket option into `buffer` and returns the number of bytes that the kernel wrote.
pub(crate) fn socket_option(
    socket: &impl AsFd,
    level: i32,
    name: i32,
    buffer: &mut [u8],
) -> io::Result<usize> {
    let mut length = socklen(buffer.len());
    // SAFETY: `buffer` is writable for `length` bytes, and the kernel writes at most `length` bytes.
    let answer = unsafe {
        libc::getsockopt(socket.as_fd().as_raw_fd(), level, name, buffer.as_mut_ptr().cast(), &raw mut length)
    };
    check(answer)?;
    Ok((length as usize).min(buffer.len()))
}

/// As [`socket_option`], for an option whose argument contains pointers to two arrays (`MPTCP_FULL_INFO`).
/// First writes the arrays' addresses at the given offsets of `argument`.
pub(crate) fn socket_option_with_arrays(
    socket: &impl AsFd,
    level: i32,
    name: i32,
    argument: &mut [u8],
    arrays: [(usize, &mut [u8]); 2],
) -> io::Result<usize> {
    for (offset, array) in arrays {
        let address = (array.as_mut_ptr() as u64).to_ne_bytes();
        argument
            .get_mut(offset..offset + address.len())
            .ok_or(io::ErrorKind::InvalidInput)?
            .copy_from_slice(&address);
    }
    // `argument` contains the arrays' sizes. The arrays outlive the call, because the caller borrows them,
    // and the kernel keeps no pointer.
    socket_option(socket, level, name, argument)
}

/// Sets an integer socket option.
pub(crate) fn set_socket_option(socket: &impl AsFd, level: i32, name: i32, value: i32) -> io::Result<()> {
    // SAFETY: the pointer is to a live i32 and the length is its size.
    let answer = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            level,
            name,
            from_ref(&value).cast(),
            socklen(size_of::<i32>()),
        )
    };
    check(answer)
}

/// Opens a packet socket that receives all frames that arrive at interface `index`, but no outgoing frames.
/// Its receive and send buffer have `buffer` bytes each, even above the host's limit.
pub(crate) fn packet_socket(index: u32, buffer: usize) -> io::Result<OwnedFd> {
    // Protocol 0: nothing arrives until `bind` selects the interface.
    // SAFETY: no pointers are passed; the descriptor is checked and has exactly one owner.
    let socket = unsafe {
        let fd = libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0);
        check(fd)?;
        OwnedFd::from_raw_fd(fd)
    };
    let bytes = i32::try_from(buffer).unwrap_or(i32::MAX);
    set_socket_option(&socket, libc::SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)?;
    set_socket_option(&socket, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, bytes)?;
    set_socket_option(&socket, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, bytes)?;
    set_socket_option(&socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1)?;
    // SAFETY: sockaddr_ll is plain integers, for which zero is valid.
    let mut address: libc::sockaddr_ll = unsafe { zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
    address.sll_ifindex = index.cast_signed();
    // SAFETY: the pointer is to a live sockaddr_ll and the length is its size.
    let answer = unsafe {
        libc::bind(socket.as_raw_fd(), from_ref(&address).cast(), socklen(size_of::<libc::sockaddr_ll>()))
    };
    check(answer)?;
    Ok(socket)
}

const PACKET_IGNORE_OUTGOING: i32 = 23;
const TIMESTAMP_SPACE: usize = 64;

/// One frame that [`receive_frames`] received.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Arrival {
    /// Length of the frame in bytes.
    pub(crate) length: usize,
    /// Time at which the kernel received the frame: `CLOCK_REALTIME` in nanoseconds; 0 if the kernel set no timestamp.
    pub(crate) timestamp: i64,
}

/// Receives up to [`BATCH`] frames without waiting, each into an element of `frames`. Returns the number of frames.
pub(crate) fn receive_frames(
    socket: &OwnedFd,
    frames: &mut [Vec<u8>],
    arrivals: &mut [Arrival; BATCH],
) -> io::Result<usize> {
    let count = frames.len().min(BATCH);
    // SAFETY: mmsghdr and iovec are integers and pointers, for which zero is valid.
    let (mut headers, mut parts): ([libc::mmsghdr; BATCH], [libc::iovec; BATCH]) =
        unsafe { (zeroed(), zeroed()) };
    let mut timestamps = [[0_u64; TIMESTAMP_SPACE / 8]; BATCH];
    for (index, frame) in frames.iter_mut().take(count).enumerate() {
        parts[index].iov_base = frame.as_mut_ptr().cast();
        parts[index].iov_len = frame.len();
        let header = &mut headers[index].msg_hdr;
        header.msg_iov = from_mut(&mut parts[index]);
        header.msg_iovlen = 1;
        header.msg_control = timestamps[index].as_mut_ptr().cast();
        header.msg_controllen = TIMESTAMP_SPACE;
    }
    // SAFETY: each header points to one iovec of a live, distinct Vec with its length, and to TIMESTAMP_SPACE
    // aligned bytes; all outlive the call, and `count` is at most the length of the arrays.
    let received = unsafe {
        libc::recvmmsg(socket.as_raw_fd(), headers.as_mut_ptr(), count as u32, libc::MSG_DONTWAIT, null_mut())
    };
    check(received)?;
    let received = received.unsigned_abs() as usize;
    for (arrival, header) in arrivals.iter_mut().zip(&headers).take(received) {
        *arrival = Arrival { length: header.msg_len as usize, timestamp: timestamp(&header.msg_hdr) };
    }
    Ok(received)
}

fn timestamp(header: &libc::msghdr) -> i64 {
    // SAFETY: `header` was filled by recvmmsg and its control buffer is alive and aligned; CMSG_FIRSTHDR
    // returns null or a pointer into it, and the length is checked before the timespec is read.
    unsafe {
        let first = libc::CMSG_FIRSTHDR(header);
        let wanted = libc::CMSG_LEN(size_of::<libc::timespec>() as u32) as usize;
        if first.is_null() || (*first).cmsg_type != libc::SCM_TIMESTAMPNS || (*first).cmsg_len < wanted {
            return 0;
        }
        let time: libc::timespec = libc::CMSG_DATA(first).cast::<libc::timespec>().read_unaligned();
        time.tv_sec * 1_000_000_000 + time.tv_nsec
    }
}

/// Sends up to [`BATCH`] frames. Returns the number that the interface's queue accepted before it dropped a frame.
pub(crate) fn send_frames(socket: &OwnedFd, frames: &[&[u8]]) -> io::Result<usize> {
    let count = frames.len().min(BATCH);
    // SAFETY: as in `receive_frames`.
    let (mut headers, mut parts): ([libc::mmsghdr; BATCH], [libc::iovec; BATCH]) =
        unsafe { (zeroed(), zeroed()) };
    for (index, frame) in frames.iter().take(count).enumerate() {
        parts[index].iov_base = frame.as_ptr().cast_mut().cast();
        parts[index].iov_len = frame.len();
        headers[index].msg_hdr.msg_iov = from_mut(&mut parts[index]);
        headers[index].msg_hdr.msg_iovlen = 1;
    }
    // SAFETY: each header points to one iovec of a live slice with its length; sending only reads them,
    // and `count` is at most the length of the arrays.
    let sent =
        unsafe { libc::sendmmsg(socket.as_raw_fd(), headers.as_mut_ptr(), count as u32, libc::MSG_DONTWAIT) };
    check(sent)?;
    Ok(sent.unsigned_abs() as usize)
}

#[repr(C)]
struct EthtoolValue {
    command: u32,
    value: u32,
}

const SIOCETHTOOL: libc::c_ulong = 0x8946;

/// Runs an ethtool command that sets a value, on an interface of the calling thread's namespace.
pub(crate) fn ethtool_set(interface: &str, command: u32, value: u32) -> io::Result<()> {
    // SAFETY: no pointers are passed; the descriptor is checked and has exactly one owner.
    let socket = unsafe {
        let fd = libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0);
        check(fd)?;
        OwnedFd::from_raw_fd(fd)
    };
    // SAFETY: ifreq is integers, bytes and pointers, for which zero is valid.
    let mut request: libc::ifreq = unsafe { zeroed() };
    // The last byte stays zero, as the terminator. c_char is signed on x86 and unsigned on arm64.
    for (to, from) in request.ifr_name.iter_mut().take(libc::IFNAMSIZ - 1).zip(interface.bytes()) {
        *to = libc::c_char::from_ne_bytes([from]);
    }
    let mut argument = EthtoolValue { command, value };
    request.ifr_ifru.ifru_data = addr_of_mut!(argument).cast();
    // SAFETY: `request` and `argument`, which it points to, are live and have the layout that SIOCETHTOOL
    // expects for a command that sets a value.
    check(unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL as _, &raw mut request) })
}

fn check(answer: i32) -> io::Result<()> {
    if answer < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

fn socklen(bytes: usize) -> libc::socklen_t {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

/// Opens the perf counter `task-clock` of a thread (0: the calling thread).
pub(crate) fn open_task_clock(tid: i32) -> io::Result<OwnedFd> {
    const SOFTWARE: u64 = 1;
    const TASK_CLOCK: u64 = 1;
    const CLOSE_ON_EXEC: u64 = 8;
    // The first 64 bytes of struct perf_event_attr (PERF_ATTR_SIZE_VER0). Word 0 is type and size, word 1 config.
    let mut attributes = [0_u64; 8];
    attributes[0] = SOFTWARE | (size_of_val(&attributes) as u64) << 32;
    attributes[1] = TASK_CLOCK;
    // SAFETY: `attributes` has the size that it states and outlives the call; the other arguments are numbers.
    let fd =
        unsafe { libc::syscall(libc::SYS_perf_event_open, attributes.as_ptr(), tid, -1, -1, CLOSE_ON_EXEC) };
    let fd = i32::try_from(fd).map_err(io::Error::other)?;
    check(fd)?;
    // SAFETY: the kernel has just returned this descriptor; nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}
