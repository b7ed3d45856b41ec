// SPDX-License-Identifier: MIT OR Apache-2.0
//! One run: builds the network, traces the traffic, and collects what the values are computed from.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::ensure;
use mpwatch_ebpf::congestion::{CongestionError, NAME, Registration};
use mpwatch_engine::tracker::Closed;
use mpwatch_lab::Topology;
use mpwatch_lab::topology::PathFailure;
use mpwatch_lab::traffic::{Control, PORT, Transfer, TransferOutcome};
use mpwatch_model::connection::Connection;
use mpwatch_model::cpu::LedgerMode;
use mpwatch_model::snapshot::{Report, Snapshot};
use mpwatch_model::unit::Nanos;

use super::experiment::{Load, Role, Scenario};
use crate::cli::{CounterOptions, TraceOptions};
use crate::clock;
use crate::congestion;
use crate::live::Live;
use crate::session;

/// Time between two snapshots.
const INTERVAL: Duration = Duration::from_millis(100);
/// How long background traffic runs before the rest starts.
const LEAD: Duration = Duration::from_secs(1);
/// Maximum wait for the last sockets to close after the traffic has ended.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// What the values of a run are computed from.
pub(crate) struct Evidence {
    /// Of the connections of this run.
    pub(crate) report: Report,
    /// Each load, and what both ends observed of it.
    pub(crate) loads: Vec<(Load, TransferOutcome)>,
    /// When the measured traffic started, on the boot clock.
    pub(crate) began: Nanos,
    /// One for each snapshot.
    pub(crate) samples: Vec<Sample>,
    /// Number of paths of the network.
    pub(crate) paths: usize,
}

/// What a snapshot shows.
pub(crate) struct Sample {
    /// On the boot clock.
    pub(crate) at: Nanos,
    /// Energy of the machine since tracing began, joules. `None`: unknown.
    pub(crate) joules: Option<f64>,
    /// Rates of the first two subflows of the first measured connection, bits per second.
    pub(crate) rates: Option<[f64; 2]>,
}

/// The server port of a load, by its index.
pub(crate) fn port(load: usize) -> u16 {
    PORT + u16::try_from(load).unwrap_or(u16::MAX - PORT)
}

/// Whether a connection belongs to a load.
pub(crate) fn is_of_load(connection: &Connection, load: usize) -> bool {
    [connection.local, connection.remote].into_iter().flatten().any(|end| end.port() == port(load))
}

/// Runs a scenario. The namespaces are removed at the end, also after an error.
pub(crate) fn run(
    scenario: &Scenario,
    seed: u64,
    counters: &CounterOptions,
    stop: &Arc<AtomicBool>,
) -> anyhow::Result<Evidence> {
    let _registration = register(scenario)?;
    let topology = Topology::build(&scenario.network)?;
    let options = TraceOptions {
        tcp: true,
        ledger: Some(LedgerMode::Exact),
        counters: counters.clone(),
        ..TraceOptions::default()
    };
    let mut live: Live = options.start(INTERVAL, Arc::clone(stop))?.without_cost();
    let mut traffic = Traffic::start(&topology, scenario, seed)?;
    let mut samples = Vec::new();
    let ours = [topology.client().name().to_owned(), topology.server().name().to_owned()];
    let measured = scenario.traffic.iter().position(|load| load.role == Role::Measured).unwrap_or_default();
    let mut report = session::run(&mut live, options.tracker(Closed::Keep), None, |snapshot| {
        traffic.advance()?;
        samples.push(sample(&snapshot, topology.client().name(), measured));
        let is_open = |one: &Connection| one.is_open() && ours.contains(&one.netns);
        let has_open = snapshot.connections.iter().any(is_open);
        Ok(!traffic.is_over(has_open) && !stop.load(Ordering::Relaxed))
    })?;
    ensure!(!stop.load(Ordering::Relaxed), "interrupted");
    report.connections.retain(|connection| ours.contains(&connection.netns));
    let paths = scenario.network.paths.len();
    let (began, loads) = traffic.finish()?;
    Ok(Evidence { report, loads, began, samples, paths })
}

/// Registers `mptcpd` for this run if its traffic selects it. `None`: it does not, or somebody has registered it already.
fn register(scenario: &Scenario) -> anyhow::Result<Option<Registration>> {
    if scenario.traffic.iter().all(|load| load.congestion != NAME) {
        return Ok(None);
    }
    match Registration::new() {
        Ok(registration) => Ok(Some(registration)),
        Err(CongestionError::Registered) => Ok(None),
        Err(error) => Err(congestion::explain(&error).into()),
    }
}

