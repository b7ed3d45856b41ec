// SPDX-License-Identifier: MIT OR Apache-2.0
//! Opens sockets with the specified transport, address family, mapped addresses and congestion control.

use super::spec::{TrafficSpec, Transport};
use crate::error::{Error, Result};
use crate::sys;
use socket2::{Domain, Protocol, Socket, Type};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

/// Maximum time of one read or poll. Afterwards the worker checks the deadline and the control.
pub(super) const CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// Maximum number of connections in the listener's accept queue.
const BACKLOG: i32 = 4096;

/// Converts an IPv4 address to an IPv4-mapped IPv6 address if `spec.mapped` is set.
fn map_address(spec: &TrafficSpec, address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(four) if spec.mapped => four.to_ipv6_mapped().into(),
        other => other,
    }
}

fn open(spec: &TrafficSpec, family_of: IpAddr) -> Result<Socket> {
    let domain = if family_of.is_ipv6() { Domain::IPV6 } else { Domain::IPV4 };
    let protocol = match spec.transport {
        Transport::Mptcp => Protocol::MPTCP,
        Transport::Tcp => Protocol::TCP,
    };
    let object = format!("a {:?} socket", spec.transport);
    let socket = Socket::new(domain, Type::STREAM, Some(protocol)).map_err(Error::os("open", object))?;
    Ok(socket)
}

/// Listens on the specified port of all addresses, because joins use other addresses of the server.
pub(super) fn listen(spec: &TrafficSpec) -> Result<Socket> {
    let any: IpAddr = match map_address(spec, spec.server.ip()) {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let address = SocketAddr::new(any, spec.server.port());
    let socket = open(spec, any)?;
    let object = address.to_string();
    let prepare = || -> io::Result<()> {
        if any.is_ipv6() {
            socket.set_only_v6(false)?;
        }
        socket.set_reuse_address(true)?;
        socket.bind(&address.into())?;
        socket.listen(BACKLOG)?;
        socket.set_nonblocking(true)
    };
    // The SYN negotiates ECN, which DCTCP requires, so the listener needs DCTCP. Other congestion controls are set on accepted sockets.
    if spec.congestion.as_deref() == Some("dctcp") {
        set_congestion_control(&socket, "dctcp")?;
    }
    prepare().map_err(Error::os("listen on", object))?;
    Ok(socket)
}

/// Connects to the server. While the server does not listen, retries until the timeout.
pub(super) fn connect(spec: &TrafficSpec, timeout: Duration) -> Result<Socket> {
    let start = std::time::Instant::now();
    let server = SocketAddr::new(map_address(spec, spec.server.ip()), spec.server.port());
    loop {
        let socket = open(spec, server.ip())?;
        prepare_stream(&socket, spec)?;
        if let Some(client) = spec.client {
            // With this option, connect() chooses the port and can reuse ports in TIME_WAIT. Optional: a kernel that rejects it on
            // MPTCP sockets merely allows fewer connections per second.
            let _ = sys::set_socket_option(&socket, libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT, 1);
            let client = SocketAddr::new(map_address(spec, client), 0);
            socket.bind(&client.into()).map_err(Error::os("bind to", client.to_string()))?;
        }
        match socket.connect(&server.into()) {
            Ok(()) => return Ok(socket),
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused && start.elapsed() < timeout => {
                std::thread::sleep(CHECK_INTERVAL);
            }
            Err(error) => return Err(Error::os("connect to", server.to_string())(error)),
        }
    }
}

/// Whether the kernel has a congestion control. The kernel loads the module if it exists and this process is permitted to load it.
#[must_use]
pub fn has_congestion_control(name: &str) -> bool {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP));
    let selected = socket.and_then(|socket| socket.set_tcp_congestion(name.as_bytes()));
    // `PermissionDenied`: the congestion control exists, but selecting it needs CAP_NET_ADMIN.
    selected.map_or_else(|error| error.kind() == io::ErrorKind::PermissionDenied, |()| true)
}

/// Sets the options of a connection at either end: a read timeout after which the control is checked, and congestion control.
pub(super) fn prepare_stream(socket: &Socket, spec: &TrafficSpec) -> Result<()> {
    let prepare = || -> io::Result<()> {
        socket.set_nonblocking(false)?;
        socket.set_read_timeout(Some(CHECK_INTERVAL))?;
        // The write timeout also limits connect().
        socket.set_write_timeout(Some(spec.timeout))?;
        socket.set_tcp_nodelay(true)
    };
    prepare().map_err(Error::os("prepare", "a socket"))?;
    spec.congestion.as_ref().map_or(Ok(()), |name| set_congestion_control(socket, name))
}

fn set_congestion_control(socket: &Socket, name: &str) -> Result<()> {
    socket.set_tcp_congestion(name.as_bytes()).map_err(Error::os("set congestion control", name))
}
