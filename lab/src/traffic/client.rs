// SPDX-License-Identifier: MIT OR Apache-2.0
//! The client end of the traffic: opens connections, runs the workload and closes them.

use super::control::Control;
use super::pinning::{on_cpu, timed};
use super::report::{ConnectionReport, TrafficReport};
use super::socket;
use super::spec::{Amount, Close, Sender, TrafficSpec, Workload};
use super::stream::{Role, Stream, with_workers};
use crate::error::Result;
use crate::random::unit_at;
use std::io;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Time for which the client retries to connect while the server does not listen.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum number of failures that each worker reports.
const MAX_FAILURES: usize = 16;
/// Time between two writes of a paced sender.
const PACING_INTERVAL: Duration = Duration::from_millis(10);

/// Runs the client in the calling thread's network namespace until all connections have ended.
///
/// # Errors
/// If the client's threads cannot be started. Errors of single connections are in the report.
pub fn run_client(spec: &TrafficSpec, control: &Control) -> Result<TrafficReport> {
    on_cpu(spec.cpus.map(|[client, _]| client), || run(spec, control))
}

fn run(spec: &TrafficSpec, control: &Control) -> Result<TrafficReport> {
    let start = Instant::now();
    let deadline = start + spec.timeout;
    let next = AtomicU32::new(0);
    let parts = with_workers(spec.workers(), "lab-client", || {
        timed(spec.cpus.is_some(), || {
            let mut part = TrafficReport::default();
            while !control.cancelled() && !control.opening_stopped() && Instant::now() < deadline {
                let index = next.fetch_add(1, Ordering::Relaxed);
                if index >= spec.connections {
                    break;
                }
                match run_connection(spec, control, deadline, index) {
                    Ok(connection) => part.connections.push(connection),
                    Err(error) if part.failures.len() < MAX_FAILURES => {
                        part.failures.push(error.to_string());
                    }
                    Err(_) => {}
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

fn run_connection(
    spec: &TrafficSpec,
    control: &Control,
    deadline: Instant,
    index: u32,
) -> Result<ConnectionReport> {
    let start = Instant::now();
    let socket = socket::connect(spec, CONNECT_TIMEOUT)?;
    let mut stream = Stream::new(socket, control, spec, deadline);
    stream.connect_time = start.elapsed();
    control.count_opened();
    let outcome = work(&mut stream, spec, control, index).and_then(|()| end(&mut stream, spec, control));
    Ok(stream.finish(outcome, Role::Client))
}

fn work(stream: &mut Stream<'_>, spec: &TrafficSpec, control: &Control, index: u32) -> io::Result<()> {
    match spec.workload {
        Workload::Bulk { amount, sender: Sender::Client } => stream.send(amount),
        Workload::Bulk { sender: Sender::Server, .. } => stream.receive_all(),
        Workload::Paced { rate, duration } => send_paced(stream, control, rate, duration),
        Workload::Requests { count, request_bytes, response_bytes, think_time } => {
            for _ in 0..count {
                stream.send(Amount::Bytes(u64::from(request_bytes)))?;
                if !stream.receive_exactly(response_bytes)? {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                stream.exchanges += 1;
                control.pause(think_time);
            }
            Ok(())
        }
        Workload::Churn { bytes, min_lifetime, max_lifetime } => {
            stream.send(Amount::Bytes(bytes))?;
            let range = max_lifetime.saturating_sub(min_lifetime);
            control.pause(min_lifetime + range.mul_f64(unit_at(spec.seed, u64::from(index))));
            Ok(())
        }
    }
}

fn send_paced(stream: &mut Stream<'_>, control: &Control, rate: u64, duration: Duration) -> io::Result<()> {
    let start = Instant::now();
    let mut sent = 0;
    while start.elapsed() < duration && !control.cancelled() {
        let due = (rate as f64 / 8.0 * start.elapsed().as_secs_f64()) as u64;
        let amount = due.saturating_sub(sent);
        stream.send(Amount::Bytes(amount))?;
        sent += amount;
        control.pause(PACING_INTERVAL);
    }
    Ok(())
}

/// Waits for all acknowledgements, holds the connection, reads the socket information, then closes. With this order, an
/// observer, the kernel and the application have the same counters.
fn end(stream: &mut Stream<'_>, spec: &TrafficSpec, control: &Control) -> io::Result<()> {
    stream.wait_for_acknowledgements();
    control.wait_at_gate(stream.left());
    control.pause(spec.hold.min(stream.left()));
    if spec.read_socket_info {
        stream.read_socket_info();
    }
    match spec.close {
        Close::Fin => {
            stream.shutdown_write()?;
            stream.wait_for_fin()
        }
        Close::Abort => stream.abort_on_close(),
    }
}
