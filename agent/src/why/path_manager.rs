// SPDX-License-Identifier: MIT OR Apache-2.0
//! Endpoints and limits of the in-kernel path manager (Documentation/netlink/specs/mptcp_pm.yaml), which any user may read.

use std::io;
use std::net::IpAddr;

use mpwatch_ebpf::netlink::{find_attribute, generic, generic_family, generic_list};
use mpwatch_model::why::facts::{Endpoint, Limits};
use nix::net::if_::if_indextoname;

const FAMILY: &str = "mptcp_pm";
const CMD_GET_ADDR: u8 = 3;
const CMD_GET_LIMITS: u8 = 6;
const ATTR_ADDR: i32 = 1;
const ATTR_RCV_ADD_ADDRS: i32 = 2;
const ATTR_SUBFLOWS: i32 = 3;
const ADDR_ID: i32 = 2;
const ADDR_ADDR4: i32 = 3;
const ADDR_ADDR6: i32 = 4;
const ADDR_PORT: i32 = 5;
const ADDR_FLAGS: i32 = 6;
const ADDR_IF_IDX: i32 = 7;
/// Size of `genlmsghdr` in bytes.
const GENERIC_HEADER: usize = 4;

pub(super) fn limits() -> io::Result<Limits> {
    let answers = generic(generic_family(FAMILY)?, CMD_GET_LIMITS, &[])?;
    let attributes = answers.first().and_then(|body| body.get(GENERIC_HEADER..)).unwrap_or_default();
    let limit = |kind| number(attributes, kind).unwrap_or(0);
    Ok(Limits { subflows: limit(ATTR_SUBFLOWS), add_addr_accepted: limit(ATTR_RCV_ADD_ADDRS) })
}

pub(super) fn endpoints() -> io::Result<Vec<Endpoint>> {
    let answers = generic_list(generic_family(FAMILY)?, CMD_GET_ADDR)?;
    Ok(answers.iter().filter_map(|attributes| endpoint(find_attribute(attributes, ATTR_ADDR)?)).collect())
}

fn endpoint(attributes: &[u8]) -> Option<Endpoint> {
    let four = || Some(IpAddr::from(*find_attribute(attributes, ADDR_ADDR4)?.first_chunk::<4>()?));
    let six = || Some(IpAddr::from(*find_attribute(attributes, ADDR_ADDR6)?.first_chunk::<16>()?));
    let index = number(attributes, ADDR_IF_IDX).filter(|index| *index > 0);
    let port = find_attribute(attributes, ADDR_PORT).and_then(|port| port.first_chunk());
    let port = port.map(|port| u16::from_ne_bytes(*port));
    Some(Endpoint {
        id: *find_attribute(attributes, ADDR_ID)?.first()?,
        address: four().or_else(six)?,
        device: index.map(|index| name(index).unwrap_or_else(|| format!("if{index}"))),
        flags: number(attributes, ADDR_FLAGS).unwrap_or(0),
        port: port.filter(|port| *port > 0),
    })
}

/// The name of an interface of the calling thread's namespace.
pub(super) fn name(index: u32) -> Option<String> {
    if_indextoname(index).ok()?.into_string().ok()
}

fn number(attributes: &[u8], kind: i32) -> Option<u32> {
    Some(u32::from_ne_bytes(*find_attribute(attributes, kind)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use mpwatch_ebpf::netlink::attribute;

    #[test]
    fn an_endpoint_is_parsed_from_its_attributes() {
        let bytes = [
            attribute(ADDR_ID, &[2]),
            attribute(ADDR_ADDR4, &[10, 2, 1, 2]),
            attribute(ADDR_FLAGS, &6_u32.to_ne_bytes()),
            attribute(ADDR_PORT, &8080_u16.to_ne_bytes()),
        ];
        let found = endpoint(&bytes.concat()).unwrap();
        assert_eq!((found.id, found.address, found.device.as_deref()), (2, [10, 2, 1, 2].into(), None));
        assert_eq!(found.port, Some(8080));
        assert!(found.has(Endpoint::SUBFLOW) && found.has(Endpoint::BACKUP) && !found.has(Endpoint::SIGNAL));
        assert_eq!(endpoint(&bytes[..1].concat()), None, "without an address");
    }
}
