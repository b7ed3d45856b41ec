// SPDX-License-Identifier: MIT OR Apache-2.0
//! Virtual cables (veth pairs) between two namespaces: addresses, offloads, rate limit, up and down.
//! Counters live in `link/counters.rs`; where packets go is `route.rs`.

mod counters;
mod shape;
mod watch;

pub(crate) use counters::Queues;
pub use counters::{InterfaceCounters, QueueCounters};
pub(crate) use shape::Parent;
pub use shape::{Discipline, Shape, fair_handle};
pub use watch::{QueueWatch, Queueing};

use crate::error::{Error, Result};
use crate::netns::Namespace;
use crate::sys;
use std::net::IpAddr;

/// An address with its prefix length, as put on an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Prefixed {
    /// The address.
    pub address: IpAddr,
    /// The prefix length in bits.
    pub length: u8,
}

/// One end of a cable to be.
#[derive(Clone, Debug)]
pub struct End<'a> {
    /// The namespace it lies in.
    pub namespace: &'a Namespace,
    /// The interface's name, at most 15 bytes.
    pub interface: &'a str,
    /// Its addresses; IPv6 ones skip duplicate address detection.
    pub addresses: Vec<Prefixed>,
}

/// What a cable can do.
#[derive(Clone, Copy, Debug)]
pub struct Cable {
    /// The largest packet in bytes.
    pub mtu: u32,
    /// Whether segmentation and checksums are left to the "hardware". Must be off where a queue is shaped
    /// (64 KB super-packets make the RTT jump) or where a relay copies frames.
    pub offloads: bool,
}

impl Default for Cable {
    fn default() -> Self {
        Self { mtu: 1500, offloads: true }
    }
}

/// Lays a veth cable between two ends and brings both up. It vanishes with either namespace.
///
/// # Errors
/// When a name is taken or an address is refused.
pub fn connect(a: &End<'_>, b: &End<'_>, cable: Cable) -> Result<()> {
    let mtu = cable.mtu;
    let mut lines = vec![format!(
        "link add name {} mtu {mtu} type veth peer name {} mtu {mtu} netns {}",
        a.interface,
        b.interface,
        b.namespace.name()
    )];
    lines.extend(bring_up(a));
    a.namespace.ip(&lines)?;
    b.namespace.ip(&bring_up(b))?;
    if !cable.offloads {
        for end in [a, b] {
            offloads_off(end.namespace, end.interface)?;
        }
    }
    Ok(())
}

fn bring_up(end: &End<'_>) -> Vec<String> {
    let interface = end.interface;
    let mut lines = vec![format!("link set dev {interface} up")];
    lines.extend(end.addresses.iter().map(|address| add_address(interface, *address)));
    lines
}

/// Adds one more address to an interface.
///
/// # Errors
/// When the interface is missing or already has the address.
pub fn add_addresses(namespace: &Namespace, interface: &str, addresses: &[Prefixed]) -> Result<()> {
    let lines: Vec<String> = addresses.iter().map(|address| add_address(interface, *address)).collect();
    namespace.ip(&lines)
}

fn add_address(interface: &str, Prefixed { address, length }: Prefixed) -> String {
    let nodad = if address.is_ipv6() { " nodad" } else { "" };
    format!("address add {address}/{length} dev {interface}{nodad}")
}

/// Takes an interface down, as if its cable were pulled.
///
/// # Errors
/// When there is no such interface.
pub fn down(namespace: &Namespace, interface: &str) -> Result<()> {
    namespace.ip(&[format!("link set dev {interface} down")])
}

/// Brings an interface up again. IPv6 addresses and routes that the kernel dropped when it
/// went down are not restored, unless `keep_addr_on_down` was set; routes of either family never are.
///
/// # Errors
/// When there is no such interface.
pub fn up(namespace: &Namespace, interface: &str) -> Result<()> {
    namespace.ip(&[format!("link set dev {interface} up")])
}

// linux/ethtool.h: set commands for transmit checksums, scatter-gather, and the segmentation offloads.
const ETHTOOL_STXCSUM: u32 = 0x17;
const ETHTOOL_STSO: u32 = 0x1f;
const ETHTOOL_SGSO: u32 = 0x24;
const ETHTOOL_SGRO: u32 = 0x2c;

/// Turns off segmentation, receive aggregation and checksum offload of an interface.
///
/// # Errors
/// When there is no such interface.
pub fn offloads_off(namespace: &Namespace, interface: &str) -> Result<()> {
    namespace.enter(|| {
        for command in [ETHTOOL_STSO, ETHTOOL_SGSO, ETHTOOL_SGRO, ETHTOOL_STXCSUM] {
            sys::ethtool_set(interface, command, 0).map_err(Error::os("turn offloads off on", interface))?;
        }
        Ok(())
    })?
}
