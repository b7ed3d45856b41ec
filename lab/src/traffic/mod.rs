// SPDX-License-Identifier: MIT OR Apache-2.0
//! Traffic between a client and a server over MPTCP or TCP. Each end returns a report: byte counts, a hash of the
//! stream, and the kernel's information about the socket just before the close.
//! This file runs both ends as threads. `spec.rs` describes the traffic; `client.rs` and `server.rs` are the two ends.

mod client;
mod control;
mod idle_connections;
mod pinning;
mod report;
mod server;
mod socket;
mod spec;
mod stream;

pub use client::run_client;
pub use control::Control;
pub use idle_connections::IdleConnections;
pub use report::{ConnectionReport, TrafficReport};
pub use server::run_server;
pub use socket::has_congestion_control;
pub use spec::{Amount, Close, PORT, Sender, TrafficSpec, Transport, Workload};

use crate::error::Result;
use crate::netns::{self, Namespace};
use crate::poll::poll_until;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

/// A run in progress. Client and server are threads in their namespaces. The run is cancelled when the value is dropped.
#[derive(Debug)]
pub struct Transfer {
    control: Arc<Control>,
    client: Option<JoinHandle<Result<TrafficReport>>>,
    server: Option<JoinHandle<Result<TrafficReport>>>,
}

/// The reports of both ends.
#[derive(Clone, Debug)]
pub struct TransferOutcome {
    /// The client's report.
    pub client: TrafficReport,
    /// The server's report.
    pub server: TrafficReport,
}

impl Transfer {
    /// Starts the server, and the client as soon as the server listens.
    ///
    /// # Errors
    /// If the port is in use, or the kernel lacks the transport.
    pub fn start(
        client: &Namespace,
        server: &Namespace,
        spec: &TrafficSpec,
        control: &Arc<Control>,
    ) -> Result<Self> {
        let mut transfer = Self { control: Arc::clone(control), client: None, server: None };
        let of_server =
            TrafficSpec { transport: spec.server_transport.unwrap_or(spec.transport), ..spec.clone() };
        let arguments = (of_server, Arc::clone(control));
        let serving = server.spawn("lab-server", move || run_server(&arguments.0, &arguments.1))?;
        let ready = poll_until("the lab's server to listen", Duration::from_secs(5), || {
            (control.listening() || serving.is_finished()).then_some(())
        });
        transfer.server = Some(serving);
        ready?;
        if !control.listening() {
            transfer.join_server()?;
        }
        let arguments = (spec.clone(), Arc::clone(control));
        transfer.client = Some(client.spawn("lab-client", move || {
            let report = run_client(&arguments.0, &arguments.1);
            arguments.1.finish_client();
            report
        })?);
        Ok(transfer)
    }

    /// The control that both ends share.
    #[must_use]
    pub fn control(&self) -> &Control {
        &self.control
    }

    /// Waits until both ends have ended, and returns their reports.
    ///
    /// # Errors
    /// If an end could not start. Errors of single connections are in the report of the end.
    pub fn join(mut self) -> Result<TransferOutcome> {
        let client = self.client.take().map(netns::join);
        let server = self.join_server()?;
        Ok(TransferOutcome { client: client.transpose()?.unwrap_or_default(), server })
    }

    fn join_server(&mut self) -> Result<TrafficReport> {
        let server = self.server.take().map(netns::join).transpose()?;
        Ok(server.unwrap_or_default())
    }
}

impl Drop for Transfer {
    fn drop(&mut self) {
        let threads = [self.client.take(), self.server.take()];
        if threads.iter().any(Option::is_some) {
            self.control.cancel();
        }
        for thread in threads.into_iter().flatten() {
            // The report and the error are discarded, because the caller has dropped the transfer.
            let _ = netns::join(thread);
        }
    }
}

/// Runs traffic until it ends and returns the reports of both ends.
///
/// # Errors
/// As [`Transfer::start`] and [`Transfer::join`].
pub fn run(client: &Namespace, server: &Namespace, spec: &TrafficSpec) -> Result<TransferOutcome> {
    Transfer::start(client, server, spec, &Arc::new(Control::default()))?.join()
}
