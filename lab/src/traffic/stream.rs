// SPDX-License-Identifier: MIT OR Apache-2.0
//! One end of a connection: sends and receives bytes, counts and hashes them, and creates the report.
//! Stops at the deadline or when the traffic is cancelled. `client.rs` and `server.rs` implement the workloads.

use super::control::Control;
use super::report::ConnectionReport;
use super::socket::CHECK_INTERVAL;
use super::spec::{Amount, TrafficSpec};
use crate::error::{Error, Result};
use crate::oracle::SocketInfo;
use crate::random::Random;
use socket2::Socket;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, SocketAddr};
use std::time::{Duration, Instant};
use xxhash_rust::xxh3::Xxh3;

const CHUNK: usize = 64 << 10;
/// Maximum time to wait for the last acknowledgements. On a failed path they never arrive.
const ACKNOWLEDGEMENT_TIMEOUT: Duration = Duration::from_secs(3);
/// Maximum time to wait for the peer's FIN after sending a FIN. 5 s were too short on a machine that is busy with virtual machines.
const FIN_TIMEOUT: Duration = Duration::from_secs(20);

pub(super) struct Stream<'a> {
    socket: Socket,
    /// Local and remote address. Read at the start, because a closed socket has no remote address.
    addresses: [SocketAddr; 2],
    control: &'a Control,
    opened: Instant,
    transferred: Option<Instant>,
    last_read: Option<Instant>,
    deadline: Instant,
    buffer: Vec<u8>,
    contents: Random,
    sent: HashedBytes,
    received: HashedBytes,
    pub(super) connect_time: Duration,
    pub(super) exchanges: u64,
    socket_info: Option<SocketInfo>,
}

#[derive(Default)]
struct HashedBytes {
    count: u64,
    hash: Xxh3,
}

impl HashedBytes {
    fn add(&mut self, bytes: &[u8]) {
        self.count += bytes.len() as u64;
        self.hash.update(bytes);
    }
}

impl<'a> Stream<'a> {
    pub(super) fn new(socket: Socket, control: &'a Control, spec: &TrafficSpec, deadline: Instant) -> Self {
        Self {
            addresses: [canonical(socket.local_addr()), canonical(socket.peer_addr())],
            socket,
            control,
            opened: Instant::now(),
            transferred: None,
            last_read: None,
            deadline,
            buffer: vec![0; CHUNK],
            contents: Random::new(spec.seed),
            sent: HashedBytes::default(),
            received: HashedBytes::default(),
            connect_time: Duration::ZERO,
            exchanges: 0,
            socket_info: None,
        }
    }

    /// Sends the specified number of bytes, or for the specified time.
    pub(super) fn send(&mut self, amount: Amount) -> io::Result<()> {
        let start = Instant::now();
        let mut left = match amount {
            Amount::Bytes(bytes) => bytes,
            Amount::For(_) => u64::MAX,
        };
        while left > 0 {
            if let Amount::For(duration) = amount
                && start.elapsed() >= duration
            {
                break;
            }
            let length = CHUNK.min(usize::try_from(left).unwrap_or(CHUNK));
            left -= self.send_chunk(length)? as u64;
        }
        Ok(())
    }

