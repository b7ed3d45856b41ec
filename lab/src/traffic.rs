// SPDX-License-Identifier: MIT OR Apache-2.0
//! Traffic of a known shape between a client and a server, over MPTCP or TCP, and what each end saw of it:
//! its own byte counts, a hash of the stream, and the kernel's account just before close.
//! This file owns the specification and the report; the two ends are `client.rs` and `server.rs`.

mod client;
mod control;
mod crowd;
mod report;
mod server;
mod socket;
mod stream;

pub use client::run_client;
pub use control::Control;
pub use crowd::Crowd;
pub use report::{ConnectionReport, Report};
pub use server::run_server;

use crate::error::{Error, Result};
use crate::netns::{self, Namespace};
use crate::poll::poll_until;
use crate::task_clock::TaskClock;
use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

/// The transport.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Transport {
    /// Multipath TCP.
    #[default]
    Mptcp,
    /// Plain TCP, to compare with.
    Tcp,
}

/// Which end sends the bulk of the bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Sender {
    /// The client, which also opened the connection.
    #[default]
    Client,
    /// The server.
    Server,
}

/// How much to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Amount {
    /// This many bytes.
    Bytes(u64),
    /// As much as goes through in this time.
    For(Duration),
}

/// What each connection does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Workload {
    /// One end sends as fast as it can. Few bytes on many connections are short flows.
    Bulk {
        /// How much.
        amount: Amount,
        /// Which end.
        sender: Sender,
    },
    /// The client sends at a rate below what the path allows (limited by the application).
    Paced {
        /// Bits per second of payload.
        rate: u64,
        /// For how long.
        duration: Duration,
    },
    /// The client asks, the server answers, the client thinks.
    Requests {
        /// Exchanges.
        count: u64,
        /// Bytes of a request.
        up: u32,
        /// Bytes of an answer.
        down: u32,
        /// Pause after an answer.
        think: Duration,
    },
    /// The client sends a little and keeps the connection for a random time: connection churn.
    Linger {
        /// Bytes to send at the start.
        bytes: u64,
        /// Shortest life after that.
        shortest: Duration,
        /// Longest life after that.
        longest: Duration,
    },
}

/// How the client ends a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Close {
    /// In order: `DATA_FIN`, then FINs.
    #[default]
    Fin,
    /// At once, by a reset (`MP_FASTCLOSE` on MPTCP).
    Abort,
}

/// A run of traffic; both ends get the same one, also as JSON between processes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spec {
    /// The transport.
    pub transport: Transport,
    /// Where the client connects to. The server listens on this port of all its addresses.
    pub server: SocketAddr,
    /// The client's own address, or `None` to let the routes choose.
    pub client: Option<IpAddr>,
    /// Whether IPv4 addresses are used through IPv6 sockets (`::ffff:a.b.c.d`).
    pub mapped: bool,
    /// Congestion control of both ends' sockets, or `None` for the namespace's.
    pub congestion: Option<String>,
    /// What each connection does.
    pub workload: Workload,
    /// How many connections in all.
    pub connections: u32,
    /// How many of them at once, each a thread at both ends.
    pub concurrency: u32,
    /// How the client ends each.
    pub close: Close,
    /// How long the client keeps each connection open and silent before its end.
    pub hold: Duration,
    /// Whether each connection's report carries the kernel's account. Off saves memory on mass churn.
    pub account: bool,
    /// The CPUs on which the client and the server run, which then also report the time they used; or `None` to let the kernel
    /// choose.
    pub cpus: Option<[usize; 2]>,
    /// Where random lifetimes and contents start.
    pub seed: u64,
    /// After this both ends give up.
    pub deadline: Duration,
}

/// The lab's usual port.
pub const PORT: u16 = 5201;

impl Workload {
    /// The client sends this many bytes.
    #[must_use]
    pub fn upload(bytes: u64) -> Self {
        Self::Bulk { amount: Amount::Bytes(bytes), sender: Sender::Client }
    }

    /// The client sends for this long.
    #[must_use]
    pub fn upload_for(duration: Duration) -> Self {
        Self::Bulk { amount: Amount::For(duration), sender: Sender::Client }
    }

    /// The server sends this many bytes.
    #[must_use]
    pub fn download(bytes: u64) -> Self {
        Self::Bulk { amount: Amount::Bytes(bytes), sender: Sender::Server }
    }
}

