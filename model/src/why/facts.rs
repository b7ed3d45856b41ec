// SPDX-License-Identifier: MIT OR Apache-2.0
//! MPTCP configuration and sockets of a network namespace, read at one time without tracing.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use crate::id::Token;
use crate::kernel::lifecycle::{CarriedBy, CloseReason, Role, TcpState};

/// Facts about a network namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Namespace {
    /// Words that run a command in the namespace from the namespace of mpwatch: empty, or with a space at the end.
    pub enter: String,
    /// Name of the namespace; `host` for the namespace of mpwatch, `net:[inode]` if it has no name.
    pub name: String,
    /// Sysctls below `net.mptcp`, by name. Empty: the kernel has no MPTCP.
    pub sysctls: BTreeMap<String, String>,
    /// Limits of the in-kernel path manager. `None`: the kernel has no MPTCP.
    pub limits: Option<Limits>,
    /// Endpoints of the in-kernel path manager.
    pub endpoints: Vec<Endpoint>,
    /// Counters of `/proc/net/netstat` and `/proc/net/snmp` by name, such as `MPTcpExtMPJoinSynTx`, since the namespace exists.
    pub counters: BTreeMap<String, u64>,
    /// Interfaces with their addresses.
    pub interfaces: Vec<Interface>,
    /// Listening TCP and MPTCP sockets.
    pub listeners: Vec<Listener>,
    /// Connected sockets.
    pub connections: Vec<Connection>,
    /// Routes from the endpoints to the peers in question.
    pub routes: Vec<Route>,
    /// The same without the interfaces of the endpoints. The reverse path filter compares them with the interface on which packets arrive.
    pub returns: Vec<Route>,
}

impl Namespace {
    /// The value of a counter. 0: the kernel lacks it, or counted nothing.
    pub fn counter(&self, name: &str) -> u64 {
        self.counters.get(name).copied().unwrap_or(0)
    }

    /// The value of a sysctl below `net.mptcp`.
    pub fn sysctl(&self, name: &str) -> Option<&str> {
        self.sysctls.get(name).map(String::as_str)
    }

    /// The interface that has an address.
    pub fn interface_with(&self, address: IpAddr) -> Option<&Interface> {
        self.interfaces.iter().find(|interface| interface.addresses.contains(&address))
    }

    /// The route from a source address to a peer. `from`: `None`, the kernel chooses the source address.
    pub fn route(&self, from: Option<IpAddr>, to: IpAddr) -> Option<&Route> {
        self.routes.iter().find(|route| route.from == from && route.to == to)
    }

    /// The interface over which the strict reverse path filter expects packets from `peer` to `address`. `None`: unknown, or no route.
    pub fn expected(&self, peer: IpAddr, address: IpAddr) -> Option<&str> {
        let found = self.returns.iter().find(|route| route.from == Some(address) && route.to == peer);
        let found = found.or_else(|| self.route(None, peer))?;
        Some(&found.next_hop.as_ref().ok()?.interface)
    }
}

/// Limits of a connection, in addition to the initial subflow (`ip mptcp limits`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Maximum number of additional subflows.
    pub subflows: u32,
    /// Maximum number of announced addresses to which the connection opens subflows.
    pub add_addr_accepted: u32,
}

/// An endpoint of the in-kernel path manager (`ip mptcp endpoint`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// Address id.
    pub id: u8,
    /// The address.
    pub address: IpAddr,
    /// Interface to which subflows are bound. `None`: they follow the routes.
    pub device: Option<String>,
    /// `MPTCP_PM_ADDR_FLAG_*`.
    pub flags: u32,
    /// Announced port. `None`: the port of the connection.
    pub port: Option<u16>,
}

