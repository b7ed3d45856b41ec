// SPDX-License-Identifier: MIT OR Apache-2.0
//! One run: builds the network, traces the traffic, and collects what the values are computed from.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::ensure;
use mpwatch_control::congestion::{self, NAME, Registration};
use mpwatch_control::driver::Driver;
use mpwatch_control::kernel::{self, KernelActuator};
use mpwatch_ebpf::congestion::CongestionError;
use mpwatch_engine::tracker::Closed;
use mpwatch_lab::traffic::{Transport, has_congestion_control};
use mpwatch_model::flow::bottleneck::DetectionMethod;
use mpwatch_model::flow::connection::Connection;
use mpwatch_model::flow::elimination::{EliminationPolicy, EliminationStep};
use mpwatch_model::host::energy::EnergySource;
use mpwatch_model::kernel::cpu::LedgerMode;
use mpwatch_model::snapshot::{Report, Snapshot};
use mpwatch_model::unit::Nanos;
use serde::{Deserialize, Serialize};

use super::application;
use super::experiment::{Network, Scenario};
use super::judge::Judgement;
use super::methods::OtherMethods;
use super::network::Running;
use super::outcome::Outcome;
use super::programs::Skip;
use super::traffic::Traffic;
use crate::cli::{CounterOptions, TraceOptions};
use crate::error::{Failure, KERNEL};
use crate::live::Live;
use crate::session;
use crate::source::EventSource as _;

/// Time between two snapshots.
pub(super) const INTERVAL: Duration = Duration::from_millis(100);

/// What the values of a run are computed from.
pub(crate) struct Evidence {
    /// Of the connections of this run.
    pub(crate) report: Report,
    /// What both ends observed of the measured traffic.
    pub(crate) outcome: Outcome,
    /// Completion times of the short flows, seconds.
    pub(crate) short: Vec<f64>,
    /// Server ports of the measured connections, and their protocol.
    pub(crate) ports: Vec<u16>,
    pub(crate) transport: Transport,
    /// Where the joules come from, the least reliable of both ends.
    pub(crate) energy: EnergySource,
    /// This machine, or that of the client.
    pub(crate) observed: Observed,
    /// That of the server. `None`: it is the same.
    pub(crate) other_machine: Option<Observed>,
    /// Number of paths of the network. Zero: that depends on the hosts.
    pub(crate) paths: usize,
    /// Bytes that each core switch of a fabric forwarded.
    pub(crate) core: Vec<u64>,
    /// Subflows that were removed. `None`: none should be.
    pub(crate) removed: Option<u32>,
}

/// A machine during a run.
pub(crate) struct Observed {
    /// When the measured traffic started, on its boot clock.
    pub(crate) began: Nanos,
    /// One for each snapshot.
    pub(crate) samples: Vec<Sample>,
}

/// What a snapshot shows.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Sample {
    /// On the boot clock.
    pub(crate) at: Nanos,
    /// Energy of the machine since tracing began, joules. `None`: unknown.
    pub(crate) joules: Option<f64>,
    /// Rates of the first two subflows of the first measured connection, bits per second.
    pub(crate) rates: Option<[f64; 2]>,
    /// How good the verdicts of each method on the measured connections are. Between two machines nobody knows.
    #[serde(skip)]
    pub(crate) judgements: Vec<Judgement>,
}

/// Whether a connection has one of these server ports.
pub(crate) fn is_to(connection: &Connection, ports: &[u16]) -> bool {
    [connection.local, connection.remote].into_iter().flatten().any(|end| ports.contains(&end.port()))
}

