// SPDX-License-Identifier: MIT OR Apache-2.0
//! Routes as the kernel would choose them now (RTM_GETROUTE), in the calling thread's namespace.

use std::collections::BTreeSet;
use std::io;
use std::net::IpAddr;

use mpwatch_ebpf::netlink::{attribute, find_attribute, request};
use mpwatch_model::why::facts::{Namespace, NextHop, Route};
use nix::libc::{NLM_F_ACK, RTA_DST, RTA_OIF, RTA_PREFSRC, RTA_SRC, RTM_GETROUTE};
use nix::net::if_::if_nametoindex;
use nix::sys::socket::SockProtocol::NetlinkRoute;

use super::path_manager::name;

/// Size of `rtmsg` in bytes. Attributes follow it.
const MESSAGE: usize = 12;
const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;
/// Asks for the route that matches (include/uapi/linux/rtnetlink.h).
const RTM_F_FIB_MATCH: u32 = 0x2000;
/// Maximum number of peers whose routes are read.
const MAX_PEERS: usize = 64;

/// Routes to the peers of all MPTCP connections and to `peer`: the default choice and from each endpoint; then from each endpoint without its
/// interface.
pub(super) fn read(here: &Namespace, peer: Option<IpAddr>) -> (Vec<Route>, Vec<Route>) {
    let mptcp = here.connections.iter().filter(|connection| connection.token.is_some());
    let peers = peer.into_iter().chain(mptcp.map(|connection| connection.remote.ip()));
    let peers: BTreeSet<IpAddr> = peers.collect();
    let (mut routes, mut returns) = (Vec::new(), Vec::new());
    for to in peer.into_iter().chain(peers.into_iter().filter(|to| Some(*to) != peer)).take(MAX_PEERS) {
        routes.push(Route { from: None, to, next_hop: look_up(None, to, None) });
        for endpoint in here.endpoints.iter().filter(|endpoint| endpoint.address.is_ipv4() == to.is_ipv4()) {
            let from = Some(endpoint.address);
            routes.push(Route { from, to, next_hop: look_up(from, to, endpoint.device.as_deref()) });
            returns.push(Route { from, to, next_hop: look_up(from, to, None) });
        }
    }
    (routes, returns)
}

/// The next hop of a route, or the kernel's error as text. `device`: only routes over this interface.
fn look_up(from: Option<IpAddr>, to: IpAddr, device: Option<&str>) -> Result<NextHop, String> {
    let explain = |error: io::Error| error.to_string();
    let index = device.map(if_nametoindex).transpose().map_err(|errno| explain(errno.into()))?;
    let ask = |flags: u32| {
        let body = query(from, to, index, flags);
        request(NetlinkRoute, RTM_GETROUTE.into(), NLM_F_ACK, &body).map_err(explain)
    };
    let answers = ask(0)?;
    let assumed = index.is_some() && ask(RTM_F_FIB_MATCH).is_err();
    let attributes = answers.first().and_then(|body| body.get(MESSAGE..)).unwrap_or_default();
    let index = find_attribute(attributes, RTA_OIF.into()).and_then(|value| value.first_chunk());
    let interface = index.and_then(|index| name(u32::from_ne_bytes(*index))).ok_or("no route to host")?;
    let source = find_attribute(attributes, RTA_PREFSRC.into()).and_then(address);
    Ok(NextHop { interface, source, assumed })
}

/// `rtmsg` with its attributes.
fn query(from: Option<IpAddr>, to: IpAddr, device: Option<u32>, flags: u32) -> Vec<u8> {
    let (family, length) = if to.is_ipv4() { (AF_INET, 32) } else { (AF_INET6, 128) };
    let mut body = vec![0; MESSAGE];
    body[..3].copy_from_slice(&[family, length, if from.is_some() { length } else { 0 }]);
    body[8..].copy_from_slice(&flags.to_ne_bytes());
    body.extend(attribute(RTA_DST.into(), &octets(to)));
    body.extend(from.into_iter().flat_map(|from| attribute(RTA_SRC.into(), &octets(from))));
    body.extend(device.into_iter().flat_map(|index| attribute(RTA_OIF.into(), &index.to_ne_bytes())));
    body
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(four) => four.octets().to_vec(),
        IpAddr::V6(six) => six.octets().to_vec(),
    }
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    match bytes.len() {
        4 => Some(IpAddr::from(*bytes.first_chunk::<4>()?)),
        16 => Some(IpAddr::from(*bytes.first_chunk::<16>()?)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_address_is_reached_over_the_loopback_interface() {
        let hop = look_up(None, [127, 0, 0, 1].into(), None).unwrap();
        assert_eq!(hop.interface, "lo");
        let error = look_up(None, [127, 0, 0, 1].into(), Some("no such one")).unwrap_err();
        assert!(error.contains("No such device"), "{error}");
    }

    #[test]
    fn a_query_states_the_lengths_of_its_addresses() {
        let body = query(Some([10, 0, 0, 1].into()), [10, 0, 0, 2].into(), Some(7), 0);
        assert_eq!((&body[..3], body.len()), (&[AF_INET, 32, 32][..], MESSAGE + 3 * 8));
        assert_eq!(query(None, "::1".parse().unwrap(), None, 0)[..3], [AF_INET6, 128, 0]);
    }
}
