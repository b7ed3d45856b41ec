// SPDX-License-Identifier: MIT OR Apache-2.0
//! Makes a single subflow a backup, or ends that role: MPTCP_PM_CMD_SET_FLAGS with a token
//! (Documentation/netlink/specs/mptcp_pm.yaml). The kernel accepts a token only for connections of the userspace path manager. mpwatch always
//! sends a token, because without one the command changes an endpoint, and so all connections of the namespace.

use std::io;
use std::net::SocketAddr;

use mpwatch_model::id::Token;
use nix::libc::NLA_F_NESTED;

use mpwatch_ebpf::netlink::{attribute, generic, generic_family};

const FAMILY: &str = "mptcp_pm";
const MPTCP_PM_CMD_SET_FLAGS: u8 = 7;
const MPTCP_PM_ATTR_ADDR: i32 = 1;
const MPTCP_PM_ATTR_TOKEN: i32 = 4;
const MPTCP_PM_ATTR_ADDR_REMOTE: i32 = 6;
const MPTCP_PM_ADDR_ATTR_FAMILY: i32 = 1;
const MPTCP_PM_ADDR_ATTR_ADDR4: i32 = 3;
const MPTCP_PM_ADDR_ATTR_ADDR6: i32 = 4;
const MPTCP_PM_ADDR_ATTR_PORT: i32 = 5;
const MPTCP_PM_ADDR_ATTR_FLAGS: i32 = 6;
const MPTCP_PM_ADDR_FLAG_BACKUP: u32 = 1 << 2;

/// Changes the role of a subflow. The peer receives MP_PRIO.
///
/// # Errors
/// `NotFound`: the kernel has no MPTCP path manager. `InvalidInput`: the userspace path manager has no such connection.
/// `PermissionDenied`: CAP_NET_ADMIN is missing.
pub(super) fn set_backup(
    token: Token,
    local: SocketAddr,
    remote: SocketAddr,
    backup: bool,
) -> io::Result<()> {
    let flags = if backup { MPTCP_PM_ADDR_FLAG_BACKUP } else { 0 };
    let flags = attribute(MPTCP_PM_ADDR_ATTR_FLAGS, &flags.to_ne_bytes());
    let attributes = [
        attribute(MPTCP_PM_ATTR_ADDR | NLA_F_NESTED, &[address(local), flags].concat()),
        attribute(MPTCP_PM_ATTR_TOKEN, &token.0.to_ne_bytes()),
        attribute(MPTCP_PM_ATTR_ADDR_REMOTE | NLA_F_NESTED, &address(remote)),
    ];
    generic(generic_family(FAMILY)?, MPTCP_PM_CMD_SET_FLAGS, &attributes.concat()).map(drop)
}

/// Whether the kernel has MPTCP's path manager. Fails if generic netlink cannot be used at all.
pub(super) fn exists() -> io::Result<bool> {
    generic_family(FAMILY).map(|_| true).or_else(|error| match error.kind() {
        io::ErrorKind::NotFound => Ok(false),
        _ => Err(error),
    })
}

fn address(address: SocketAddr) -> Vec<u8> {
    let (family, ip) = match address {
        SocketAddr::V4(v4) => (2_u16, attribute(MPTCP_PM_ADDR_ATTR_ADDR4, &v4.ip().octets())),
        SocketAddr::V6(v6) => (10, attribute(MPTCP_PM_ADDR_ATTR_ADDR6, &v6.ip().octets())),
    };
    [
        attribute(MPTCP_PM_ADDR_ATTR_FAMILY, &family.to_ne_bytes()),
        ip,
        attribute(MPTCP_PM_ADDR_ATTR_PORT, &address.port().to_ne_bytes()),
    ]
    .concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use mpwatch_ebpf::netlink::find_attribute;

    #[test]
    fn an_address_has_its_family_and_port() {
        let bytes = address("10.0.0.1:5201".parse().unwrap());
        assert_eq!(find_attribute(&bytes, MPTCP_PM_ADDR_ATTR_ADDR4), Some(&[10, 0, 0, 1][..]));
        assert_eq!(find_attribute(&bytes, MPTCP_PM_ADDR_ATTR_PORT), Some(&5201_u16.to_ne_bytes()[..]));
        let bytes = address("[fd00::1]:1".parse().unwrap());
        assert_eq!(find_attribute(&bytes, MPTCP_PM_ADDR_ATTR_ADDR6).map(<[u8]>::len), Some(16));
    }
}
