// SPDX-License-Identifier: MIT OR Apache-2.0
//! Interfaces of the calling thread's namespace, with their addresses and reverse path filters.

use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;

use mpwatch_model::why::facts::Interface;
use nix::ifaddrs::getifaddrs;
use nix::net::if_::{InterfaceFlags, if_nametoindex};

use crate::system::procfs::read_file;

pub(super) fn read() -> io::Result<Vec<Interface>> {
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
            addresses: Vec::new(),
            rp_filter: rp_filter(name),
        });
        let four = || entry.address.as_ref()?.as_sockaddr_in().map(|address| IpAddr::from(address.ip()));
        let six = || entry.address.as_ref()?.as_sockaddr_in6().map(|address| IpAddr::from(address.ip()));
        interface.addresses.extend(four().or_else(six));
    }
    Ok(found.into_values().collect())
}

/// The kernel uses the larger value of `all` and of the interface.
fn rp_filter(interface: &str) -> u8 {
    let mode = |name: &str| read_file(format!("/proc/sys/net/ipv4/conf/{name}/rp_filter"))?.parse().ok();
    mode("all").max(mode(interface)).unwrap_or(0)
}
