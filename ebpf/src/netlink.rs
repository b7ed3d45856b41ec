// SPDX-License-Identifier: MIT OR Apache-2.0
//! Netlink requests, each on a socket of its own in the calling thread's network namespace.

use std::io;
use std::os::fd::AsRawFd as _;

use nix::libc::{
    CTRL_ATTR_FAMILY_ID, CTRL_ATTR_FAMILY_NAME, CTRL_CMD_GETFAMILY, GENL_ID_CTRL, NLM_F_ACK, NLM_F_DUMP,
    NLM_F_REQUEST, NLMSG_DONE, NLMSG_ERROR,
};
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, recv, send, setsockopt, socket, sockopt,
};
use nix::sys::time::{TimeVal, TimeValLike as _};

/// `nlmsghdr`: length, type, flags, sequence number, port.
const HEADER: usize = 16;
/// `genlmsghdr`: command, version, two bytes of padding.
const GENERIC_HEADER: usize = 4;
/// The kernel answers within the system call. A lost answer must not block the calling thread forever.
const TIMEOUT_SECONDS: i64 = 2;
const BUFFER: usize = 1 << 16;
/// The bits of an attribute's type without NLA_F_NESTED and NLA_F_NET_BYTEORDER.
const NLA_TYPE_MASK: i32 = 0x3fff;

/// Sends a request. Returns the bodies of all answers up to the acknowledgement or the end of the dump.
///
/// # Errors
/// If the kernel rejects the request or does not answer.
pub fn request(protocol: SockProtocol, kind: i32, flags: i32, body: &[u8]) -> io::Result<Vec<Vec<u8>>> {
    let socket = socket(AddressFamily::Netlink, SockType::Raw, SockFlag::SOCK_CLOEXEC, protocol)?;
    setsockopt(&socket, sockopt::ReceiveTimeout, &TimeVal::seconds(TIMEOUT_SECONDS))?;
    let mut message = u32::try_from(HEADER + body.len()).map_err(io::Error::other)?.to_ne_bytes().to_vec();
    message.extend(half(kind));
    message.extend(half(NLM_F_REQUEST | flags));
    // Sequence number and port. A socket sends one request, so the number does not matter; port 0 is the kernel.
    message.extend([0; 8]);
    message.extend(body);
    send(socket.as_raw_fd(), &message, MsgFlags::empty())?;
    let (mut answers, mut buffer) = (Vec::new(), vec![0; BUFFER]);
    loop {
        let length = recv(socket.as_raw_fd(), &mut buffer, MsgFlags::empty())?;
        for (kind, body) in messages(&buffer[..length]) {
            match kind {
                // The end of a dump may carry an error number, too.
                NLMSG_ERROR | NLMSG_DONE => return status(body).map(|()| answers),
                _ => answers.push(body.to_vec()),
            }
        }
    }
}

/// The number of a family of generic netlink.
///
/// # Errors
/// `NotFound`: the kernel has no family of this name.
pub fn generic_family(name: &str) -> io::Result<i32> {
    let name = attribute(CTRL_ATTR_FAMILY_NAME, &[name.as_bytes(), b"\0"].concat());
    let command = u8::try_from(CTRL_CMD_GETFAMILY).map_err(io::Error::other)?;
    let answers = generic(GENL_ID_CTRL, command, &name)?;
    let id = |body: &Vec<u8>| {
        let value = find_attribute(body.get(GENERIC_HEADER..)?, CTRL_ATTR_FAMILY_ID)?;
        Some(u16::from_ne_bytes(*value.first_chunk()?).into())
    };
    answers.iter().find_map(id).ok_or_else(|| io::ErrorKind::NotFound.into())
}

/// Sends a command of generic netlink. Returns the bodies of all answers.
///
/// # Errors
/// If the kernel rejects the command.
pub fn generic(family: i32, command: u8, attributes: &[u8]) -> io::Result<Vec<Vec<u8>>> {
    let body = [&[command, 1, 0, 0], attributes].concat();
    request(SockProtocol::NetlinkGeneric, family, NLM_F_ACK, &body)
}

/// Lists all objects of a family of generic netlink. Returns the attributes of each answer.
///
/// # Errors
/// If the kernel rejects the command.
pub fn generic_list(family: i32, command: u8) -> io::Result<Vec<Vec<u8>>> {
    let answers = request(SockProtocol::NetlinkGeneric, family, NLM_F_DUMP, &[command, 1, 0, 0])?;
    Ok(answers.into_iter().map(|body| body.get(GENERIC_HEADER..).unwrap_or_default().to_vec()).collect())
}

/// A message type or flags as 16 bits. The C library defines the constants as `int`.
fn half(number: i32) -> [u8; 2] {
    u16::try_from(number).unwrap_or_default().to_ne_bytes()
}

/// An attribute: length, type, value, padding.
#[must_use]
pub fn attribute(kind: i32, value: &[u8]) -> Vec<u8> {
    let length = u16::try_from(4 + value.len()).unwrap_or(u16::MAX);
    let mut bytes = [&length.to_ne_bytes()[..], &half(kind), value].concat();
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// The value of the first attribute with this type, without regard to the flags in the type.
#[must_use]
pub fn find_attribute(mut bytes: &[u8], wanted: i32) -> Option<&[u8]> {
    loop {
        let length = usize::from(u16::from_ne_bytes(*bytes.first_chunk()?));
        let value = bytes.get(4..length)?;
        if i32::from(u16::from_ne_bytes([bytes[2], bytes[3]])) & NLA_TYPE_MASK == wanted {
            return Some(value);
        }
        bytes = bytes.get(length.next_multiple_of(4)..)?;
    }
}

/// Splits a datagram into types and bodies.
fn messages(mut bytes: &[u8]) -> impl Iterator<Item = (i32, &[u8])> {
    std::iter::from_fn(move || {
        let length = usize::try_from(u32::from_ne_bytes(*bytes.first_chunk()?)).ok()?;
        let body = bytes.get(HEADER..length)?;
        let kind = u16::from_ne_bytes([bytes[4], bytes[5]]);
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind.into(), body))
    })
}

/// The result in an acknowledgement: a negative error number, or zero.
fn status(body: &[u8]) -> io::Result<()> {
    match body.first_chunk().map(|bytes| i32::from_ne_bytes(*bytes)) {
        Some(0) | None => Ok(()),
        Some(code) => Err(io::Error::from_raw_os_error(code.saturating_neg())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attribute_is_padded_and_found() {
        let bytes = [attribute(1, &[7]), attribute(2, &[1, 2, 3, 4]), attribute(3, b"x\0")].concat();
        assert_eq!(bytes.len(), 8 + 8 + 8);
        assert_eq!(find_attribute(&bytes, 2), Some(&[1, 2, 3, 4][..]));
        assert_eq!(find_attribute(&bytes, 3), Some(&b"x\0"[..]));
        assert_eq!(find_attribute(&bytes, 4), None);
        assert_eq!(find_attribute(&[9, 0, 1, 0], 1), None, "cut short");
    }

    #[test]
    fn a_list_that_ends_with_an_error_is_an_error() {
        assert!(status(&0_i32.to_ne_bytes()).is_ok());
        let refused = status(&(-1_i32).to_ne_bytes()).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied);
    }
}
