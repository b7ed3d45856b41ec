// SPDX-License-Identifier: MIT OR Apache-2.0
//! The end that opens connections and decides when they end.

use super::control::Control;
use super::report::{ConnectionReport, Report};
use super::stream::{Role, Stream, with_workers};
use super::{Amount, Close, Sender, Spec, Workload, socket};
use crate::error::Result;
use crate::random::unit_at;
use std::io;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// How long a server that does not listen yet is tried.
const PATIENCE: Duration = Duration::from_secs(5);
const MOST_FAILURES: usize = 16;
/// Paced senders write this often.
const PACE: Duration = Duration::from_millis(10);

/// Runs the client in the calling thread's network namespace, until all connections are done.
///
/// # Errors
/// When its threads cannot be started; what goes wrong on a connection is in the report.
pub fn run_client(spec: &Spec, control: &Control) -> Result<Report> {
    super::on_cpu(spec.cpus.map(|[client, _]| client), || run(spec, control))
}

fn run(spec: &Spec, control: &Control) -> Result<Report> {
    let start = Instant::now();
    let deadline = start + spec.deadline;
    let next = AtomicU32::new(0);
    let parts = with_workers(spec.workers(), "lab-client", || {
        let mut part = Report::default();
        while !control.cancelled() && Instant::now() < deadline {
            let index = next.fetch_add(1, Ordering::Relaxed);
            if index >= spec.connections {
                break;
            }
            match one(spec, control, deadline, index) {
                Ok(connection) => part.connections.push(connection),
                Err(error) if part.failures.len() < MOST_FAILURES => {
                    part.failures.push(error.to_string());
                }
                Err(_) => {}
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

fn one(spec: &Spec, control: &Control, deadline: Instant, index: u32) -> Result<ConnectionReport> {
    let start = Instant::now();
    let socket = socket::connect(spec, PATIENCE)?;
    let mut stream = Stream::new(socket, control, spec, deadline);
    stream.connecting = start.elapsed();
    control.count_opened();
    let outcome = work(&mut stream, spec, control, index).and_then(|()| end(&mut stream, spec, control));
    Ok(stream.finish(outcome, Role::Client))
}

fn work(stream: &mut Stream<'_>, spec: &Spec, control: &Control, index: u32) -> io::Result<()> {
    match spec.workload {
        Workload::Bulk { amount, sender: Sender::Client } => stream.send(amount),
        Workload::Bulk { sender: Sender::Server, .. } => stream.receive_all(),
        Workload::Paced { rate, duration } => pace(stream, control, rate, duration),
        Workload::Requests { count, up, down, think } => {
            for _ in 0..count {
                stream.send(Amount::Bytes(u64::from(up)))?;
                if !stream.receive_exactly(down)? {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                stream.exchanges += 1;
                control.pause(think);
            }
            Ok(())
        }
        Workload::Linger { bytes, shortest, longest } => {
            stream.send(Amount::Bytes(bytes))?;
            let spread = longest.saturating_sub(shortest);
            control.pause(shortest + spread.mul_f64(unit_at(spec.seed, u64::from(index))));
            Ok(())
        }
    }
}

fn pace(stream: &mut Stream<'_>, control: &Control, rate: u64, duration: Duration) -> io::Result<()> {
    let start = Instant::now();
    let mut sent = 0;
    while start.elapsed() < duration && !control.cancelled() {
        let due = (rate as f64 / 8.0 * start.elapsed().as_secs_f64()) as u64;
        let amount = due.saturating_sub(sent);
        stream.send(Amount::Bytes(amount))?;
        sent += amount;
        control.pause(PACE);
    }
    Ok(())
}

/// Quiet, hold, account, close: in this order, so that an observer, the kernel and we see the same numbers.
fn end(stream: &mut Stream<'_>, spec: &Spec, control: &Control) -> io::Result<()> {
    stream.quiesce();
    control.wait_at_gate(stream.left());
    control.pause(spec.hold.min(stream.left()));
    if spec.account {
        stream.take_account();
    }
    match spec.close {
        Close::Fin => {
            stream.say_goodbye()?;
            stream.await_goodbye()
        }
        Close::Abort => stream.abort_on_close(),
    }
}
