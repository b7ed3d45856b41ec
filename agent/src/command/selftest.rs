// SPDX-License-Identifier: MIT OR Apache-2.0
//! `mpwatch selftest`: a known transfer over two paths, and every number of ours beside one from somewhere else: the
//! application's own count, the kernel's MPTCP_FULL_INFO, the interface counters. Takes a few seconds, leaves nothing behind.

mod check;
mod compare;

use std::ops::ControlFlow;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use mpwatch_lab::topology::LinkSpec;
use mpwatch_lab::traffic::{ConnectionReport, Control, TrafficReport, Transfer, TransferOutcome, Workload};
use mpwatch_lab::{Namespace, Topology, mib};
use mpwatch_model::bottleneck::DetectionMethod;
use mpwatch_model::snapshot::Snapshot;
use serde::Serialize;

use self::check::Check;
use self::compare::{BuiltPath, End, Evidence};
use super::{print, trace};
use crate::cli::Scope;
use crate::live::{Live, stop_on_signals};
use crate::session::{self, Outlook};
use crate::tracker::Closed;

const INTERVAL: Duration = Duration::from_millis(200);
const TRANSFER: u64 = 20_000_000;
/// Enough RTT samples for a median, in well under a second.
const REQUESTS: u64 = 40;
/// Both transfers together take about two seconds.
const PATIENCE: Duration = Duration::from_secs(25);

/// What `--json` prints.
#[derive(Serialize)]
struct Verdict {
    schema: u32,
    checks: Vec<Check>,
    ok: bool,
}

pub(super) fn run(json: bool) -> anyhow::Result<ExitCode> {
    let stop = stop_on_signals()?;
    mpwatch_lab::sweep_stale()?;
    let queue = Duration::from_millis(50);
    let path = |mbit, rtt| LinkSpec::rate(mbit, queue).rtt(Duration::from_millis(rtt));
    let topology = Topology::two_paths(path(100.0, 10), path(50.0, 20))?;
    let mut live = trace(INTERVAL, &Scope::default(), Arc::clone(&stop))?;
    let checks = compare::all(&gather(&topology, &mut live, &stop)?);
    let ok = checks.iter().all(|check| check.ok);
    if json {
        print(&serde_json::to_string_pretty(&Verdict { schema: 1, checks, ok })?)?;
    } else {
        print(&check::table(&checks))?;
    }
    Ok(if ok { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Runs the traffic while mpwatch looks on, and asks everybody about it.
fn gather(topology: &Topology, live: &mut Live, stop: &AtomicBool) -> anyhow::Result<Evidence> {
    let before = wire_bytes(topology)?;
    let began = Instant::now();
    let mut traffic = Traffic::start(topology)?;
    let report = session::run(
        live,
        Outlook { closed: Closed::Keep, method: DetectionMethod::default(), across: false },
        None,
        |snapshot| {
            ensure!(began.elapsed() < PATIENCE, "the transfer did not end within {PATIENCE:?}");
            let over = traffic.proceed(topology, snapshot)?;
            Ok(if over { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        },
    )?;
    ensure!(!stop.load(Ordering::Relaxed), "interrupted before everything could be compared");
    let [requests, transfer] = traffic.outcomes.try_into().ok().context("a transfer has no outcome")?;
    let requests = only_connection(&requests.client)?;
    let [client, server] = [&transfer.client, &transfer.server].map(only_connection);
    Ok(Evidence {
        quiet: traffic.quiet.context("the transfer ended before it could be looked at")?,
        report,
        ends: [end("client", topology.client(), client?)?, end("server", topology.server(), server?)?],
        requests,
        paths: topology.paths().map(|path| built(&path)).collect(),
        wire_bytes: wire_bytes(topology)? - before,
    })
}

/// First requests on an idle network, then the known transfer.
struct Traffic {
    running: Option<(Transfer, Arc<Control>)>,
    outcomes: Vec<TransferOutcome>,
    /// The transfer has been done for longer than a tick.
    done: bool,
    quiet: Option<Snapshot>,
}

impl Traffic {
    fn start(topology: &Topology) -> anyhow::Result<Self> {
        let requests = Workload::Requests {
            count: REQUESTS,
            request_bytes: 100,
            response_bytes: 100,
            think_time: Duration::ZERO,
        };
        let running = Some(transfer(topology, requests, Control::default())?);
        Ok(Self { running, outcomes: Vec::new(), done: false, quiet: None })
    }

    /// Takes the next step once the one before is done. `true`: everything is over, and closed.
    fn proceed(&mut self, topology: &Topology, snapshot: Snapshot) -> anyhow::Result<bool> {
        let Some((running, control)) = self.running.take() else {
            return Ok(!is_open(&snapshot, topology));
        };
        if control.client_finished() {
            self.outcomes.push(running.join()?);
            if self.outcomes.len() == 1 {
                let upload = Workload::upload(TRANSFER);
                self.running = Some(transfer(topology, upload, Control::holding())?);
            }
            return Ok(false);
        }
        // A snapshot that began after everything was acknowledged: from then on no counter moves until the end.
        if self.done && self.quiet.is_none() {
            self.quiet = Some(snapshot);
            control.release();
        }
        self.done = control.held() == 1;
        self.running = Some((running, control));
        Ok(false)
    }
}

fn transfer(
    topology: &Topology,
    workload: Workload,
    control: Control,
) -> anyhow::Result<(Transfer, Arc<Control>)> {
    let mut spec = topology.traffic(workload)?;
    spec.congestion = Some("cubic".to_owned());
    spec.timeout = PATIENCE;
    let control = Arc::new(control);
    Ok((Transfer::start(topology.client(), topology.server(), &spec, &control)?, control))
}

fn is_open(snapshot: &Snapshot, topology: &Topology) -> bool {
    let ours = [topology.client().name(), topology.server().name()];
    snapshot.connections.iter().any(|one| one.is_open() && ours.contains(&one.netns.as_str()))
}

fn only_connection(report: &TrafficReport) -> anyhow::Result<ConnectionReport> {
    if let Some(error) = report.first_error() {
        anyhow::bail!("the traffic failed: {error}");
    }
    report.connections.first().cloned().context("the traffic made no connection")
}

fn end(name: &'static str, namespace: &Namespace, seen: ConnectionReport) -> anyhow::Result<End> {
    Ok(End { name, netns: namespace.name().to_owned(), seen, mib: mib::read(namespace)? })
}

fn built(path: &mpwatch_lab::topology::Path<'_>) -> BuiltPath {
    let quality = path.spec().link;
    let rtt = quality.forward_impairment.delay + quality.backward_impairment.delay;
    BuiltPath { client: path.client_address(), rtt }
}

fn wire_bytes(topology: &Topology) -> mpwatch_lab::Result<u64> {
    topology.paths().map(|path| Ok(path.client_counters()?.tx_bytes)).sum()
}