impl Endpoint {
    /// The address is announced to the peer.
    pub const SIGNAL: u32 = 1;
    /// Subflows are opened from the address.
    pub const SUBFLOW: u32 = 1 << 1;
    /// Subflows from or to the address are backups.
    pub const BACKUP: u32 = 1 << 2;
    /// Subflows are opened from the address to every address of the peer.
    pub const FULLMESH: u32 = 1 << 3;
    /// Created by the kernel for a subflow.
    pub const IMPLICIT: u32 = 1 << 4;
    /// Subflows to announced addresses are opened from the address.
    pub const LAMINAR: u32 = 1 << 5;

    /// Whether the endpoint has one of these flags.
    pub fn has(&self, flags: u32) -> bool {
        self.flags & flags != 0
    }
}

/// A network interface.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "properties of the kernel")]
pub struct Interface {
    /// Name of the interface.
    pub name: String,
    /// Whether the administrator has set it up.
    pub up: bool,
    /// Whether it has a carrier.
    pub running: bool,
    /// Whether it is the loopback interface.
    pub loopback: bool,
    /// Whether it is a bridge to which only containers and virtual machines of this host are connected.
    pub internal: bool,
    /// Its addresses.
    pub addresses: Vec<IpAddr>,
    /// Effective mode of the IPv4 reverse path filter: 0 off, 1 strict, 2 loose.
    pub rp_filter: u8,
}

/// A listening socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listener {
    /// Address and port; the unspecified address stands for all addresses.
    pub address: SocketAddr,
    /// Whether it accepts MPTCP.
    pub mptcp: bool,
    /// Name of the process that has the socket. `None`: unknown.
    pub program: Option<String>,
}

/// A connection with its subflows, from the kernel's socket tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Connection {
    /// Local token. `None`: plain TCP.
    pub token: Option<Token>,
    /// Local address of the initial subflow, or of the first remaining subflow.
    pub local: SocketAddr,
    /// Remote address of the same subflow.
    pub remote: SocketAddr,
    /// The protocol that carries the payload.
    pub carried_by: CarriedBy,
    /// Which end opened the connection, judged by the listening sockets.
    pub role: Role,
    /// Whether the SYN that the peer answered had MP_CAPABLE.
    pub asked: bool,
    /// Whether the key of the peer is known: it took part in the handshake of MPTCP.
    pub peer_has_mptcp: bool,
    /// Number of segments, SYNs included, that TCP retransmitted on the initial subflow.
    pub retransmissions: u32,
    /// Subflows, including joins without an answer.
    pub subflows: Vec<Subflow>,
    /// Name of the process that has the socket. `None`: unknown.
    pub program: Option<String>,
    /// Why its latest failed join ended. `None`: no join failed, or the connection is not traced.
    pub failed_join: Option<CloseReason>,
}

impl Connection {
    /// Subflows whose handshake is complete.
    pub fn established(&self) -> impl Iterator<Item = &Subflow> {
        self.subflows.iter().filter(|subflow| subflow.state != TcpState::SynSent)
    }
}

/// A subflow of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subflow {
    /// Local address and port.
    pub local: SocketAddr,
    /// Remote address and port.
    pub remote: SocketAddr,
    /// State of its TCP socket.
    pub state: TcpState,
    /// Local address id; 0: the initial subflow.
    pub local_id: u8,
    /// Number of consecutive retransmissions of the oldest unacknowledged segment.
    pub retransmits: u8,
    /// Whether this host made it a backup.
    pub backup_here: bool,
    /// Whether the peer made it a backup.
    pub backup_there: bool,
}

impl Subflow {
    /// Whether it is a backup.
    pub fn is_backup(&self) -> bool {
        self.backup_here || self.backup_there
    }
}

/// A route, as the kernel would choose it now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// Source address. `None`: chosen by the kernel.
    pub from: Option<IpAddr>,
    /// Destination.
    pub to: IpAddr,
    /// The next hop, or the kernel's error.
    pub next_hop: Result<NextHop, String>,
}

/// The next hop of a route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NextHop {
    /// Outgoing interface.
    pub interface: String,
    /// Source address that the kernel chooses.
    pub source: Option<IpAddr>,
    /// No route over the requested interface matches: the kernel assumes that the destination is a neighbour.
    pub assumed: bool,
}
