// SPDX-License-Identifier: MIT OR Apache-2.0
//! Netlink requests of the control: one at a time, on a socket of the calling thread's network namespace.

use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};

use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, recv, send, setsockopt, socket, sockopt,
};
use nix::sys::time::{TimeVal, TimeValLike as _};

/// `nlmsghdr`: length, type, flags, sequence number, port.
const HEADER: usize = 16;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const NLM_F_REQUEST: u16 = 0x1;
const NLM_F_ACK: u16 = 0x4;
const NLM_F_DUMP: u16 = 0x300;
/// The kernel answers within the system call. A lost answer must not block the tracer for good.
const TIMEOUT_SECONDS: i64 = 2;
const BUFFER: usize = 1 << 16;

/// A netlink socket.
pub(super) struct Netlink {
    socket: OwnedFd,
}

impl Netlink {
    pub(super) fn open(protocol: SockProtocol) -> io::Result<Self> {
        let socket = socket(AddressFamily::Netlink, SockType::Raw, SockFlag::SOCK_CLOEXEC, protocol)?;
        setsockopt(&socket, sockopt::ReceiveTimeout, &TimeVal::seconds(TIMEOUT_SECONDS))?;
        Ok(Self { socket })
    }

    /// Sends a request that is acknowledged. Returns the bodies of the answers before the acknowledgement.
    pub(super) fn request(&self, kind: u16, body: &[u8]) -> io::Result<Vec<Vec<u8>>> {
        self.exchange(kind, NLM_F_REQUEST | NLM_F_ACK, body)
    }

    /// Requests a list. Returns the bodies of its entries.
    pub(super) fn dump(&self, kind: u16, body: &[u8]) -> io::Result<Vec<Vec<u8>>> {
        self.exchange(kind, NLM_F_REQUEST | NLM_F_DUMP, body)
    }

    fn exchange(&self, kind: u16, flags: u16, body: &[u8]) -> io::Result<Vec<Vec<u8>>> {
        let length = u32::try_from(HEADER + body.len()).map_err(io::Error::other)?;
        let mut message = Vec::with_capacity(HEADER + body.len());
        message.extend(length.to_ne_bytes());
        message.extend(kind.to_ne_bytes());
        message.extend(flags.to_ne_bytes());
        // There is one request at a time, so its sequence number does not matter; port 0 is the kernel.
        message.extend([0; 8]);
        message.extend(body);
        send(self.socket.as_raw_fd(), &message, MsgFlags::empty())?;
        let (mut answers, mut buffer) = (Vec::new(), vec![0; BUFFER]);
        loop {
            let length = recv(self.socket.as_raw_fd(), &mut buffer, MsgFlags::empty())?;
            for (kind, body) in messages(buffer.get(..length).unwrap_or_default()) {
                match kind {
                    // A list may end with an error as well.
                    NLMSG_ERROR | NLMSG_DONE => return status(body).map(|()| answers),
                    _ => answers.push(body.to_vec()),
                }
            }
        }
    }
}

/// An attribute: length, type, value, padding.
pub(super) fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let length = u16::try_from(4 + value.len()).unwrap_or(u16::MAX);
    let mut text = [length.to_ne_bytes(), kind.to_ne_bytes()].concat();
    text.extend(value);
    text.resize(text.len().next_multiple_of(4), 0);
    text
}

/// The value of the first attribute with this type.
pub(super) fn find_attribute(mut bytes: &[u8], wanted: u16) -> Option<&[u8]> {
    loop {
        let length = usize::from(u16::from_ne_bytes(bytes.get(..2)?.try_into().ok()?));
        let kind = u16::from_ne_bytes(bytes.get(2..4)?.try_into().ok()?);
        let value = bytes.get(4..length)?;
        if kind == wanted {
            return Some(value);
        }
        bytes = bytes.get(length.next_multiple_of(4)..)?;
    }
}

/// Splits a datagram into types and bodies.
fn messages(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let length = usize::try_from(u32::from_ne_bytes(bytes.get(..4)?.try_into().ok()?)).ok()?;
        let kind = u16::from_ne_bytes(bytes.get(4..6)?.try_into().ok()?);
        let body = bytes.get(HEADER..length)?;
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, body))
    })
}

/// The result in an acknowledgement: a negative error number, or zero.
fn status(body: &[u8]) -> io::Result<()> {
    let code = body.get(..4).and_then(|bytes| bytes.try_into().ok()).map(i32::from_ne_bytes);
    match code {
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
