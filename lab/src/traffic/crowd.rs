// SPDX-License-Identifier: MIT OR Apache-2.0
//! Many silent connections, kept open by no thread: what a snapshot of a busy machine consists of. They carry a byte each, so
//! that MPTCP joins its further paths.

use super::{Spec, socket};
use crate::error::{Error, Result};
use crate::netns::Namespace;
use socket2::Socket;
use std::io::{Read as _, Write as _};
use std::time::{Duration, Instant};

/// How long one connection may take to open.
const PATIENCE: Duration = Duration::from_secs(5);

/// Both ends of the connections. Dropping it closes them.
#[derive(Debug)]
pub struct Crowd {
    sockets: Vec<Socket>,
    // Joins of further paths, which come later, need it.
    _listener: Socket,
}

impl Crowd {
    /// Opens as many connections as the specification says; its workload plays no part.
    ///
    /// # Errors
    /// When one cannot be opened, for example because the process may not have so many files open.
    pub fn open(client: &Namespace, server: &Namespace, spec: &Spec) -> Result<Self> {
        let listener = server.enter(|| socket::listen(spec))??;
        let mut sockets = Vec::new();
        client.enter(|| {
            for _ in 0..spec.connections {
                sockets.extend(pair(&listener, spec)?);
            }
            Ok(())
        })??;
        Ok(Self { sockets, _listener: listener })
    }

    /// Its sockets, two a connection.
    #[must_use]
    pub fn sockets(&self) -> usize {
        self.sockets.len()
    }
}

fn pair(listener: &Socket, spec: &Spec) -> Result<[Socket; 2]> {
    let connecting = socket::connect(spec, PATIENCE)?;
    let start = Instant::now();
    let accepted = loop {
        match listener.accept() {
            Ok((socket, _)) => break socket,
            Err(_) if start.elapsed() < PATIENCE => std::thread::yield_now(),
            Err(error) => return Err(Error::os("accept on", spec.server.to_string())(error)),
        }
    };
    accepted.set_nonblocking(false).map_err(Error::os("prepare", "a socket"))?;
    for (from, to) in [(&connecting, &accepted), (&accepted, &connecting)] {
        let (mut from, mut to) = (from, to);
        let told = from.write_all(&[0]).and_then(|()| to.read_exact(&mut [0]));
        told.map_err(Error::os("say a byte to", spec.server.to_string()))?;
    }
    Ok([connecting, accepted])
}
