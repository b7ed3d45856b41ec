// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads the queues of an interface repeatedly over a netlink socket that stays open, because running `tc` twenty times a second for each
//! of many queues would disturb the measurement.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};

use mpwatch_lab::link::QueueCounters;
use mpwatch_lab::{Error, Namespace, Result};
use nix::net::if_::if_nametoindex;
use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, recv, send, socket};

const GET_QDISC: u16 = 38;
const REQUEST_DUMP: u16 = 0x301;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const HEADER: usize = 16;
/// `struct tcmsg`.
const MESSAGE: usize = 20;
const STATS2: u16 = 7;
const STATS_BASIC: u16 = 1;
const STATS_QUEUE: u16 = 3;

/// The queues of an interface by the major number of their handle. The rate limit has the handle `1:`.
pub(crate) type QueuesByHandle = BTreeMap<u16, QueueCounters>;

/// Reads the queues of one interface.
#[derive(Debug)]
pub(crate) struct QueueReader {
    netlink: OwnedFd,
    index: u32,
}

impl QueueReader {
    /// Opens a reader for an interface.
    pub(crate) fn open(namespace: &Namespace, interface: &str) -> Result<Self> {
        namespace.enter(|| {
            let index = if_nametoindex(interface).map_err(cannot("find", interface))?;
            let netlink = socket(
                AddressFamily::Netlink,
                SockType::Raw,
                SockFlag::SOCK_CLOEXEC,
                SockProtocol::NetlinkRoute,
            )
            .map_err(cannot("open", "rtnetlink"))?;
            Ok(Self { netlink, index })
        })?
    }

    /// The current length and counters of the interface's queues.
    pub(crate) fn read(&self) -> Result<QueuesByHandle> {
        self.dump().map_err(cannot("read", "queues"))
    }

    fn dump(&self) -> io::Result<QueuesByHandle> {
        let mut request = Vec::with_capacity(HEADER + MESSAGE);
        request.extend(u32::try_from(HEADER + MESSAGE).map_err(io::Error::other)?.to_ne_bytes());
        request.extend(GET_QDISC.to_ne_bytes());
        request.extend(REQUEST_DUMP.to_ne_bytes());
        request.extend([0; 8 + MESSAGE]); // sequence number, port id, and a tcmsg that selects all queues
        send(self.netlink.as_raw_fd(), &request, MsgFlags::empty())?;
        let mut found = QueuesByHandle::new();
        let mut buffer = vec![0; 1 << 16];
        loop {
            let length = recv(self.netlink.as_raw_fd(), &mut buffer, MsgFlags::empty())?;
            for (kind, body) in messages(&buffer[..length]) {
                match kind {
                    NLMSG_DONE => return Ok(found),
                    NLMSG_ERROR => return Err(io::ErrorKind::Unsupported.into()),
                    _ => found.extend(parse(body, self.index)),
                }
            }
        }
    }
}

/// For `map_err`: adds operation and object to an error.
fn cannot<E: Into<io::Error>>(operation: &'static str, object: &str) -> impl FnOnce(E) -> Error {
    move |source| Error::Os { operation, object: object.to_owned(), source: source.into() }
}

/// Splits a datagram into messages, each as type and body.
fn messages(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let length = u32_at(bytes, 0)? as usize;
        let kind = u16_at(bytes, 4)?;
        let body = bytes.get(HEADER..length)?;
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or(&[]);
        Some((kind, body))
    })
}

fn u16_at(bytes: &[u8], offset: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(offset..offset + 2)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], offset: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(offset..offset + 4)?.try_into().ok()?))
}

fn u64_at(bytes: &[u8], offset: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(bytes.get(offset..offset + 8)?.try_into().ok()?))
}

/// The body of the first attribute of a type. `None`: there is no such attribute.
fn attribute(mut bytes: &[u8], wanted: u16) -> Option<&[u8]> {
    const NESTED: u16 = 0x8000;
    loop {
        let length = usize::from(u16_at(bytes, 0)?);
        let kind = u16_at(bytes, 2)? & !NESTED;
        let body = bytes.get(4..length)?;
        if kind == wanted {
            return Some(body);
        }
        bytes = bytes.get(length.next_multiple_of(4)..)?;
    }
}

/// Parses `struct tcmsg` with its attributes: major number of the handle, and counters. `None`: for another interface, or incomplete.
fn parse(body: &[u8], interface: u32) -> Option<(u16, QueueCounters)> {
    if u32_at(body, 4)? != interface {
        return None;
    }
    let major = (u32_at(body, 8)? >> 16) as u16;
    let stats = attribute(body.get(MESSAGE..)?, STATS2)?;
    let (basic, queue) = (attribute(stats, STATS_BASIC)?, attribute(stats, STATS_QUEUE)?);
    let counters = QueueCounters {
        backlog: u64::from(u32_at(queue, 4)?),
        qlen: u64::from(u32_at(queue, 0)?),
        drops: u64::from(u32_at(queue, 8)?),
        bytes: u64_at(basic, 0)?,
        packets: u64::from(u32_at(basic, 8)?),
    };
    Some((major, counters))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encode(kind: u16, body: &[u8]) -> Vec<u8> {
        let mut bytes = u16::try_from(body.len() + 4).unwrap().to_ne_bytes().to_vec();
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(body);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    #[test]
    fn a_queue_is_parsed_from_its_attributes() {
        let mut basic = 9_000_u64.to_ne_bytes().to_vec();
        basic.extend(6_u32.to_ne_bytes());
        basic.extend([0; 4]);
        let queue: Vec<u8> = [2_u32, 3_000, 5, 0, 0].iter().flat_map(|n| n.to_ne_bytes()).collect();
        let stats = [encode(STATS_BASIC, &basic), encode(STATS_QUEUE, &queue)].concat();
        let mut body = vec![0; MESSAGE];
        body[4] = 7;
        body[8..12].copy_from_slice(&0x1_0000_u32.to_ne_bytes());
        body.extend(encode(1, b"tbf\0"));
        body.extend(encode(STATS2 | 0x8000, &stats));
        let expected = QueueCounters { backlog: 3_000, qlen: 2, drops: 5, bytes: 9_000, packets: 6 };
        assert_eq!(parse(&body, 7), Some((1, expected)));
        assert_eq!(parse(&body, 8), None);
        assert_eq!(parse(&body[..MESSAGE + 6], 7), None, "truncated");
    }
}
