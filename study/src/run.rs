// SPDX-License-Identifier: MIT OR Apache-2.0
//! Performs one run: builds the network, traces the traffic, and collects the data from which values are computed.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::ensure;
use mpwatch::shared::{Counters, Failure, KERNEL, Tracing};
use mpwatch_control::congestion::{self, NAME, Registration};
use mpwatch_control::driver::Driver;
use mpwatch_control::kernel;
use mpwatch_ebpf::congestion::CongestionError;
use mpwatch_engine::tracker::Closed;
use mpwatch_lab::traffic::{Transport, has_congestion_control};
use mpwatch_model::flow::bottleneck::DetectionMethod;
use mpwatch_model::flow::connection::Connection;
use mpwatch_model::flow::elimination::{EliminationPolicy, EliminationStep};
use mpwatch_model::host::energy::EnergySource;
use mpwatch_model::snapshot::{Report, Snapshot};
use mpwatch_model::unit::Nanos;
use serde::{Deserialize, Serialize};

use crate::application;
use crate::experiment::{Network, Scenario};
use crate::judge::Judgement;
use crate::methods::{self, OtherMethods};
use crate::network::RunningNetwork;
use crate::outcome::Outcome;
use crate::programs::Skip;
use crate::traffic::Traffic;

/// Time between two snapshots.
pub(super) const INTERVAL: Duration = Duration::from_millis(100);

/// The data of a run, from which its values are computed.
pub(crate) struct RunData {
    /// The report on the connections of this run.
    pub(crate) report: Report,
    /// The measured traffic, as observed by the programs.
    pub(crate) outcome: Outcome,
    /// Completion times of the short flows, seconds.
    pub(crate) short: Vec<f64>,
    /// Server ports of the measured connections, and their protocol.
    pub(crate) ports: Vec<u16>,
    pub(crate) transport: Transport,
    /// Source of the energy figures: the less reliable source of both ends.
    pub(crate) energy: EnergySource,
    /// The trace of this machine; with two machines, the trace of the client's machine.
    pub(crate) trace: MachineTrace,
    /// The trace of the server's machine. `None`: both ends are on one machine.
    pub(crate) server_trace: Option<MachineTrace>,
    /// Number of paths of the network. Zero: the number differs between pairs of hosts.
    pub(crate) paths: usize,
    /// Bytes that each core switch of a fabric received during the run.
    pub(crate) core: Vec<u64>,
    /// Number of subflows that were removed. `None`: elimination was off.
    pub(crate) removed: Option<u32>,
}

/// The snapshots of a machine during a run.
pub(crate) struct MachineTrace {
    /// Start of the measured traffic on the machine's boot clock.
    pub(crate) began: Nanos,
    /// A sample for each snapshot.
    pub(crate) samples: Vec<Sample>,
}

/// The values of a snapshot that a study needs.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Sample {
    /// Time on the boot clock.
    pub(crate) at: Nanos,
    /// Energy of the machine since tracing began, joules. `None`: unknown.
    pub(crate) joules: Option<f64>,
    /// Rates of the first two subflows of the first measured connection, bits per second. `None`: unknown, or no second subflow.
    pub(crate) rates: Option<[f64; 2]>,
    /// The evaluation of each method's verdicts on the measured connections. Empty for two machines, because their queues are unknown.
    #[serde(skip)]
    pub(crate) judgements: Vec<Judgement>,
}

/// Whether a connection has one of these server ports.
pub(crate) fn is_to(connection: &Connection, ports: &[u16]) -> bool {
    [connection.local, connection.remote].into_iter().flatten().any(|address| ports.contains(&address.port()))
}

/// Runs a scenario. The report has the verdicts of the first method; each sample has evaluations of all methods. Removes the namespaces at the end,
/// even after an error.
pub(crate) fn run(
    scenario: &Scenario,
    methods: &[DetectionMethod],
    seed: u64,
    counters: &Counters,
    stop: &Arc<AtomicBool>,
) -> anyhow::Result<RunData> {
    let _registration = register(scenario).map_err(skip_if_kernel_lacks_it)?;
    require(scenario)?;
    let mut eliminator = scenario.eliminate.then(elimination).transpose().map_err(skip_if_kernel_lacks_it)?;
    let network = RunningNetwork::build(&scenario.network, seed)?;
    let mut tracing = Tracing::start(counters, INTERVAL, Arc::clone(stop))?;
    let start = tracing.first_event();
    let tracker = methods::tracker(start, Closed::Keep, methods.first().copied().unwrap_or_default());
    let others = OtherMethods::new(start, methods.get(1..).unwrap_or_default());
    let before = network.core_bytes()?;
    let mut traffic = Traffic::start(&network, scenario, seed)?;
    let (hosts, queues) = (network.hosts(), network.queues(scenario));
    let (mut samples, mut removed) = (Vec::new(), 0);
    let is_ours = |connection: &Connection| hosts.contains(&connection.netns);
    let mut report = tracing.run(tracker, &mut |event| others.apply(event), |snapshot| {
        traffic.advance()?;
        let measured =
            |connection: &&Connection| connection.netns == hosts[0] && is_to(connection, &traffic.ports);
        samples.push(sample(&snapshot, &others.snapshots(), measured, &queues));
        if let Some(driver) = &mut eliminator {
            let steps = driver.run(&snapshot, &is_ours);
            removed +=
                steps.iter().filter(|step| matches!(step.record.step, EliminationStep::Removed(_))).count();
        }
        let has_open =
            snapshot.connections.iter().any(|connection| connection.is_open() && is_ours(connection));
        Ok(!traffic.is_over(has_open) && !stop.load(Ordering::Relaxed))
    })?;
    ensure!(!stop.load(Ordering::Relaxed), "interrupted");
    report.connections.retain(is_ours);
    let core = network.core_bytes()?.iter().zip(before).map(|(after, before)| after - before).collect();
    let (began, ports, transport) = (traffic.began()?, traffic.ports.clone(), traffic.transport());
    let (outcome, short) = traffic.finish()?;
    let paths = match &scenario.network {
        Network::Paths(spec) => spec.paths.len(),
        Network::Fabric(_) => 0,
    };
    let removed = eliminator.is_some().then_some(u32::try_from(removed)?);
    Ok(RunData {
        energy: report.energy.as_ref().map_or(EnergySource::Absent, |energy| energy.source),
        trace: MachineTrace { began, samples },
        server_trace: None,
        report,
        outcome,
        short,
        ports,
        transport,
        paths,
        core,
        removed,
    })
}

