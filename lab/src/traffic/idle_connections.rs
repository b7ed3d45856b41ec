// SPDX-License-Identifier: MIT OR Apache-2.0
//! Many idle connections without a thread each, as on a busy server. Each end has sent one byte, so that MPTCP joins the
//! other paths.

use super::socket;
use super::spec::TrafficSpec;
use crate::error::{Error, Result};
use crate::netns::Namespace;
use socket2::Socket;
use std::io::{Read as _, Write as _};
use std::time::{Duration, Instant};

/// Timeout for opening one connection.
const OPEN_TIMEOUT: Duration = Duration::from_secs(5);

/// Both ends of the connections. Dropping it closes them.
#[derive(Debug)]
pub struct IdleConnections {
    sockets: Vec<Socket>,
    // Later joins need the listener.
    _listener: Socket,
}

impl IdleConnections {
    /// Opens the number of connections of the specification. Its workload is not used.
    ///
    /// # Errors
    /// If a connection cannot be opened, for example because of the limit of open files.
    pub fn open(client: &Namespace, server: &Namespace, spec: &TrafficSpec) -> Result<Self> {
        let listener = server.enter(|| socket::listen(spec))??;
        let mut sockets = Vec::new();
        client.enter(|| {
            for _ in 0..spec.connections {
                sockets.extend(open_pair(&listener, spec)?);
            }
            Ok(())
        })??;
        Ok(Self { sockets, _listener: listener })
    }

    /// Number of sockets, two per connection.
    #[must_use]
    pub fn sockets(&self) -> usize {
        self.sockets.len()
    }
}

fn open_pair(listener: &Socket, spec: &TrafficSpec) -> Result<[Socket; 2]> {
    let connected = socket::connect(spec, OPEN_TIMEOUT)?;
    let start = Instant::now();
    let accepted = loop {
        match listener.accept() {
            Ok((socket, _)) => break socket,
            Err(_) if start.elapsed() < OPEN_TIMEOUT => std::thread::yield_now(),
            Err(error) => return Err(Error::os("accept on", spec.server.to_string())(error)),
        }
    };
    accepted.set_nonblocking(false).map_err(Error::os("prepare", "a socket"))?;
    for (from, to) in [(&connected, &accepted), (&accepted, &connected)] {
        let (mut from, mut to) = (from, to);
        let sent = from.write_all(&[0]).and_then(|()| to.read_exact(&mut [0]));
        sent.map_err(Error::os("send a byte to", spec.server.to_string()))?;
    }
    Ok([connected, accepted])
}
