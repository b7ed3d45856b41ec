// SPDX-License-Identifier: MIT OR Apache-2.0
//! Interfaces of the calling thread's namespace, with their addresses and reverse path filters.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::IpAddr;

use mpwatch_ebpf::netlink::{find_attribute, request};
use mpwatch_model::why::facts::Interface;
use nix::ifaddrs::getifaddrs;
use nix::libc::{IFLA_IFNAME, IFLA_INFO_KIND, IFLA_LINKINFO, IFLA_MASTER, NLM_F_DUMP, RTM_GETLINK};
use nix::net::if_::{InterfaceFlags, if_nametoindex};
use nix::sys::socket::SockProtocol::NetlinkRoute;

use crate::system::procfs::read_file;

/// Size of `ifinfomsg` in bytes, and the offset of the index in it. Attributes follow it.
const MESSAGE: usize = 16;
const INDEX: usize = 4;

pub(super) fn read() -> io::Result<Vec<Interface>> {
    let internal = internal_bridges()?;
    let mut found = BTreeMap::<String, Interface>::new();
    for entry in getifaddrs()? {
        let has = |flag| entry.flags.contains(flag);
        // An IPv4 address has its label instead of the name of its interface: `eth0:1`, or any text.
        let name = entry.interface_name.split(':').next().unwrap_or_default();
        if if_nametoindex(name).is_err() {
            continue;
        }
        let interface = found.entry(name.to_owned()).or_insert_with(|| Interface {
            name: name.to_owned(),
            up: has(InterfaceFlags::IFF_UP),
            running: has(InterfaceFlags::IFF_RUNNING),
            loopback: has(InterfaceFlags::IFF_LOOPBACK),
            internal: internal.contains(name),
            addresses: Vec::new(),
            rp_filter: rp_filter(name),
        });
        let four = || entry.address.as_ref()?.as_sockaddr_in().map(|address| IpAddr::from(address.ip()));
        let six = || entry.address.as_ref()?.as_sockaddr_in6().map(|address| IpAddr::from(address.ip()));
        interface.addresses.extend(four().or_else(six));
    }
    Ok(found.into_values().collect())
}

/// Bridges all of whose ports are virtual.
fn internal_bridges() -> io::Result<BTreeSet<String>> {
    let links = request(NetlinkRoute, RTM_GETLINK.into(), NLM_F_DUMP, &[0; MESSAGE])?;
    let kind = |attributes| {
        let kind = find_attribute(find_attribute(attributes, IFLA_LINKINFO.into())?, IFLA_INFO_KIND.into())?;
        Some(kind.strip_suffix(&[0]).unwrap_or(kind))
    };
    let (mut bridges, mut masters) = (BTreeMap::new(), BTreeSet::new());
    for (message, attributes) in links.iter().filter_map(|link| link.split_at_checked(MESSAGE)) {
        let (index, kind) = (message.get(INDEX..).and_then(|bytes| bytes.first_chunk()), kind(attributes));
        if kind == Some(b"bridge") {
            let name = find_attribute(attributes, IFLA_IFNAME.into()).unwrap_or_default();
            let name = String::from_utf8_lossy(name.strip_suffix(&[0]).unwrap_or(name)).into_owned();
            bridges.extend(index.map(|index: &[u8; 4]| (*index, name)));
        }
        if !matches!(kind, Some(b"veth" | b"tun")) {
            masters.extend(
                find_attribute(attributes, IFLA_MASTER.into())
                    .and_then(|master| master.first_chunk().copied()),
            );
        }
    }
    bridges.retain(|index, _| !masters.contains(index));
    Ok(bridges.into_values().collect())
}

/// The kernel uses the larger value of `all` and of the interface.
fn rp_filter(interface: &str) -> u8 {
    let mode = |name: &str| read_file(format!("/proc/sys/net/ipv4/conf/{name}/rp_filter"))?.parse().ok();
    mode("all").max(mode(interface)).unwrap_or(0)
}
