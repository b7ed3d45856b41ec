// SPDX-License-Identifier: MIT OR Apache-2.0
//! Laminar endpoints (Linux 6.18): the client opens subflows from them to addresses that the server announces. Uses netlink, because the
//! `ip mptcp` of Debian 12 has no such flag.

use crate::error::{Error, Result};
use crate::netns::Namespace;
use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, recv, send, socket};
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsRawFd as _, OwnedFd};

/// `struct nlmsghdr`.
const HEADER: usize = 16;
/// `struct genlmsghdr`.
const GENERIC_HEADER: usize = 4;
const NLMSG_ERROR: u16 = 2;
const NLM_F_REQUEST_ACK: u16 = 0x1 | 0x4;
/// The generic netlink family that resolves the names of other families to numbers.
const GENL_ID_CTRL: u16 = 0x10;
const CTRL_CMD_GETFAMILY: u8 = 3;
const CTRL_ATTR_FAMILY_ID: u16 = 1;
const CTRL_ATTR_FAMILY_NAME: u16 = 2;
const MPTCP_PM_CMD_ADD_ADDR: u8 = 1;
const MPTCP_PM_ATTR_ADDR: u16 = 1;
const NLA_F_NESTED: u16 = 0x8000;
const ADDRESS_FAMILY: u16 = 1;
const ADDRESS_ID: u16 = 2;
const ADDRESS_V4: u16 = 3;
const ADDRESS_FLAGS: u16 = 6;
const MPTCP_PM_ADDR_FLAG_LAMINAR: u32 = 1 << 5;

/// Adds a laminar endpoint. Kernels before 6.18 accept the endpoint and ignore the flag.
///
/// # Errors
/// If the id or the address is in use, or there are eight endpoints already.
pub fn add_laminar(namespace: &Namespace, id: u8, address: Ipv4Addr) -> Result<()> {
    let family = libc::AF_INET as u16;
    let endpoint = [
        attribute(ADDRESS_FAMILY, &family.to_ne_bytes()),
        attribute(ADDRESS_ID, &[id]),
        attribute(ADDRESS_V4, &address.octets()),
        attribute(ADDRESS_FLAGS, &MPTCP_PM_ADDR_FLAG_LAMINAR.to_ne_bytes()),
    ];
    let endpoint = attribute(MPTCP_PM_ATTR_ADDR | NLA_F_NESTED, &endpoint.concat());
    let add = || -> io::Result<()> {
        let protocol = SockProtocol::NetlinkGeneric;
        let netlink = socket(AddressFamily::Netlink, SockType::Raw, SockFlag::SOCK_CLOEXEC, protocol)?;
        let name = attribute(CTRL_ATTR_FAMILY_NAME, b"mptcp_pm\0");
        let family = request(&netlink, GENL_ID_CTRL, CTRL_CMD_GETFAMILY, &name)?;
        let number = find_attribute(&family, CTRL_ATTR_FAMILY_ID).ok_or(io::ErrorKind::NotFound)?;
        let number = u16::from_ne_bytes(number.try_into().map_err(io::Error::other)?);
        request(&netlink, number, MPTCP_PM_CMD_ADD_ADDR, &endpoint).map(drop)
    };
    namespace.enter(add)?.map_err(Error::os("add a laminar endpoint in", namespace.name()))
}

/// Sends a request. Returns the attributes of the answer; empty if the kernel sends only an acknowledgement.
fn request(netlink: &OwnedFd, family: u16, command: u8, attributes: &[u8]) -> io::Result<Vec<u8>> {
    let length = (HEADER + GENERIC_HEADER + attributes.len()) as u32;
    let mut message = length.to_ne_bytes().to_vec();
    message.extend(family.to_ne_bytes());
    message.extend(NLM_F_REQUEST_ACK.to_ne_bytes());
    message.extend([0; 8]);
    message.extend([command, 1, 0, 0]);
    message.extend(attributes);
    send(netlink.as_raw_fd(), &message, MsgFlags::empty())?;
    let (mut answer, mut buffer) = (Vec::new(), vec![0; 1 << 14]);
    loop {
        let received = recv(netlink.as_raw_fd(), &mut buffer, MsgFlags::empty())?;
        let mut left = &buffer[..received];
        while let Some((length, kind)) = header(left) {
            let (message, behind) =
                left.split_at_checked(length.next_multiple_of(4)).ok_or(io::ErrorKind::UnexpectedEof)?;
            let body = &message[HEADER..length];
            if kind == NLMSG_ERROR {
                let code = body.first_chunk().map_or(0, |code| i32::from_ne_bytes(*code));
                return if code == 0 { Ok(answer) } else { Err(io::Error::from_raw_os_error(-code)) };
            }
            answer = body.get(GENERIC_HEADER..).unwrap_or_default().to_vec();
            left = behind;
        }
    }
}

/// Length and type of the first message. `None`: `bytes` has no complete header.
fn header(bytes: &[u8]) -> Option<(usize, u16)> {
    let length = u32::from_ne_bytes(*bytes.first_chunk()?) as usize;
    let kind = u16::from_ne_bytes(*bytes.get(4..)?.first_chunk()?);
    (length >= HEADER).then_some((length, kind))
}

/// Encodes an attribute: length, type, value, padding.
fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let mut bytes = ((4 + value.len()) as u16).to_ne_bytes().to_vec();
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

fn find_attribute(mut bytes: &[u8], wanted: u16) -> Option<&[u8]> {
    loop {
        let length = usize::from(u16::from_ne_bytes(*bytes.first_chunk()?));
        let kind = u16::from_ne_bytes(*bytes.get(2..)?.first_chunk()?);
        let value = bytes.get(4..length)?;
        if kind == wanted {
            return Some(value);
        }
        bytes = bytes.get(length.next_multiple_of(4)..)?;
    }
}
