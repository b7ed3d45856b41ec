// SPDX-License-Identifier: MIT OR Apache-2.0
//! Drives the two ends of an own experiment: which machines they are, and a run between them.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::ensure;
use mpwatch::shared::{Failure, RUNTIME};
use mpwatch_lab::traffic::{TrafficSpec, TransferOutcome};

use super::between::{Between, Endpoint};
use super::message::{FINISHED, GO, Job, Observation, Ready, Request, Role};
use super::remote::Remote;
use crate::machine::Machine;
use crate::outcome::Outcome;
use crate::run::{Evidence, Observed};

/// Time to log in and to answer.
const START_TIMEOUT: Duration = Duration::from_mins(1);
/// Time to end, after the limit for the traffic.
const END_TIMEOUT: Duration = Duration::from_mins(1);

/// The machine of an end. It must have this version of mpwatch.
pub(crate) fn machine(role: Role, endpoint: &Endpoint, stop: &AtomicBool) -> anyhow::Result<Machine> {
    let mut remote = Remote::start(role, endpoint, &Request::Describe)?;
    let machine: Machine = remote.answer(START_TIMEOUT, stop)?;
    let (there, here) = (&machine.host.mpwatch, env!("CARGO_PKG_VERSION"));
    if there != here {
        let (name, host) = (role.name(), &machine.host.name);
        let message = format!(
            "the {name} ({host}) has mpwatch {there}, this machine {here}; install the same version on both"
        );
        return Err(Failure { code: RUNTIME, message }.into());
    }
    Ok(machine)
}

/// Runs traffic between the two machines.
pub(crate) fn run(between: &Between, seed: u64, stop: &AtomicBool) -> anyhow::Result<Evidence> {
    let traffic = TrafficSpec { seed, ..between.traffic.clone() };
    let start = |role, endpoint| {
        let job = Job { role, traffic: traffic.clone() };
        let mut end = Remote::start(role, endpoint, &Request::Run(Box::new(job)))?;
        let Ready = end.answer(START_TIMEOUT, stop)?;
        anyhow::Ok(end)
    };
    let mut server = start(Role::Server, &between.server)?;
    let mut client = start(Role::Client, &between.client)?;
    server.send(GO);
    client.send(GO);
    let at_client: Observation = client.answer(traffic.timeout + END_TIMEOUT, stop)?;
    server.send(FINISHED);
    let at_server: Observation = server.answer(END_TIMEOUT, stop)?;
    evidence(&traffic, at_client, at_server)
}

fn evidence(traffic: &TrafficSpec, client: Observation, server: Observation) -> anyhow::Result<Evidence> {
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
    Ok(Evidence {
        report,
        outcome: Outcome::of(&transfer, traffic.connections, traffic.connections > traffic.concurrency),
        ports: vec![traffic.server.port()],
        transport: traffic.transport,
        energy: energy.unwrap_or_default(),
        observed: Observed { began: client.began, samples: client.samples },
        // The zones of one machine are counted once.
        other_machine: (!is_one_machine).then_some(Observed { began: server.began, samples: server.samples }),
        short: Vec::new(),
        paths: 0,
        core: Vec::new(),
        removed: None,
    })
}
