// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sockets as a specification wants them: transport, family, mapped addresses, congestion control.
//! Owns no connection; what is sent over them is `stream.rs`.

use super::{Spec, Transport};
use crate::error::{Error, Result};
use crate::sys;
use socket2::{Domain, Protocol, Socket, Type};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

/// How long one read, write or accept waits before looking at the clock and the control.
pub(super) const SLICE: Duration = Duration::from_millis(50);

const BACKLOG: i32 = 4096;

/// The address in the form that the specification's sockets take.
fn place(spec: &Spec, address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(four) if spec.mapped => four.to_ipv6_mapped().into(),
        other => other,
    }
}

fn open(spec: &Spec, family_of: IpAddr) -> Result<Socket> {
    let domain = if family_of.is_ipv6() { Domain::IPV6 } else { Domain::IPV4 };
    let protocol = match spec.transport {
        Transport::Mptcp => Protocol::MPTCP,
        Transport::Tcp => Protocol::TCP,
    };
    let object = format!("a {:?} socket", spec.transport);
    let socket = Socket::new(domain, Type::STREAM, Some(protocol)).map_err(Error::os("open", object))?;
    Ok(socket)
}

/// A listening socket on the port of the specification and any address, so that joins to other addresses
/// of the server find it.
pub(super) fn listen(spec: &Spec) -> Result<Socket> {
    let any: IpAddr = match place(spec, spec.server.ip()) {
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
    prepare().map_err(Error::os("listen on", object))?;
    Ok(socket)
}

/// Connects to the server; a server that does not listen yet is tried again until `longest` has passed.
pub(super) fn connect(spec: &Spec, longest: Duration) -> Result<Socket> {
    let start = std::time::Instant::now();
    let server = SocketAddr::new(place(spec, spec.server.ip()), spec.server.port());
    loop {
        let socket = open(spec, server.ip())?;
        prepare_stream(&socket, spec)?;
        if let Some(client) = spec.client {
            // The port is then chosen by connect, which knows the peer: ports in TIME_WAIT stay usable under
            // churn. A kernel that refuses it on MPTCP sockets only churns more slowly.
            let _ = sys::set_socket_option(&socket, libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT, 1);
            let client = SocketAddr::new(place(spec, client), 0);
            socket.bind(&client.into()).map_err(Error::os("bind to", client.to_string()))?;
        }
        match socket.connect(&server.into()) {
            Ok(()) => return Ok(socket),
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused && start.elapsed() < longest => {
                std::thread::sleep(SLICE);
            }
            Err(error) => return Err(Error::os("connect to", server.to_string())(error)),
        }
    }
}

/// Sets what both ends' connections need: congestion control, and waits short enough to notice a cancel.
pub(super) fn prepare_stream(socket: &Socket, spec: &Spec) -> Result<()> {
    let prepare = || -> io::Result<()> {
        socket.set_nonblocking(false)?;
        socket.set_read_timeout(Some(SLICE))?;
        // A connect in blocking mode ends with the write timeout too.
        socket.set_write_timeout(Some(spec.deadline))?;
        socket.set_tcp_nodelay(true)
    };
    prepare().map_err(Error::os("prepare", "a socket"))?;
    if let Some(name) = &spec.congestion {
        socket
            .set_tcp_congestion(name.as_bytes())
            .map_err(Error::os("set congestion control", name.as_str()))?;
    }
    Ok(())
}