    /// Writes a chunk that begins with random bytes, so that lost, duplicated or reordered chunks change the hash. Returns its length.
    fn send_chunk(&mut self, length: usize) -> io::Result<usize> {
        let header = self.contents.bits().to_ne_bytes();
        let header_length = header.len().min(length);
        self.buffer[..header_length].copy_from_slice(&header[..header_length]);
        let mut done = 0;
        while done < length {
            self.check()?;
            match (&self.socket).write(&self.buffer[done..length]) {
                Ok(count) => {
                    self.sent.add(&self.buffer[done..done + count]);
                    self.control.count_sent(count);
                    done += count;
                }
                Err(error) if is_retryable(&error) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }

    /// Reads at most `max` bytes and at most a chunk. Returns the number of bytes; 0: the end of the stream.
    fn receive_some(&mut self, max: usize) -> io::Result<usize> {
        loop {
            self.check()?;
            match (&self.socket).read(&mut self.buffer[..max.min(CHUNK)]) {
                Ok(count) => {
                    if count > 0 {
                        self.last_read = Some(Instant::now());
                    }
                    self.received.add(&self.buffer[..count]);
                    self.control.count_received(count);
                    return Ok(count);
                }
                Err(error) if is_retryable(&error) => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Reads until the end of the stream.
    pub(super) fn receive_all(&mut self) -> io::Result<()> {
        while self.receive_some(CHUNK)? > 0 {}
        Ok(())
    }

    /// Reads exactly `bytes` bytes. Returns `false` if the stream ended before the first byte.
    pub(super) fn receive_exactly(&mut self, bytes: u32) -> io::Result<bool> {
        let mut left = bytes as usize;
        while left > 0 {
            match self.receive_some(left)? {
                0 if left == bytes as usize => return Ok(false),
                0 => return Err(ErrorKind::UnexpectedEof.into()),
                count => left -= count,
            }
        }
        Ok(true)
    }

    fn check(&self) -> io::Result<()> {
        if self.control.cancelled() {
            return Err(io::Error::new(ErrorKind::Interrupted, "cancelled"));
        }
        if Instant::now() > self.deadline {
            return Err(io::Error::new(ErrorKind::TimedOut, "deadline passed"));
        }
        Ok(())
    }

    /// Waits until all sent data is acknowledged on every subflow, at most for [`ACKNOWLEDGEMENT_TIMEOUT`].
    pub(super) fn wait_for_acknowledgements(&mut self) {
        let deadline = (Instant::now() + ACKNOWLEDGEMENT_TIMEOUT).min(self.deadline);
        while Instant::now() < deadline && !self.control.cancelled() {
            match SocketInfo::read(&self.socket) {
                Ok(info) if !info.all_acknowledged() => std::thread::sleep(Duration::from_millis(5)),
                _ => break,
            }
        }
        self.transferred = Some(Instant::now());
    }

    /// Time left until the deadline.
    pub(super) fn left(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }

    /// Reads the kernel's information for the report.
    pub(super) fn read_socket_info(&mut self) {
        self.socket_info = SocketInfo::read(&self.socket).ok();
    }

    /// Sends the FIN.
    pub(super) fn shutdown_write(&self) -> io::Result<()> {
        self.socket.shutdown(Shutdown::Write)
    }

    /// Waits for the peer's FIN.
    pub(super) fn wait_for_fin(&mut self) -> io::Result<()> {
        self.deadline = self.deadline.min(Instant::now() + FIN_TIMEOUT);
        self.receive_all()
    }

    /// Configures the socket so that closing it sends a reset.
    pub(super) fn abort_on_close(&self) -> io::Result<()> {
        self.socket.set_linger(Some(Duration::ZERO))
    }

    /// Closes the connection and returns its report.
    pub(super) fn finish(self, outcome: io::Result<()>, role: Role) -> ConnectionReport {
        let reset = matches!(&outcome, Err(error) if is_reset(error));
        let expected = reset && role == Role::Server;
        ConnectionReport {
            local: self.addresses[0],
            remote: self.addresses[1],
            sent: self.sent.count,
            received: self.received.count,
            sent_hash: self.sent.hash.digest(),
            received_hash: self.received.hash.digest(),
            exchanges: self.exchanges,
            connect_time: self.connect_time,
            open_time: self.opened.elapsed(),
            transfer_time: self.transferred.map_or(self.opened.elapsed(), |end| end - self.opened),
            receive_time: self.last_read.map_or(Duration::ZERO, |read| read - self.opened),
            reset,
            socket_info: self.socket_info,
            error: outcome.err().filter(|_| !expected).map(|error| error.to_string()),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Client,
    Server,
}

fn canonical(address: io::Result<socket2::SockAddr>) -> SocketAddr {
    let unknown = SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), 0);
    let address = address.ok().and_then(|address| address.as_socket());
    address.map_or(unknown, |address| SocketAddr::new(address.ip().to_canonical(), address.port()))
}

fn is_retryable(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EINTR | libc::EINPROGRESS))
}

fn is_reset(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ECONNRESET | libc::EPIPE | libc::ECONNABORTED))
}

/// Runs `count` worker threads in the calling thread's namespace and returns their results.
pub(super) fn with_workers<T: Send>(
    count: u32,
    name: &'static str,
    work: impl Fn() -> T + Sync,
) -> Result<Vec<T>> {
    std::thread::scope(|scope| {
        let work = &work;
        let threads: Vec<_> = (0..count)
            .map(|_| {
                std::thread::Builder::new()
                    .name(name.to_owned())
                    .spawn_scoped(scope, work)
                    .map_err(Error::os("start a thread for", name))
            })
            .collect::<Result<_>>()?;
        threads
            .into_iter()
            .map(|thread| thread.join().map_err(|_| Error::Panicked { thread: name.to_owned() }))
            .collect()
    })
}

/// Waits at most [`CHECK_INTERVAL`] for a connection. Returns whether a connection can be accepted.
pub(super) fn is_connection_pending(listener: &Socket) -> bool {
    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
    use std::os::fd::AsFd as _;
    let mut ends = [PollFd::new(listener.as_fd(), PollFlags::POLLIN)];
    let timeout = PollTimeout::try_from(CHECK_INTERVAL).unwrap_or(PollTimeout::ZERO);
    poll(&mut ends, timeout).is_ok_and(|ready| ready > 0)
}