impl Spec {
    /// One MPTCP connection to a server address (on the port [`PORT`]) that does `workload`; give up after 60 s.
    #[must_use]
    pub fn new(server: IpAddr, workload: Workload) -> Self {
        Self {
            transport: Transport::Mptcp,
            server: SocketAddr::new(server, PORT),
            client: None,
            mapped: false,
            congestion: None,
            workload,
            connections: 1,
            concurrency: 1,
            close: Close::Fin,
            hold: Duration::ZERO,
            account: true,
            cpus: None,
            seed: 1,
            deadline: Duration::from_mins(1),
        }
    }

    /// How many threads each end needs.
    fn workers(&self) -> u32 {
        self.concurrency.clamp(1, self.connections.max(1))
    }
}

/// A run in progress, its two ends on threads in their namespaces. Dropping it cancels the run.
#[derive(Debug)]
pub struct Transfer {
    control: Arc<Control>,
    client: Option<JoinHandle<Result<Report>>>,
    server: Option<JoinHandle<Result<Report>>>,
}

/// What both ends saw.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The client's side.
    pub client: Report,
    /// The server's side.
    pub server: Report,
}

impl Transfer {
    /// Starts the server, and once it listens the client.
    ///
    /// # Errors
    /// When the port is taken, or the kernel lacks the transport.
    pub fn start(
        client: &Namespace,
        server: &Namespace,
        spec: &Spec,
        control: &Arc<Control>,
    ) -> Result<Self> {
        let mut transfer = Self { control: Arc::clone(control), client: None, server: None };
        let work = (spec.clone(), Arc::clone(control));
        let serving = server.spawn("lab-server", move || run_server(&work.0, &work.1))?;
        let ready = poll_until("the lab's server to listen", Duration::from_secs(5), || {
            (control.listening() || serving.is_finished()).then_some(())
        });
        transfer.server = Some(serving);
        ready?;
        if !control.listening() {
            transfer.join_server()?;
        }
        let work = (spec.clone(), Arc::clone(control));
        transfer.client = Some(client.spawn("lab-client", move || {
            let report = run_client(&work.0, &work.1);
            work.1.finish_client();
            report
        })?);
        Ok(transfer)
    }

    /// The control shared by both ends: progress, hold, cancel.
    #[must_use]
    pub fn control(&self) -> &Control {
        &self.control
    }

    /// Waits for both ends.
    ///
    /// # Errors
    /// When an end could not start. What went wrong on a single connection is in its report.
    pub fn join(mut self) -> Result<Outcome> {
        let client = self.client.take().map(netns::join);
        let server = self.join_server()?;
        Ok(Outcome { client: client.transpose()?.unwrap_or_default(), server })
    }

    fn join_server(&mut self) -> Result<Report> {
        let server = self.server.take().map(netns::join).transpose()?;
        Ok(server.unwrap_or_default())
    }
}

/// Keeps this thread, and those that it starts, on one CPU, and takes down how much of it they use.
fn on_cpu(cpu: Option<usize>, work: impl FnOnce() -> Result<Report>) -> Result<Report> {
    let Some(cpu) = cpu else { return work() };
    let mut cpus = CpuSet::new();
    let pinned = cpus.set(cpu).and_then(|()| sched_setaffinity(Pid::from_raw(0), &cpus));
    pinned.map_err(Error::os("run on", format!("CPU {cpu}")))?;
    let clock = TaskClock::of_this_thread()?;
    let report = work()?;
    Ok(Report { cpu: Some(clock.read()?), ..report })
}

impl Drop for Transfer {
    fn drop(&mut self) {
        let threads = [self.client.take(), self.server.take()];
        if threads.iter().any(Option::is_some) {
            self.control.cancel();
        }
        for thread in threads.into_iter().flatten() {
            // Nobody is left to read the report or the error.
            let _ = netns::join(thread);
        }
    }
}

/// Runs traffic to its end and returns what both ends saw.
///
/// # Errors
/// As [`Transfer::start`] and [`Transfer::join`].
pub fn run(client: &Namespace, server: &Namespace, spec: &Spec) -> Result<Outcome> {
    Transfer::start(client, server, spec, &Arc::new(Control::default()))?.join()
}
