// SPDX-License-Identifier: MIT OR Apache-2.0
//! The traffic of a run: MPTCP uploads whose start times and pauses depend only on the seed, and cross traffic.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use socket2::{Domain, Protocol, Socket, Type};

use super::condition::{App, Cross, Run};
use super::network::Network;
use crate::error::{Error, Result};
use crate::netns;
use crate::random::Random;

/// Writes and reads return after this time, so that threads notice the end of the run.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);
const CHUNK: usize = 65_536;
/// Congestion control of cross traffic.
const CROSS_CONGESTION: &str = "cubic";
const CROSS_CONNECTIONS: usize = 2;
/// Receive buffer of a slow receiver, bytes, and its pause after each read.
const SLOW_BUFFER: usize = 131_072;
const SLOW_PAUSE: Duration = Duration::from_millis(50);

/// The traffic of a run. It ends when the value is dropped.
#[derive(Debug)]
pub struct Traffic {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Result<()>>>,
}

/// Opens one connection after the other and sends on it.
struct Sender {
    protocol: Protocol,
    from: Ipv4Addr,
    congestion: String,
    app: App,
    rate: u64,
    delay: Duration,
    random: Random,
    stop: Arc<AtomicBool>,
}

impl Traffic {
    /// Starts the traffic.
    ///
    /// # Errors
    /// If the server cannot listen or a thread cannot be started.
    pub fn start(network: &Network, run: &Run) -> Result<Self> {
        let mut traffic = Self { stop: Arc::default(), threads: Vec::new() };
        let slow = run.condition.app == App::SlowReceiver;
        let listener =
            network.server.enter(|| listen(slow).map_err(Error::os("listen on", "the server")))??;
        let stop = Arc::clone(&traffic.stop);
        traffic.threads.push(network.server.spawn("corpus-server", move || {
            serve(&listener, slow, &stop);
            Ok(())
        })?);
        let from_other = run.condition.cross == Cross::Untraced;
        let count = if run.condition.cross == Cross::None { 0 } else { CROSS_CONNECTIONS };
        let (namespace, from) = if from_other {
            (&network.other, Network::OTHER)
        } else {
            (&network.client, Network::client_address(0))
        };
        for _ in 0..count {
            let mut sender = traffic.sender(run, Protocol::TCP, from, Duration::ZERO);
            (sender.congestion, sender.app) = (CROSS_CONGESTION.to_owned(), App::Bulk);
            traffic.threads.push(namespace.spawn("corpus-cross", move || sender.run())?);
        }
        let (mut delay, mut seeds) = (Duration::ZERO, Random::new(run.seed ^ 1));
        for gap in run.gaps() {
            let mut sender = traffic.sender(run, Protocol::MPTCP, Network::client_address(0), delay);
            sender.random = Random::new(seeds.bits());
            traffic.threads.push(network.client.spawn("corpus-client", move || sender.run())?);
            delay += gap;
        }
        Ok(traffic)
    }

    fn sender(&self, run: &Run, protocol: Protocol, from: Ipv4Addr, delay: Duration) -> Sender {
        Sender {
            protocol,
            from,
            congestion: run.condition.congestion.clone(),
            app: run.condition.app,
            rate: run.limited_rate(),
            delay,
            random: Random::new(run.seed),
            stop: Arc::clone(&self.stop),
        }
    }

    /// Ends the traffic.
    ///
    /// # Errors
    /// The first error of a connection.
    pub fn finish(mut self) -> Result<()> {
        self.stop.store(true, Ordering::Relaxed);
        let results: Vec<Result<()>> = self.threads.drain(..).map(netns::join).collect();
        results.into_iter().collect()
    }
}

impl Drop for Traffic {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // The error is ignored: a value is dropped without `finish` only after another error, which the caller reports.
            let _ = netns::join(thread);
        }
    }
}

