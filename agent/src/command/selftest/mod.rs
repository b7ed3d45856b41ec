// SPDX-License-Identifier: MIT OR Apache-2.0
//! `mpwatch selftest`: compares mpwatch's numbers for a known transfer with the application's, MPTCP_FULL_INFO and the interface counters.

mod check;
mod compare;

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use mpwatch_engine::tracker::Closed;
use mpwatch_lab::topology::LinkSpec;
use mpwatch_lab::traffic::{ConnectionReport, Control, TrafficReport, Transfer, TransferOutcome, Workload};
use mpwatch_lab::{Namespace, Topology, mib};
use mpwatch_model::kernel::cpu::LedgerMode;
use mpwatch_model::snapshot::Snapshot;
use serde::Serialize;

use self::check::Check;
use self::compare::{BuiltPath, Measurements, TransferEnd};
use super::output::print;
use crate::cli::TraceOptions;
use crate::live::kernel::Live;
use crate::live::session::{self, TrackerSettings};
use crate::system::stop_flag;

const INTERVAL: Duration = Duration::from_millis(200);
/// Size of the transfer in bytes.
const TRANSFER: u64 = 20_000_000;
/// Number of requests before the transfer: enough RTT samples for a median, in well under a second.
const REQUESTS: u64 = 40;
/// Maximum duration of the requests and the transfer, which take about two seconds.
const TIMEOUT: Duration = Duration::from_secs(25);

/// Output of `--json`.
#[derive(Serialize)]
struct Verdict {
    schema: u32,
    checks: Vec<Check>,
    ok: bool,
}

pub(super) fn run(json: bool) -> anyhow::Result<ExitCode> {
    let stop = stop_flag()?;
    mpwatch_lab::sweep_stale()?;
    let queue = Duration::from_millis(50);
    let path = |mbit, rtt| LinkSpec::rate(mbit, queue).rtt(Duration::from_millis(rtt));
    let topology = Topology::two_paths(path(100.0, 10), path(50.0, 20))?;
    let options = TraceOptions { ledger: Some(LedgerMode::Exact), ..TraceOptions::default() };
    let mut live = options.start(INTERVAL, Arc::clone(&stop))?;
    let checks = compare::all(&gather(&topology, &mut live, &stop)?);
    let ok = checks.iter().all(|check| check.ok);
    if json {
        print(&serde_json::to_string_pretty(&Verdict { schema: 1, checks, ok })?)?;
    } else {
        print(&check::table(&checks))?;
    }
    Ok(if ok { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Runs the traffic while mpwatch traces it, and collects the numbers of all sources.
fn gather(topology: &Topology, live: &mut Live, stop: &AtomicBool) -> anyhow::Result<Measurements> {
    let before = wire_bytes(topology)?;
    let began = Instant::now();
    let mut traffic = SelftestTraffic::start(topology)?;
    let report = session::run(live, TrackerSettings::new(Closed::Keep, None), None, |snapshot| {
        ensure!(began.elapsed() < TIMEOUT, "the transfer did not end within {TIMEOUT:?}");
        traffic.advance(topology, snapshot)
    })?;
    ensure!(!stop.load(Ordering::Relaxed), "interrupted before the end of the transfer");
    let [requests, transfer] = traffic.outcomes.try_into().ok().context("a transfer has no outcome")?;
    let requests = only_connection(&requests.client)?;
    let [client, server] = [&transfer.client, &transfer.server].map(only_connection);
    Ok(Measurements {
        idle: traffic.idle.context("the transfer ended before its snapshot")?,
        report,
        ends: [end("client", topology.client(), client?)?, end("server", topology.server(), server?)?],
        requests,
        paths: topology.paths().map(|path| built(&path)).collect(),
        wire_bytes: wire_bytes(topology)? - before,
    })
}

/// The traffic: requests on an idle network, then the known transfer.
struct SelftestTraffic {
    running: Option<(Transfer, Arc<Control>)>,
    outcomes: Vec<TransferOutcome>,
    /// Whether all data was acknowledged before the latest tick.
    is_acknowledged: bool,
    /// A snapshot after all data was acknowledged, before the connection closed.
    idle: Option<Snapshot>,
}

impl SelftestTraffic {
    fn start(topology: &Topology) -> anyhow::Result<Self> {
        let requests = Workload::Requests {
            count: REQUESTS,
            request_bytes: 100,
            response_bytes: 100,
            think_time: Duration::ZERO,
        };
        let running = Some(transfer(topology, requests, Control::default())?);
        Ok(Self { running, outcomes: Vec::new(), is_acknowledged: false, idle: None })
    }

    /// Starts the transfer after the requests. `false`: all connections are closed.
    fn advance(&mut self, topology: &Topology, snapshot: Snapshot) -> anyhow::Result<bool> {
        let Some((running, control)) = self.running.take() else {
            return Ok(is_open(&snapshot, topology));
        };
        if control.client_finished() {
            self.outcomes.push(running.join()?);
            if self.outcomes.len() == 1 {
                let upload = Workload::upload(TRANSFER);
                self.running = Some(transfer(topology, upload, Control::holding())?);
            }
            return Ok(true);
        }
        // This snapshot began after all data was acknowledged, so no counter changes until the connection closes.
        if self.is_acknowledged && self.idle.is_none() {
            self.idle = Some(snapshot);
            control.release();
        }
        self.is_acknowledged = control.held() == 1;
        self.running = Some((running, control));
        Ok(true)
    }
}

fn transfer(
    topology: &Topology,
    workload: Workload,
    control: Control,
) -> anyhow::Result<(Transfer, Arc<Control>)> {
    let mut spec = topology.traffic(workload)?;
    spec.congestion = Some("cubic".to_owned());
    spec.timeout = TIMEOUT;
    let control = Arc::new(control);
    Ok((Transfer::start(topology.client(), topology.server(), &spec, &control)?, control))
}

fn is_open(snapshot: &Snapshot, topology: &Topology) -> bool {
    let ours = [topology.client().name(), topology.server().name()];
    snapshot.connections.iter().any(|flow| flow.is_open() && ours.contains(&flow.netns.as_str()))
}

fn only_connection(report: &TrafficReport) -> anyhow::Result<ConnectionReport> {
    if let Some(error) = report.first_error() {
        anyhow::bail!("the traffic failed: {error}");
    }
    report.connections.first().cloned().context("the traffic made no connection")
}

fn end(name: &'static str, namespace: &Namespace, traffic: ConnectionReport) -> anyhow::Result<TransferEnd> {
    Ok(TransferEnd { name, netns: namespace.name().to_owned(), traffic, mib: mib::read(namespace)? })
}

fn built(path: &mpwatch_lab::topology::Path<'_>) -> BuiltPath {
    let quality = path.spec().link;
    let rtt = quality.forward_impairment.delay + quality.backward_impairment.delay;
    BuiltPath { client: path.client_address(), rtt }
}

fn wire_bytes(topology: &Topology) -> mpwatch_lab::Result<u64> {
    topology.paths().map(|path| Ok(path.client_counters()?.tx_bytes)).sum()
}