/// Fails with [`Skip`] if this machine lacks a congestion control or a program.
fn require(scenario: &Scenario) -> anyhow::Result<()> {
    let mut names = scenario.traffic.iter().map(|load| load.congestion);
    if let Some(unknown) = names.find(|name| *name != NAME && !has_congestion_control(name)) {
        let what = format!("this kernel has no congestion control {unknown} (modprobe tcp_{unknown})");
        return Err(Skip(what).into());
    }
    if let Some(application) = &scenario.application {
        application::require(application)?;
    }
    Ok(())
}

/// Converts the error for a missing kernel feature to [`Skip`], because other runs may not need the feature.
fn skip_if_kernel_lacks_it(error: anyhow::Error) -> anyhow::Error {
    match error.downcast_ref::<Failure>() {
        Some(failure) if failure.code == KERNEL => Skip(failure.message.clone()).into(),
        _ => error,
    }
}

/// Creates the driver that removes extra subflows. Its policy is faster than the default, because transfers of a study are short.
fn elimination() -> anyhow::Result<Driver> {
    let policy = EliminationPolicy { stable: Nanos(1_000_000_000), ..EliminationPolicy::default() };
    kernel::check(policy.action).map_err(Failure::from)?;
    Ok(Driver::new(policy, Some(Box::new(kernel::change))))
}

/// Registers `mptcpd` for this run if its traffic uses it. `None`: the traffic does not use `mptcpd`, or `mptcpd` is registered already.
fn register(scenario: &Scenario) -> anyhow::Result<Option<Registration>> {
    if scenario.traffic.iter().all(|load| load.congestion != NAME) {
        return Ok(None);
    }
    match Registration::new() {
        Ok(registration) => Ok(Some(registration)),
        Err(CongestionError::Registered) => Ok(None),
        Err(error) => Err(Failure::from(congestion::explain(&error)).into()),
    }
}

/// The energy of the machine and the values of the measured connections in a snapshot.
pub(super) fn sample(
    snapshot: &Snapshot,
    other_methods: &[Snapshot],
    is_measured: impl Fn(&&Connection) -> bool + Copy,
    queues: &[(IpAddr, usize)],
) -> Sample {
    let zones = snapshot.energy.as_ref().map(|energy| &energy.zones).filter(|zones| !zones.is_empty());
    let judge = |snapshot: &Snapshot| {
        let measured = snapshot.connections.iter().filter(is_measured);
        Judgement::from_connections(measured.filter(|connection| connection.is_open()), queues)
    };
    let rates =
        snapshot.connections.iter().find(is_measured).and_then(|connection| match &connection.subflows[..] {
            [first, second, ..] => Some([first.send?.0 as f64, second.send?.0 as f64]),
            _ => None,
        });
    Sample {
        at: snapshot.boot_time(),
        joules: zones.map(|zones| zones.iter().map(|zone| zone.zone_uj.joules()).sum()),
        rates,
        judgements: std::iter::once(snapshot).chain(other_methods).map(judge).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mpwatch::shared::PERMISSION;

    #[test]
    fn a_run_is_skipped_for_a_missing_kernel_feature_and_a_missing_permission_ends_the_study() {
        let failure = |code| anyhow::Error::from(Failure { code, message: "no SOCK_DESTROY".to_owned() });
        let skipped = skip_if_kernel_lacks_it(failure(KERNEL));
        assert_eq!(skipped.to_string(), "SKIP: no SOCK_DESTROY");
        assert!(skipped.downcast_ref::<Skip>().is_some());
        assert!(skip_if_kernel_lacks_it(failure(PERMISSION)).downcast_ref::<Failure>().is_some());
    }
}