fn sample(snapshot: &Snapshot, client: &str, measured: usize) -> Sample {
    let zones = snapshot.energy.as_ref().map(|energy| &energy.zones).filter(|zones| !zones.is_empty());
    let mut ours = snapshot.connections.iter().filter(|one| one.netns == client && is_of_load(one, measured));
    let rates = ours.next().and_then(|connection| match &connection.subflows[..] {
        [first, second, ..] => Some([first.send?.0 as f64, second.send?.0 as f64]),
        _ => None,
    });
    Sample {
        at: snapshot.boot_time(),
        joules: zones.map(|zones| zones.iter().map(|zone| zone.zone_uj.joules()).sum()),
        rates,
    }
}

/// The traffic of a run.
struct Traffic<'a> {
    topology: &'a Topology,
    scenario: &'a Scenario,
    seed: u64,
    /// In the order of the scenario; `None`: not started yet.
    running: Vec<Option<(Transfer, Arc<Control>)>>,
    started: Instant,
    /// When the measured traffic started.
    began: Option<(Instant, Nanos)>,
    has_failed: bool,
    ended: Option<Instant>,
}

impl<'a> Traffic<'a> {
    /// Starts background traffic, or all if there is none.
    fn start(topology: &'a Topology, scenario: &'a Scenario, seed: u64) -> anyhow::Result<Self> {
        let running = scenario.traffic.iter().map(|_| None).collect();
        let started = Instant::now();
        let mut traffic =
            Self { topology, scenario, seed, running, started, began: None, has_failed: false, ended: None };
        traffic.launch(|role| role == Role::Background)?;
        if traffic.running.iter().all(Option::is_none) {
            traffic.launch_rest()?;
        }
        Ok(traffic)
    }

    fn launch(&mut self, which: impl Fn(Role) -> bool) -> anyhow::Result<()> {
        for (index, load) in self.scenario.traffic.iter().enumerate().filter(|(_, load)| which(load.role)) {
            let mut spec = self.topology.traffic(load.workload)?;
            spec.server.set_port(port(index));
            (spec.transport, spec.connections, spec.concurrency) =
                (load.transport, load.connections, load.concurrency);
            (spec.congestion, spec.seed) = (Some(load.congestion.to_owned()), self.seed);
            (spec.read_socket_info, spec.timeout) = (false, self.scenario.timeout);
            let control = Arc::new(Control::default());
            let transfer = Transfer::start(self.topology.client(), self.topology.server(), &spec, &control)?;
            self.running[index] = Some((transfer, control));
        }
        Ok(())
    }

    fn launch_rest(&mut self) -> anyhow::Result<()> {
        self.began = Some((Instant::now(), clock::boot_now()?));
        self.launch(|role| role != Role::Background)
    }

    /// Does what is due.
    fn advance(&mut self) -> anyhow::Result<()> {
        let Some((began, _)) = self.began else {
            return if self.started.elapsed() >= LEAD { self.launch_rest() } else { Ok(()) };
        };
        if let Some(failure) = self.scenario.failure.filter(|_| !self.has_failed)
            && began.elapsed() >= failure.after
        {
            self.has_failed = true;
            self.topology.path(failure.path)?.fail(PathFailure::LinkDown)?;
        }
        let has_ended = self.measured().all(|control| control.client_finished());
        if has_ended && self.ended.is_none() {
            self.ended = Some(Instant::now());
            self.controls().for_each(|control| control.cancel());
        }
        Ok(())
    }

    fn controls(&self) -> impl Iterator<Item = &Arc<Control>> {
        self.running.iter().flatten().map(|(_, control)| control)
    }

    fn measured(&self) -> impl Iterator<Item = &Arc<Control>> {
        let with_loads = self.running.iter().zip(&self.scenario.traffic);
        let measured = with_loads.filter(|(_, load)| load.role == Role::Measured);
        measured.filter_map(|(running, _)| running.as_ref().map(|(_, control)| control))
    }

    fn is_over(&self, has_open: bool) -> bool {
        self.ended.is_some_and(|ended| !has_open || ended.elapsed() > CLOSE_TIMEOUT)
    }

    fn finish(self) -> anyhow::Result<(Nanos, Vec<(Load, TransferOutcome)>)> {
        self.controls().for_each(|control| control.cancel());
        let (_, began) = self.began.ok_or_else(|| anyhow::anyhow!("the traffic was not started"))?;
        let mut loads = Vec::new();
        for (load, running) in self.scenario.traffic.iter().zip(self.running) {
            if let Some((transfer, _)) = running {
                loads.push((*load, transfer.join()?));
            }
        }
        Ok((began, loads))
    }
}
