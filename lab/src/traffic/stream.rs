// SPDX-License-Identifier: MIT OR Apache-2.0
//! One connection of one end: moves bytes, counts and hashes them, and writes its report.
//! Gives up on the deadline or a cancel. What to send and when is decided by `client.rs` and `server.rs`.

use super::control::Control;
use super::report::ConnectionReport;
use super::socket::SLICE;
use super::{Amount, Spec};
use crate::error::{Error, Result};
use crate::oracle::Flow;
use crate::random::Random;
use socket2::Socket;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, SocketAddr};
use std::time::{Duration, Instant};
use xxhash_rust::xxh3::Xxh3;

const CHUNK: usize = 64 << 10;
/// Longest wait for the last acknowledgements; a subflow whose path died never gets them.
const LONGEST_QUIET: Duration = Duration::from_secs(3);
/// Longest wait for the peer's FIN after ours.
const LONGEST_GOODBYE: Duration = Duration::from_secs(5);

pub(super) struct Stream<'a> {
    socket: Socket,
    /// Own and peer's address, asked at once: a closed socket no longer knows its peer.
    ends: [SocketAddr; 2],
    control: &'a Control,
    opened: Instant,
    worked: Option<Instant>,
    deadline: Instant,
    buffer: Vec<u8>,
    contents: Random,
    sent: Counted,
    received: Counted,
    pub(super) connecting: Duration,
    pub(super) exchanges: u64,
    flow: Option<Flow>,
}

#[derive(Default)]
struct Counted {
    bytes: u64,
    hash: Xxh3,
}

impl Counted {
    fn add(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
        self.hash.update(bytes);
    }
}

impl<'a> Stream<'a> {
    pub(super) fn new(socket: Socket, control: &'a Control, spec: &Spec, deadline: Instant) -> Self {
        Self {
            ends: [canonical(socket.local_addr()), canonical(socket.peer_addr())],
            socket,
            control,
            opened: Instant::now(),
            worked: None,
            deadline,
            buffer: vec![0; CHUNK],
            contents: Random::new(spec.seed),
            sent: Counted::default(),
            received: Counted::default(),
            connecting: Duration::ZERO,
            exchanges: 0,
            flow: None,
        }
    }

    /// Sends this many bytes, or for this long.
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

    /// Writes up to a chunk. Its head is fresh, so that lost, doubled or swapped chunks change the hash.
    fn send_chunk(&mut self, length: usize) -> io::Result<usize> {
        let mark = self.contents.next().to_ne_bytes();
        let marked = mark.len().min(length);
        self.buffer[..marked].copy_from_slice(&mark[..marked]);
        let mut done = 0;
        while done < length {
            self.check()?;
            match (&self.socket).write(&self.buffer[done..length]) {
                Ok(count) => {
                    self.sent.add(&self.buffer[done..done + count]);
                    self.control.count_sent(count);
                    done += count;
                }
                Err(error) if again(&error) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }

    /// Reads up to a chunk; 0 is the end of the stream.
    fn receive_some(&mut self, most: usize) -> io::Result<usize> {
        loop {
            self.check()?;
            match (&self.socket).read(&mut self.buffer[..most.min(CHUNK)]) {
                Ok(count) => {
                    self.received.add(&self.buffer[..count]);
                    self.control.count_received(count);
                    return Ok(count);
                }
                Err(error) if again(&error) => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Reads to the end of the stream.
    pub(super) fn receive_all(&mut self) -> io::Result<()> {
        while self.receive_some(CHUNK)? > 0 {}
        Ok(())
    }

    /// Reads exactly this many bytes; `false` when the stream ended before the first.
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

    /// Waits until everything sent is acknowledged on every subflow.
    pub(super) fn quiesce(&mut self) {
        let limit = (Instant::now() + LONGEST_QUIET).min(self.deadline);
        while Instant::now() < limit && !self.control.cancelled() {
            match Flow::read(&self.socket) {
                Ok(flow) if !flow.quiescent() => std::thread::sleep(Duration::from_millis(5)),
                _ => break,
            }
        }
        self.worked = Some(Instant::now());
    }

    /// Time left to the deadline.
    pub(super) fn left(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }

    /// Remembers the kernel's account for the report.
    pub(super) fn take_account(&mut self) {
        self.flow = Flow::read(&self.socket).ok();
    }

    /// Ends our direction in order.
    pub(super) fn say_goodbye(&self) -> io::Result<()> {
        self.socket.shutdown(Shutdown::Write)
    }

    /// Waits for the peer's end.
    pub(super) fn await_goodbye(&mut self) -> io::Result<()> {
        self.deadline = self.deadline.min(Instant::now() + LONGEST_GOODBYE);
        self.receive_all()
    }

    /// Makes the coming close a reset.
    pub(super) fn abort_on_close(&self) -> io::Result<()> {
        self.socket.set_linger(Some(Duration::ZERO))
    }

    /// Closes, and reports how it went.
    pub(super) fn finish(self, outcome: io::Result<()>, role: Role) -> ConnectionReport {
        let reset = matches!(&outcome, Err(error) if is_reset(error));
        let expected = reset && role == Role::Server;
        ConnectionReport {
            local: self.ends[0],
            remote: self.ends[1],
            sent: self.sent.bytes,
            received: self.received.bytes,
            sent_hash: self.sent.hash.digest(),
            received_hash: self.received.hash.digest(),
            exchanges: self.exchanges,
            connecting: self.connecting,
            open: self.opened.elapsed(),
            working: self.worked.map_or(self.opened.elapsed(), |end| end - self.opened),
            reset,
            flow: self.flow,
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
    let nowhere = SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), 0);
    let address = address.ok().and_then(|address| address.as_socket());
    address.map_or(nowhere, |address| SocketAddr::new(address.ip().to_canonical(), address.port()))
}

fn again(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EINTR | libc::EINPROGRESS))
}

fn is_reset(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ECONNRESET | libc::EPIPE | libc::ECONNABORTED))
}

/// Starts `count` workers on the calling thread's namespace and joins their parts of the report.
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

/// Whether a listener has a connection waiting, within one slice.
pub(super) fn connection_waits(listener: &Socket) -> bool {
    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
    use std::os::fd::AsFd as _;
    let mut ends = [PollFd::new(listener.as_fd(), PollFlags::POLLIN)];
    let slice = PollTimeout::try_from(SLICE).unwrap_or(PollTimeout::ZERO);
    poll(&mut ends, slice).is_ok_and(|ready| ready > 0)
}
