// SPDX-License-Identifier: MIT OR Apache-2.0
//! Controls the two ends of a user's experiment: requests the descriptions of their machines, and runs traffic between them.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::ensure;
use mpwatch::shared::{Failure, RUNTIME};
use mpwatch_lab::traffic::{TrafficSpec, TransferOutcome};

use super::between::{Between, Endpoint};
use super::message::{EndpointRequest, FINISHED, GO, Job, Observation, Ready, Side};
use super::remote::Remote;
use crate::machine::Machine;
use crate::outcome::Outcome;
use crate::run::{MachineTrace, RunData};

/// Maximum time in which an end must start and answer, including the login.
const START_TIMEOUT: Duration = Duration::from_mins(1);
/// Maximum time until an end reports: at the client after the timeout of the traffic, at the server after [`FINISHED`].
const REPORT_TIMEOUT: Duration = Duration::from_mins(1);

/// The description of the machine of an end. Fails if the machine has another version of mpwatch.
pub(crate) fn machine(side: Side, endpoint: &Endpoint, stop: &AtomicBool) -> anyhow::Result<Machine> {
    let mut remote = Remote::start(side, endpoint, &EndpointRequest::Describe)?;
    let machine: Machine = remote.answer(START_TIMEOUT, stop)?;
    let (there, here) = (&machine.host.mpwatch, env!("CARGO_PKG_VERSION"));
    if there != here {
        let (name, host) = (side.name(), &machine.host.name);
        let message = format!(
            "the {name} ({host}) has mpwatch {there}, this machine {here}; install the same version on both"
        );
        return Err(Failure { code: RUNTIME, message }.into());
    }
    Ok(machine)
}

/// Runs traffic between the two machines.
pub(crate) fn run(between: &Between, seed: u64, stop: &AtomicBool) -> anyhow::Result<RunData> {
    let traffic = TrafficSpec { seed, ..between.traffic.clone() };
    let start = |side, endpoint| {
        let job = Job { side, traffic: traffic.clone() };
        let mut end = Remote::start(side, endpoint, &EndpointRequest::Run(Box::new(job)))?;
        let Ready = end.answer(START_TIMEOUT, stop)?;
        anyhow::Ok(end)
    };
    let mut server = start(Side::Server, &between.server)?;
    let mut client = start(Side::Client, &between.client)?;
    server.send(GO);
    client.send(GO);
    let at_client: Observation = client.answer(traffic.timeout + REPORT_TIMEOUT, stop)?;
    server.send(FINISHED);
    let at_server: Observation = server.answer(REPORT_TIMEOUT, stop)?;
    data(&traffic, at_client, at_server)
}

fn data(traffic: &TrafficSpec, client: Observation, server: Observation) -> anyhow::Result<RunData> {
    let error = client.traffic.first_error().or(server.traffic.first_error());
    ensure!(
        !client.traffic.connections.is_empty(),
        "no connection was made: {}",
        error.unwrap_or("no reason is known")
    );
    let is_one_machine = client.report.run.host.boot_id == server.report.run.host.boot_id;
    let mut report = client.report;
    let energy =
        [&report.energy, &server.report.energy].into_iter().flatten().map(|energy| energy.source).max();
    report.connections.extend(server.report.connections);
    let transfer = TransferOutcome { client: client.traffic, server: server.traffic };
    Ok(RunData {
        report,
        outcome: Outcome::from_transfer(
            &transfer,
            traffic.connections,
            traffic.connections > traffic.concurrency,
        ),
        ports: vec![traffic.server.port()],
        transport: traffic.transport,
        energy: energy.unwrap_or_default(),
        trace: MachineTrace { began: client.began, samples: client.samples },
        // If both ends are on one machine, its energy zones must be counted only once.
        server_trace: (!is_one_machine)
            .then_some(MachineTrace { began: server.began, samples: server.samples }),
        short: Vec::new(),
        paths: 0,
        core: Vec::new(),
        removed: None,
    })
}
