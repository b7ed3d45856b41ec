// SPDX-License-Identifier: MIT OR Apache-2.0
//! The server end of the traffic: accepts connections and serves the specified workload.

use super::control::Control;
use super::pinning::{on_cpu, timed};
use super::report::{ConnectionReport, TrafficReport};
use super::socket;
use super::spec::{Amount, Sender, TrafficSpec, Workload};
use super::stream::{Role, Stream, is_connection_pending, with_workers};
use crate::error::Result;
use socket2::Socket;
use std::io;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// Runs the server in the calling thread's network namespace until it has served the specified number of connections,
/// or (with a shared control) the client has finished.
///
/// # Errors
/// If the server cannot listen. Errors of single connections are in the report.
pub fn run_server(spec: &TrafficSpec, control: &Control) -> Result<TrafficReport> {
    on_cpu(spec.cpus.map(|[_, server]| server), || run(spec, control))
}

fn run(spec: &TrafficSpec, control: &Control) -> Result<TrafficReport> {
    let start = Instant::now();
    let deadline = start + spec.timeout;
    let acceptor =
        Acceptor { listener: socket::listen(spec)?, control, deadline, left: Mutex::new(spec.connections) };
    control.start_listening();
    let parts = with_workers(spec.workers(), "lab-server", || {
        timed(spec.cpus.is_some(), || {
            let mut part = TrafficReport::default();
            while let Some(socket) = acceptor.next() {
                match serve_connection(socket, spec, control, deadline) {
                    Ok(connection) => part.connections.push(connection),
                    Err(error) => part.failures.push(error.to_string()),
                }
            }
            Ok(part)
        })
    })?;
    let mut report = TrafficReport::default();
    for part in parts {
        report.merge(part?);
    }
    report.elapsed = start.elapsed();
    Ok(report)
}

/// Distributes connections among the workers.
struct Acceptor<'a> {
    listener: Socket,
    control: &'a Control,
    deadline: Instant,
    /// Number of connections that the server has still to accept. Only the worker that holds the lock polls the listener, because a
    /// new connection wakes all threads that poll.
    left: Mutex<u32>,
}

impl Acceptor<'_> {
    /// Waits for the next connection. `None`: no further connection will be accepted.
    fn next(&self) -> Option<Socket> {
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        while *left > 0 && !self.control.cancelled() && Instant::now() < self.deadline {
            let client_finished = self.control.client_finished();
            if is_connection_pending(&self.listener) {
                // An error is ignored: accept(2) fails if the connection was reset before it was accepted.
                if let Ok((socket, _)) = self.listener.accept() {
                    *left -= 1;
                    return Some(socket);
                }
            } else if client_finished {
                *left = 0;
            }
        }
        None
    }
}

fn serve_connection(
    socket: Socket,
    spec: &TrafficSpec,
    control: &Control,
    deadline: Instant,
) -> Result<ConnectionReport> {
    socket::prepare_stream(&socket, spec)?;
    let mut stream = Stream::new(socket, control, spec, deadline);
    let outcome = serve(&mut stream, spec);
    Ok(stream.finish(outcome, Role::Server))
}

fn serve(stream: &mut Stream<'_>, spec: &TrafficSpec) -> io::Result<()> {
    match spec.workload {
        Workload::Bulk { amount, sender: Sender::Server } => {
            stream.send(amount)?;
            stream.wait_for_acknowledgements();
            if spec.read_socket_info {
                stream.read_socket_info();
            }
            stream.shutdown_write()?;
            return stream.receive_all();
        }
        Workload::Requests { request_bytes, response_bytes, .. } => {
            while stream.receive_exactly(request_bytes)? {
                stream.send(Amount::Bytes(u64::from(response_bytes)))?;
                stream.exchanges += 1;
            }
        }
        Workload::Bulk { .. } | Workload::Paced { .. } | Workload::Churn { .. } => {
            stream.receive_all()?;
        }
    }
    stream.wait_for_acknowledgements();
    if spec.read_socket_info {
        stream.read_socket_info();
    }
    stream.shutdown_write()
}
