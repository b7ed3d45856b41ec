// SPDX-License-Identifier: MIT OR Apache-2.0
//! Aborts TCP sockets from another process (`SOCK_DESTROY` of sock_diag). The socket fails with
//! `ECONNABORTED` and the peer receives a RST. Needs `CONFIG_INET_DIAG_DESTROY`.

use crate::error::{Error, Result};
use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, recv, send, socket};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsRawFd as _, OwnedFd};

const SOCK_DIAG_BY_FAMILY: u16 = 20;
const SOCK_DESTROY: u16 = 21;
const REQUEST_DUMP: u16 = 0x301;
const REQUEST_ACK: u16 = 0x005;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const HEADER: usize = 16;
/// `inet_diag_sockid`: ports, addresses, interface, cookie.
const ID: usize = 48;
/// Every state but LISTEN (10) and TIME_WAIT (6).
const STATES: u32 = 0xfff & !(1 << 10) & !(1 << 6);

struct FoundSocket {
    family: u8,
    id: [u8; ID],
    local: IpAddr,
    remote: IpAddr,
}

/// Aborts the connected TCP sockets of the calling thread's namespace that are selected by their local and remote address.
/// Returns how many.
pub(crate) fn abort_sockets(is_selected: impl Fn(IpAddr, IpAddr) -> bool) -> Result<usize> {
    let diag =
        socket(AddressFamily::Netlink, SockType::Raw, SockFlag::SOCK_CLOEXEC, SockProtocol::NetlinkSockDiag)
            .map_err(Error::os("open", "sock_diag"))?;
    let mut aborted = 0;
    // An IPv6 socket may have an IPv4-mapped address.
    for family in [libc::AF_INET, libc::AF_INET6] {
        let all = list(&diag, family as u8).map_err(Error::os("list", "TCP sockets"))?;
        for found in all.iter().filter(|found| is_selected(found.local, found.remote)) {
            let object = format!("a TCP socket of {}", found.local);
            if destroy(&diag, found).map_err(Error::os("abort", object))? {
                aborted += 1;
            }
        }
    }
    Ok(aborted)
}

fn request(kind: u16, flags: u16, family: u8, id: &[u8; ID]) -> Vec<u8> {
    let mut message = Vec::with_capacity(HEADER + 8 + ID);
    message.extend(((HEADER + 8 + ID) as u32).to_ne_bytes());
    message.extend(kind.to_ne_bytes());
    message.extend(flags.to_ne_bytes());
    message.extend([0; 8]); // sequence number and port id: there is one request at a time
    message.extend([family, libc::IPPROTO_TCP as u8, 0, 0]);
    message.extend(STATES.to_ne_bytes());
    message.extend(id);
    message
}

fn list(diag: &OwnedFd, family: u8) -> io::Result<Vec<FoundSocket>> {
    let message = request(SOCK_DIAG_BY_FAMILY, REQUEST_DUMP, family, &[0; ID]);
    send(diag.as_raw_fd(), &message, MsgFlags::empty())?;
    let mut found = Vec::new();
    let mut buffer = vec![0; 1 << 16];
    loop {
        let length = recv(diag.as_raw_fd(), &mut buffer, MsgFlags::empty())?;
        for (kind, body) in messages(&buffer[..length]) {
            match kind {
                NLMSG_DONE => return Ok(found),
                NLMSG_ERROR => return Err(error_of(body)),
                _ => found.extend(parse(body)),
            }
        }
    }
}

/// Returns `false` if the socket was already gone.
fn destroy(diag: &OwnedFd, found: &FoundSocket) -> io::Result<bool> {
    let message = request(SOCK_DESTROY, REQUEST_ACK, found.family, &found.id);
    send(diag.as_raw_fd(), &message, MsgFlags::empty())?;
    let mut buffer = [0; 1024];
    let length = recv(diag.as_raw_fd(), &mut buffer, MsgFlags::empty())?;
    let answer =
        messages(&buffer[..length]).find(|(kind, _)| *kind == NLMSG_ERROR).map(|(_, body)| error_of(body));
    match answer {
        Some(error) if error.raw_os_error() == Some(0) => Ok(true),
        Some(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(false),
        Some(error) => Err(error),
        None => Err(io::ErrorKind::InvalidData.into()),
    }
}

/// Splits a datagram into (type, body).
fn messages(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let length = u32::from_ne_bytes(bytes.get(..4)?.try_into().ok()?) as usize;
        let kind = u16::from_ne_bytes(bytes.get(4..6)?.try_into().ok()?);
        let body = bytes.get(HEADER..length)?;
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or(&[]);
        Some((kind, body))
    })
}

fn error_of(body: &[u8]) -> io::Error {
    let code =
        body.get(..4).and_then(|bytes| bytes.try_into().ok()).map_or(-libc::EBADMSG, i32::from_ne_bytes);
    io::Error::from_raw_os_error(-code)
}

/// `inet_diag_msg`: four bytes, then the id.
fn parse(body: &[u8]) -> Option<FoundSocket> {
    let family = *body.first()?;
    let id: [u8; ID] = body.get(4..4 + ID)?.try_into().ok()?;
    let address = |at: usize| {
        Some(if i32::from(family) == libc::AF_INET {
            IpAddr::from(Ipv4Addr::from(<[u8; 4]>::try_from(&id[at..at + 4]).ok()?))
        } else {
            IpAddr::from(Ipv6Addr::from(<[u8; 16]>::try_from(&id[at..at + 16]).ok()?)).to_canonical()
        })
    };
    // After the two ports, each address has room for IPv6.
    let (local, remote) = (address(4)?, address(20)?);
    Some(FoundSocket { family, id, local, remote })
}
