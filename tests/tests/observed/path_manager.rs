// SPDX-License-Identifier: MIT OR Apache-2.0
//! Opens subflows of connections that the userspace path manager controls, by the netlink command MPTCP_PM_CMD_SUBFLOW_CREATE.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsRawFd as _;

use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, recv, send, socket};

const SUBFLOW_CREATE: u8 = 10;
const NESTED: u16 = 0x8000;
/// The address id of the subflow.
const LOCAL_ID: u8 = 7;

fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let mut bytes = [u16::try_from(4 + value.len()).unwrap().to_ne_bytes(), kind.to_ne_bytes()].concat();
    bytes.extend(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

fn address(address: IpAddr, more: Vec<u8>) -> Vec<u8> {
    let IpAddr::V4(v4) = address else { panic!("only IPv4: {address}") };
    [attribute(1, &2_u16.to_ne_bytes()), attribute(3, &v4.octets()), more].concat()
}

/// Sends a request and returns the first answer, without its header.
fn request(kind: u16, flags: u16, body: &[u8]) -> io::Result<Vec<u8>> {
    let netlink =
        socket(AddressFamily::Netlink, SockType::Raw, SockFlag::SOCK_CLOEXEC, SockProtocol::NetlinkGeneric)?;
    let mut message = u32::try_from(16 + body.len()).unwrap().to_ne_bytes().to_vec();
    message.extend([kind.to_ne_bytes(), flags.to_ne_bytes()].concat());
    message.extend([0; 8]);
    message.extend(body);
    send(netlink.as_raw_fd(), &message, MsgFlags::empty())?;
    let mut buffer = vec![0; 1 << 14];
    let length = recv(netlink.as_raw_fd(), &mut buffer, MsgFlags::empty())?;
    Ok(buffer[16..length].to_vec())
}

/// The number of the family `mptcp_pm`: the attribute with type 1.
fn family() -> io::Result<u16> {
    let name = attribute(2, b"mptcp_pm\0");
    let answer = request(0x10, 1, &[vec![3, 1, 0, 0], name].concat())?;
    let mut attributes = &answer[4..];
    while let [a, b, c, d, rest @ ..] = attributes {
        let length = usize::from(u16::from_ne_bytes([*a, *b]));
        if u16::from_ne_bytes([*c, *d]) == 1 {
            return Ok(u16::from_ne_bytes([rest[0], rest[1]]));
        }
        attributes = &attributes[length.next_multiple_of(4)..];
    }
    Err(io::Error::other("the kernel has no family mptcp_pm"))
}

/// Opens a subflow of the connection with this token, in the namespace of the calling thread.
pub(crate) fn create_subflow(token: u32, local: IpAddr, remote: SocketAddr) -> io::Result<()> {
    let id = attribute(2, &[LOCAL_ID]);
    let port = attribute(5, &remote.port().to_ne_bytes());
    let body = [
        vec![SUBFLOW_CREATE, 1, 0, 0],
        attribute(1 | NESTED, &address(local, id)),
        attribute(4, &token.to_ne_bytes()),
        attribute(6 | NESTED, &address(remote.ip(), port)),
    ];
    let answer = request(family()?, 5, &body.concat())?;
    match i32::from_ne_bytes(answer[..4].try_into().unwrap()) {
        0 => Ok(()),
        code => Err(io::Error::from_raw_os_error(-code)),
    }
}