impl Sender {
    fn run(&mut self) -> Result<()> {
        let start = Instant::now();
        thread::sleep(self.delay.saturating_sub(start.elapsed()));
        while !self.stopped() {
            let until = (self.app == App::Churn)
                .then(|| Instant::now() + Duration::from_millis(300 + self.random.below(5_700)));
            match self.connection(until) {
                // At the end of the run the server may have closed the connection first.
                Err(_) if self.stopped() => {}
                sent => sent.map_err(Error::os("send over", "a connection"))?,
            }
        }
        Ok(())
    }

    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn connection(&mut self, until: Option<Instant>) -> std::io::Result<()> {
        let mut socket = Socket::new(Domain::IPV4, Type::STREAM, Some(self.protocol))?;
        socket.set_tcp_congestion(self.congestion.as_bytes())?;
        socket.bind(&SocketAddr::new(self.from.into(), 0).into())?;
        socket.connect(&SocketAddr::new(IpAddr::V4(Network::SERVER), Network::PORT).into())?;
        socket.set_write_timeout(Some(CHECK_INTERVAL))?;
        let (began, mut sent) = (Instant::now(), 0_u64);
        let chunk = vec![0x5a; CHUNK];
        let mut burst_end = self.random_deadline(50, 400);
        while !self.stopped() && until.is_none_or(|until| Instant::now() < until) {
            let size = if self.app == App::Limited { CHUNK / 16 } else { CHUNK };
            match socket.write(&chunk[..size]) {
                Ok(bytes) => sent += bytes as u64,
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
            if self.app == App::Limited {
                let due = Duration::from_secs_f64(sent as f64 * 8.0 / self.rate as f64);
                thread::sleep(due.saturating_sub(began.elapsed()));
            }
            if self.app == App::Bursty && Instant::now() >= burst_end {
                let pause_end = self.random_deadline(50, 500);
                thread::sleep(pause_end.saturating_duration_since(Instant::now()));
                burst_end = self.random_deadline(50, 400);
            }
        }
        // At the end of the run, data in the send buffer is discarded, so that the next run does not wait for it.
        if self.stopped() {
            socket.set_linger(Some(Duration::ZERO))?;
        }
        Ok(())
    }

    fn random_deadline(&mut self, least_ms: u64, most_ms: u64) -> Instant {
        Instant::now() + Duration::from_millis(least_ms + self.random.below(most_ms - least_ms + 1))
    }
}

fn listen(slow: bool) -> std::io::Result<Socket> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::MPTCP))?;
    if slow {
        socket.set_recv_buffer_size(SLOW_BUFFER)?;
    }
    socket.set_reuse_address(true)?;
    socket.bind(&SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), Network::PORT).into())?;
    socket.listen(256)?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

/// Accepts and reads connections until the run ends.
fn serve(listener: &Socket, slow: bool, stop: &Arc<AtomicBool>) {
    thread::scope(|scope| {
        while !stop.load(Ordering::Relaxed) {
            // No connection is waiting, or it was reset before it was accepted.
            let Ok((socket, _)) = listener.accept() else {
                thread::sleep(Duration::from_millis(5));
                continue;
            };
            scope.spawn(move || read_all(socket, slow, stop));
        }
    });
}

/// Reads until the peer closes or resets the connection, or the run ends.
fn read_all(mut socket: Socket, slow: bool, stop: &AtomicBool) {
    // An error is ignored: it means that the connection has ended, and the first read reports this.
    let _ = socket.set_nonblocking(false).and_then(|()| socket.set_read_timeout(Some(CHECK_INTERVAL)));
    let mut buffer = vec![0; CHUNK];
    while !stop.load(Ordering::Relaxed) {
        match socket.read(&mut buffer) {
            Ok(0) => return,
            Err(error) if error.kind() != std::io::ErrorKind::WouldBlock => return,
            Ok(_) | Err(_) => {}
        }
        if slow {
            thread::sleep(SLOW_PAUSE);
        }
    }
}
