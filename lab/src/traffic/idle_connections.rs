// SPDX-License-Identifier: MIT OR Apache-2.0
//! Many idle connections without a thread per connection, as on a busy server. Each end has sent one byte, so that MPTCP opens
//! subflows on all paths.

use super::socket;
use super::spec::TrafficSpec;
use crate::error::{Error, Result};
use crate::netns::{self, Namespace};
use nix::sched::{CloneFlags, unshare};
use socket2::Socket;
use std::io::{Read as _, Write as _};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Maximum time to open one connection.
const OPEN_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum number of connections (of two sockets each) in one table of descriptors. Raising the limit of open files needs a
/// privilege that root in a container may lack. The limit applies to each table separately, and each thread can have its own table.
const PER_TABLE: u32 = 8_000;

/// Both ends of the connections. The connections are closed when the value is dropped.
#[derive(Debug)]
pub struct IdleConnections {
    tables: Vec<Table>,
}

/// A thread with its own table of descriptors, which holds connections until `hold` is dropped.
#[derive(Debug)]
struct Table {
    sockets: usize,
    hold: Option<Sender<()>>,
    thread: Option<JoinHandle<Result<()>>>,
    // MPTCP joins need the listener while connections are open. The thread accepts with its own copy of the descriptor.
    _listener: Arc<Socket>,
}

impl IdleConnections {
    /// Opens the specified number of connections, one after the other, without workload. Each further 8 000 connections use the
    /// next port.
    ///
    /// # Errors
    /// If a connection cannot be opened, for example because of the limit of open files.
    pub fn open(client: &Namespace, server: &Namespace, spec: &TrafficSpec) -> Result<Self> {
        let mut idle = Self { tables: Vec::new() };
        let (mut left, mut spec) = (spec.connections, spec.clone());
        while left > 0 {
            spec.connections = left.min(PER_TABLE);
            idle.tables.push(Table::open(client, server, &spec)?);
            left -= spec.connections;
            spec.server.set_port(spec.server.port() + 1);
        }
        Ok(idle)
    }

    /// Number of sockets, two per connection.
    #[must_use]
    pub fn sockets(&self) -> usize {
        self.tables.iter().map(|table| table.sockets).sum()
    }
}

impl Table {
    fn open(client: &Namespace, server: &Namespace, spec: &TrafficSpec) -> Result<Self> {
        let (hold, released) = mpsc::channel();
        let (opened, is_open) = mpsc::channel();
        let listener = Arc::new(server.enter(|| socket::listen(spec))??);
        let (spec, sockets) = (spec.clone(), 2 * spec.connections as usize);
        let shared = Arc::clone(&listener);
        let thread =
            client.spawn("lab-idle", move || hold_connections(&shared, &spec, &opened, &released))?;
        let mut table = Self { sockets, hold: Some(hold), thread: Some(thread), _listener: listener };
        if is_open.recv().is_err() {
            table.end()?;
        }
        Ok(table)
    }

    fn end(&mut self) -> Result<()> {
        drop(self.hold.take());
        self.thread.take().map_or(Ok(()), netns::join)
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        // No error is lost: the thread can fail only while it opens connections, and `open` returns that error.
        let _ = self.end();
    }
}

/// Opens connections, sends to `opened`, and holds the connections until the sender of `released` is dropped.
fn hold_connections(
    listener: &Socket,
    spec: &TrafficSpec,
    opened: &Sender<()>,
    released: &Receiver<()>,
) -> Result<()> {
    unshare(CloneFlags::CLONE_FILES)
        .map_err(|errno| Error::os("make", "a table of descriptors")(std::io::Error::from(errno)))?;
    let mut sockets = Vec::new();
    for _ in 0..spec.connections {
        sockets.push(open_pair(listener, spec)?);
    }
    // `recv` returns an error when the owner drops `hold`, and `send` if the owner no longer waits. Both mean: close.
    let _ = opened.send(());
    let _ = released.recv();
    Ok(())
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
