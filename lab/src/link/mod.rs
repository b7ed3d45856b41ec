// SPDX-License-Identifier: MIT OR Apache-2.0
//! veth pairs between two namespaces: creation, addresses, offloads, rate limits, counters, up and down.
//! Routes are in `route.rs`.

mod counters;
mod rate_limit;

pub(crate) use counters::PortQueues;
pub use counters::{InterfaceCounters, QueueCounters};
pub(crate) use rate_limit::TcParent;
pub use rate_limit::{Discipline, RateLimit, fair_handle};

use crate::error::{Error, Result};
use crate::netns::Namespace;
use crate::sys;
use std::net::IpAddr;

/// An address with a prefix length: the address of an interface, or the destination of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct IpNet {
    /// The address.
    pub address: IpAddr,
    /// The prefix length in bits.
    pub length: u8,
}

/// One end of a veth pair.
#[derive(Clone, Debug)]
pub struct VethEnd<'a> {
    /// The namespace of this end.
    pub namespace: &'a Namespace,
    /// The interface's name, at most 15 bytes.
    pub interface: &'a str,
    /// The addresses of this end. There is no duplicate address detection for IPv6 addresses.
    pub addresses: Vec<IpNet>,
}

/// Settings of a veth pair.
#[derive(Clone, Copy, Debug)]
pub struct VethSettings {
    /// The largest packet in bytes.
    pub mtu: u32,
    /// Whether segmentation and checksum offloads are on. They must be off on a rate-limited link (packets of 64 KB
    /// make the RTT jump) and on a link whose frames a relay copies.
    pub offloads: bool,
}

impl Default for VethSettings {
    fn default() -> Self {
        Self { mtu: 1500, offloads: true }
    }
}

/// Creates a veth pair and brings both ends up. The kernel removes the pair when either namespace is removed.
///
/// # Errors
/// If a name is in use or an address is refused.
pub fn create_veth_pair(a: &VethEnd<'_>, b: &VethEnd<'_>, settings: VethSettings) -> Result<()> {
    let mtu = settings.mtu;
    let mut lines = vec![format!(
        "link add name {} mtu {mtu} type veth peer name {} mtu {mtu} netns {}",
        a.interface,
        b.interface,
        b.namespace.name()
    )];
    lines.extend(bring_up(a));
    a.namespace.ip(&lines)?;
    b.namespace.ip(&bring_up(b))?;
    if !settings.offloads {
        for end in [a, b] {
            disable_offloads(end.namespace, end.interface)?;
        }
    }
    Ok(())
}

fn bring_up(end: &VethEnd<'_>) -> Vec<String> {
    let interface = end.interface;
    let mut lines = vec![format!("link set dev {interface} up")];
    lines.extend(end.addresses.iter().map(|address| add_address(interface, *address)));
    lines
}

/// Adds addresses to an interface.
///
/// # Errors
/// If the interface is missing or already has the address.
pub fn add_addresses(namespace: &Namespace, interface: &str, addresses: &[IpNet]) -> Result<()> {
    let lines: Vec<String> = addresses.iter().map(|address| add_address(interface, *address)).collect();
    namespace.ip(&lines)
}

fn add_address(interface: &str, IpNet { address, length }: IpNet) -> String {
    format!("address add {address}/{length} dev {interface}")
}

/// Takes an interface down.
///
/// # Errors
/// If there is no such interface.
pub fn down(namespace: &Namespace, interface: &str) -> Result<()> {
    namespace.ip(&[format!("link set dev {interface} down")])
}

/// Brings an interface up. Routes that the kernel dropped when the interface went down are not restored. IPv6 addresses
/// are restored only with the sysctl `keep_addr_on_down`.
///
/// # Errors
/// If there is no such interface.
pub fn up(namespace: &Namespace, interface: &str) -> Result<()> {
    namespace.ip(&[format!("link set dev {interface} up")])
}

/// Renames an interface. Since Linux 6.2, the interface may be up.
///
/// # Errors
/// If there is no such interface, the name is in use, or the interface is up and the kernel is older than 6.2.
pub fn rename(namespace: &Namespace, interface: &str, name: &str) -> Result<()> {
    namespace.ip(&[format!("link set dev {interface} name {name}")])
}

/// Limits the rate at which an interface sends. Replaces an earlier limit.
///
/// # Errors
/// If there is no such interface, or the kernel lacks the queueing discipline.
pub fn limit_rate(namespace: &Namespace, interface: &str, limit: RateLimit) -> Result<()> {
    limit.apply(namespace, interface, TcParent::ROOT)
}

// linux/ethtool.h: set commands for transmit checksums, scatter-gather, and the segmentation offloads.
const ETHTOOL_STXCSUM: u32 = 0x17;
const ETHTOOL_STSO: u32 = 0x1f;
const ETHTOOL_SGSO: u32 = 0x24;
const ETHTOOL_SGRO: u32 = 0x2c;

/// Disables TSO, GSO, GRO and transmit checksum offload of an interface.
///
/// # Errors
/// If there is no such interface.
pub fn disable_offloads(namespace: &Namespace, interface: &str) -> Result<()> {
    namespace.enter(|| {
        for command in [ETHTOOL_STSO, ETHTOOL_SGSO, ETHTOOL_SGRO, ETHTOOL_STXCSUM] {
            sys::ethtool_set(interface, command, 0).map_err(Error::os("disable offloads of", interface))?;
        }
        Ok(())
    })?
}