/// Runs a scenario. The report has the verdicts of the first of these methods, each sample has judgements of all. The namespaces are
/// removed at the end, also after an error.
pub(crate) fn run(
    scenario: &Scenario,
    methods: &[DetectionMethod],
    seed: u64,
    counters: &CounterOptions,
    stop: &Arc<AtomicBool>,
) -> anyhow::Result<Evidence> {
    let _registration = register(scenario).map_err(skip_if_kernel_lacks_it)?;
    require(scenario)?;
    let mut eliminator = scenario.eliminate.then(elimination).transpose().map_err(skip_if_kernel_lacks_it)?;
    let network = Running::build(&scenario.network, seed)?;
    let options = TraceOptions {
        tcp: true,
        ledger: Some(LedgerMode::Exact),
        method: methods.first().copied(),
        counters: counters.clone(),
        ..TraceOptions::default()
    };
    let mut live: Live = options.start(INTERVAL, Arc::clone(stop))?.without_cost().without_backoff();
    let others = OtherMethods::new(live.start(), methods.get(1..).unwrap_or_default());
    let before = network.core_bytes()?;
    let mut traffic = Traffic::start(&network, scenario, seed)?;
    let (hosts, queues) = (network.hosts(), network.queues(scenario));
    let (mut samples, mut removed) = (Vec::new(), 0);
    let is_ours = |one: &Connection| hosts.contains(&one.netns);
    let mut source = others.beside(&mut live);
    let mut report = session::run(&mut source, options.tracker(Closed::Keep), None, |snapshot| {
        traffic.advance()?;
        let measured = |one: &&Connection| one.netns == hosts[0] && is_to(one, &traffic.ports);
        samples.push(sample(&snapshot, &others.snapshots(), measured, &queues));
        if let Some(driver) = &mut eliminator {
            let steps = driver.run(&snapshot, &is_ours);
            removed +=
                steps.iter().filter(|one| matches!(one.record.step, EliminationStep::Removed(_))).count();
        }
        let has_open = snapshot.connections.iter().any(|one| one.is_open() && is_ours(one));
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
    Ok(Evidence {
        energy: report.energy.as_ref().map_or(EnergySource::Absent, |energy| energy.source),
        observed: Observed { began, samples },
        other_machine: None,
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

/// What this kernel lacks is needed by some runs only; the others go on.
fn skip_if_kernel_lacks_it(error: anyhow::Error) -> anyhow::Error {
    match error.downcast_ref::<Failure>() {
        Some(failure) if failure.code == KERNEL => Skip(failure.message.clone()).into(),
        _ => error,
    }
}

/// Closes extra subflows sooner than the command does by default: transfers of a study are short.
fn elimination() -> anyhow::Result<Driver> {
    let policy = EliminationPolicy { stable: Nanos(1_000_000_000), ..EliminationPolicy::default() };
    kernel::check(policy.action).map_err(Failure::from)?;
    Ok(Driver::new(policy, Some(Box::new(KernelActuator))))
}

/// Registers `mptcpd` for this run if its traffic selects it. `None`: it does not, or somebody has registered it already.
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

/// What a snapshot shows of the measured connections.
pub(super) fn sample(
    snapshot: &Snapshot,
    of_others: &[Snapshot],
    is_measured: impl Fn(&&Connection) -> bool + Copy,
    queues: &[(IpAddr, usize)],
) -> Sample {
    let zones = snapshot.energy.as_ref().map(|energy| &energy.zones).filter(|zones| !zones.is_empty());
    let judge = |snapshot: &Snapshot| {
        let measured = snapshot.connections.iter().filter(is_measured);
        Judgement::of(measured.filter(|one| one.is_open()), queues)
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
        judgements: std::iter::once(snapshot).chain(of_others).map(judge).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::PERMISSION;

    #[test]
    fn a_run_that_needs_what_the_kernel_lacks_is_skipped_and_a_missing_permission_ends_the_study() {
        let failure = |code| anyhow::Error::from(Failure { code, message: "no SOCK_DESTROY".to_owned() });
        let skipped = skip_if_kernel_lacks_it(failure(KERNEL));
        assert_eq!(skipped.to_string(), "SKIP: no SOCK_DESTROY");
        assert!(skipped.downcast_ref::<Skip>().is_some());
        assert!(skip_if_kernel_lacks_it(failure(PERMISSION)).downcast_ref::<Failure>().is_some());
    }
}
