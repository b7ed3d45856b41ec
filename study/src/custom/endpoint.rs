// SPDX-License-Identifier: MIT OR Apache-2.0
//! `mpwatch study endpoint`: one end of a run between two machines, started by the command of an experiment file. Traces the machine,
//! runs one side of the traffic, and writes the observations to standard output.

use std::io::{BufRead as _, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, TryRecvError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use mpwatch::shared::{Counters, Tracing, boot_now, stop_flag};
use mpwatch_engine::tracker::{Closed, Tracker};
use mpwatch_lab::traffic::{Control, TrafficReport, run_client, run_server};
use mpwatch_model::flow::connection::Connection;
use serde::Serialize;

use super::message::{EndpointRequest, Job, Observation, Ready, Side};
use crate::machine::Machine;
use crate::run::{INTERVAL, is_to, sample};
use crate::traffic::CLOSE_TIMEOUT;

/// Time between two checks of the stop flag.
const CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// Reads a request from standard input and writes the answer to standard output.
pub(crate) fn run() -> anyhow::Result<()> {
    let stop = stop_flag()?;
    let lines = lines_of_input();
    let request = next(&lines, &stop)?;
    match serde_json::from_str(&request)
        .context("the request on standard input is not a request of mpwatch")?
    {
        EndpointRequest::Describe => send(&Machine::this()?),
        EndpointRequest::Run(job) => send(&observe(&job, &lines, &stop)?),
    }
}

fn send(message: &impl Serialize) -> anyhow::Result<()> {
    let line = serde_json::to_string(message)?;
    let mut output = std::io::stdout().lock();
    writeln!(output, "{line}").and_then(|()| output.flush()).context("cannot answer")
}

/// The lines of standard input. The channel is closed when the input ends.
fn lines_of_input() -> Receiver<String> {
    let (sender, lines) = mpsc::channel();
    thread::spawn(move || {
        std::io::stdin().lock().lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
    });
    lines
}

fn next(lines: &Receiver<String>, stop: &AtomicBool) -> anyhow::Result<String> {
    while !stop.load(Ordering::Relaxed) {
        match lines.recv_timeout(CHECK_INTERVAL) {
            Ok(line) => return Ok(line),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => bail!("standard input ended before the run ended"),
        }
    }
    bail!("interrupted")
}

/// A thread that runs one side of the traffic.
struct TrafficThread {
    control: Arc<Control>,
    thread: JoinHandle<mpwatch_lab::Result<TrafficReport>>,
}

impl TrafficThread {
    fn start(job: &Job) -> Self {
        let control = Arc::new(Control::default());
        let (spec, shared) = (job.traffic.clone(), Arc::clone(&control));
        let run = match job.side {
            Side::Client => run_client,
            Side::Server => run_server,
        };
        Self { control, thread: thread::spawn(move || run(&spec, &shared)) }
    }

    /// Starts the server side and waits until it accepts connections.
    fn listening(job: &Job) -> anyhow::Result<Self> {
        let server = Self::start(job);
        while !server.control.listening() {
            if server.thread.is_finished() {
                server.join()?;
                bail!("the server ended before it listened");
            }
            thread::sleep(CHECK_INTERVAL);
        }
        Ok(server)
    }

    fn join(self) -> anyhow::Result<TrafficReport> {
        Ok(mpwatch_lab::join(self.thread)?)
    }
}

fn observe(job: &Job, lines: &Receiver<String>, stop: &Arc<AtomicBool>) -> anyhow::Result<Observation> {
    let mut tracing = Tracing::start(&Counters::default(), INTERVAL, Arc::clone(stop))?;
    let tracker = Tracker::new(tracing.first_event().clone(), Closed::Keep);
    let server = (job.side == Side::Server).then(|| TrafficThread::listening(job)).transpose()?;
    send(&Ready)?;
    next(lines, stop)?;
    let began = boot_now()?;
    let end = server.unwrap_or_else(|| TrafficThread::start(job));

    let netns = u32::try_from(std::fs::metadata("/proc/self/ns/net")?.ino())?;
    let port = [job.traffic.server.port()];
    let is_ours = |connection: &Connection| connection.netns_inode == netns && is_to(connection, &port);
    let (mut samples, mut ended) = (Vec::new(), None::<Instant>);
    let mut report = tracing.run(tracker, &mut |_| {}, |snapshot| {
        samples.push(sample(&snapshot, &[], |connection: &&Connection| is_ours(connection), &[]));
        match lines.try_recv() {
            Ok(_) => end.control.finish_client(),
            Err(TryRecvError::Disconnected) => bail!("the process that started this end has ended"),
            Err(TryRecvError::Empty) => {}
        }
        if end.thread.is_finished() {
            ended = ended.or_else(|| Some(Instant::now()));
        }
        let has_open =
            snapshot.connections.iter().any(|connection| connection.is_open() && is_ours(connection));
        let is_over = ended.is_some_and(|ended| !has_open || ended.elapsed() > CLOSE_TIMEOUT);
        Ok(!is_over && !stop.load(Ordering::Relaxed))
    })?;
    if stop.load(Ordering::Relaxed) {
        bail!("interrupted");
    }
    report.connections.retain(is_ours);
    Ok(Observation { report, traffic: end.join()?, began, samples })
}
