// SPDX-License-Identifier: MIT OR Apache-2.0
//! The end that accepts connections and answers as the specification says.

use super::control::Control;
use super::report::{ConnectionReport, Report};
use super::stream::{Role, Stream, connection_waits, with_workers};
use super::{Amount, Sender, Spec, Workload, socket};
use crate::error::Result;
use socket2::Socket;
use std::io;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// Runs the server in the calling thread's network namespace, until it has served as many connections as the
/// specification says, or (with a shared control) the client has finished.
///
/// # Errors
/// When it cannot listen; what goes wrong on a connection is in the report.
pub fn run_server(spec: &Spec, control: &Control) -> Result<Report> {
    super::on_cpu(spec.cpus.map(|[_, server]| server), || run(spec, control))
}

fn run(spec: &Spec, control: &Control) -> Result<Report> {
    let start = Instant::now();
    let deadline = start + spec.deadline;
    let desk =
        Desk { listener: socket::listen(spec)?, control, deadline, left: Mutex::new(spec.connections) };
    control.start_listening();
    let parts = with_workers(spec.workers(), "lab-server", || {
        let mut part = Report::default();
        while let Some(socket) = desk.next() {
            match one(socket, spec, control, deadline) {
                Ok(connection) => part.connections.push(connection),
                Err(error) => part.failures.push(error.to_string()),
            }
        }
        part
    })?;
    let mut report = Report::default();
    for part in parts {
        report.absorb(part);
    }
    report.elapsed = start.elapsed();
    Ok(report)
}

/// Where workers queue for connections.
struct Desk<'a> {
    listener: Socket,
    control: &'a Control,
    deadline: Instant,
    /// Connections still to come. Its lock lets one worker wait at the listener and the others sleep:
    /// a listener wakes everyone who polls it.
    left: Mutex<u32>,
}

impl Desk<'_> {
    /// The next connection, or `None` when no more will come.
    fn next(&self) -> Option<Socket> {
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        while *left > 0 && !self.control.cancelled() && Instant::now() < self.deadline {
            let last_look = self.control.client_finished();
            if connection_waits(&self.listener) {
                // A connection that was reset while it waited is no failure of ours.
                if let Ok((socket, _)) = self.listener.accept() {
                    *left -= 1;
                    return Some(socket);
                }
            } else if last_look {
                *left = 0;
            }
        }
        None
    }
}

fn one(socket: Socket, spec: &Spec, control: &Control, deadline: Instant) -> Result<ConnectionReport> {
    socket::prepare_stream(&socket, spec)?;
    let mut stream = Stream::new(socket, control, spec, deadline);
    let outcome = serve(&mut stream, spec);
    Ok(stream.finish(outcome, Role::Server))
}

fn serve(stream: &mut Stream<'_>, spec: &Spec) -> io::Result<()> {
    match spec.workload {
        Workload::Bulk { amount, sender: Sender::Server } => {
            stream.send(amount)?;
            stream.quiesce();
            if spec.account {
                stream.take_account();
            }
            stream.say_goodbye()?;
            return stream.receive_all();
        }
        Workload::Requests { up, down, .. } => {
            while stream.receive_exactly(up)? {
                stream.send(Amount::Bytes(u64::from(down)))?;
                stream.exchanges += 1;
            }
        }
        Workload::Bulk { .. } | Workload::Paced { .. } | Workload::Linger { .. } => {
            stream.receive_all()?;
        }
    }
    stream.quiesce();
    if spec.account {
        stream.take_account();
    }
    stream.say_goodbye()
}
