// SPDX-License-Identifier: MIT OR Apache-2.0
//! The traffic of a run: background traffic first, then the rest; when a path fails; and when all has ended.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use mpwatch::shared::boot_now;
use mpwatch_lab::traffic::{Control, PORT, Transfer, Transport};
use mpwatch_model::unit::Nanos;

use super::application;
use super::experiment::{Load, Role, Scenario};
use super::network::Running;
use super::outcome::Outcome;

/// How long background traffic runs before the rest starts.
const LEAD: Duration = Duration::from_secs(1);
/// Maximum wait for the last sockets to close after the traffic has ended.
pub(super) const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// The traffic of a run.
pub(super) struct Traffic<'a> {
    network: &'a Running,
    scenario: &'a Scenario,
    seed: u64,
    /// In the order of the scenario; `None`: not started yet.
    running: Vec<Option<(Transfer, Arc<Control>)>>,
    application: Option<JoinHandle<anyhow::Result<Outcome>>>,
    started: Instant,
    /// When the measured traffic started.
    began: Option<(Instant, Nanos)>,
    has_failed: bool,
    ended: Option<Instant>,
    /// Server ports of the measured connections.
    pub(super) ports: Vec<u16>,
}

impl<'a> Traffic<'a> {
    /// Starts background traffic, or all if there is none.
    pub(super) fn start(network: &'a Running, scenario: &'a Scenario, seed: u64) -> anyhow::Result<Self> {
        let measured = scenario.traffic.iter().enumerate().filter(|(_, load)| load.role == Role::Measured);
        let mut ports: Vec<u16> = measured.map(|(index, _)| port(index)).collect();
        ports.extend(scenario.application.map(|_| PORT));
        let mut traffic = Self {
            network,
            scenario,
            seed,
            running: scenario.traffic.iter().map(|_| None).collect(),
            application: None,
            started: Instant::now(),
            began: None,
            has_failed: false,
            ended: None,
            ports,
        };
        traffic.launch(|role| role == Role::Background)?;
        if traffic.running.iter().all(Option::is_none) {
            traffic.launch_rest()?;
        }
        Ok(traffic)
    }

    fn launch(&mut self, which: impl Fn(Role) -> bool) -> anyhow::Result<()> {
        for (index, load) in self.scenario.traffic.iter().enumerate().filter(|(_, load)| which(load.role)) {
            let mut spec = self.network.traffic(load)?;
            spec.server.set_port(port(index));
            (spec.transport, spec.connections, spec.concurrency) =
                (load.transport, load.connections, load.concurrency);
            (spec.congestion, spec.seed) = (Some(load.congestion.to_owned()), self.seed);
            (spec.read_socket_info, spec.timeout) = (false, self.scenario.timeout);
            let control = Arc::new(Control::default());
            let [client, server] = self.network.ends(load)?;
            let transfer = Transfer::start(client, server, &spec, &control)?;
            self.running[index] = Some((transfer, control));
        }
        Ok(())
    }

    fn launch_rest(&mut self) -> anyhow::Result<()> {
        self.began = Some((Instant::now(), boot_now()?));
        if let Some(application) = self.scenario.application {
            self.application = Some(application::start(application, self.network)?);
        }
        self.launch(|role| role != Role::Background)
    }

    /// Does what is due.
    pub(super) fn advance(&mut self) -> anyhow::Result<()> {
        let Some((began, _)) = self.began else {
            return if self.started.elapsed() >= LEAD { self.launch_rest() } else { Ok(()) };
        };
        if let Some(failure) = self.scenario.failure.filter(|_| !self.has_failed)
            && began.elapsed() >= failure.after
        {
            self.has_failed = true;
            self.network.fail(failure.path)?;
        }
        let has_ended = self.measured().all(|(_, control)| control.client_finished())
            && self.application.as_ref().is_none_or(JoinHandle::is_finished);
        if has_ended && self.ended.is_none() {
            self.ended = Some(Instant::now());
            self.cancel();
        }
        Ok(())
    }

    fn cancel(&self) {
        self.running.iter().flatten().for_each(|(_, control)| control.cancel());
    }

    fn measured(&self) -> impl Iterator<Item = (&Load, &Arc<Control>)> {
        let with_loads = self.scenario.traffic.iter().zip(&self.running);
        let measured = with_loads.filter(|(load, _)| load.role == Role::Measured);
        measured.filter_map(|(load, running)| Some((load, &running.as_ref()?.1)))
    }

    pub(super) fn is_over(&self, has_open: bool) -> bool {
        self.ended.is_some_and(|ended| !has_open || ended.elapsed() > CLOSE_TIMEOUT)
    }

    /// When the measured traffic began, on the boot clock.
    pub(super) fn began(&self) -> anyhow::Result<Nanos> {
        self.began.map(|(_, at)| at).ok_or_else(|| anyhow::anyhow!("the traffic was not started"))
    }

    /// The protocol of the measured traffic.
    pub(super) fn transport(&self) -> Transport {
        let of_load = self.scenario.traffic.iter().find(|load| load.role == Role::Measured);
        let of_application = self.scenario.application.map(|application| application.transport);
        of_load.map(|load| load.transport).or(of_application).unwrap_or_default()
    }

    /// What the ends of the measured traffic observed, and the completion times of the short flows that began under all of it.
    pub(super) fn finish(self) -> anyhow::Result<(Outcome, Vec<f64>)> {
        self.cancel();
        let (mut measured, mut short) = (Outcome::default(), Vec::new());
        let mut is_first = true;
        for (load, running) in self.scenario.traffic.iter().zip(self.running) {
            let Some((transfer, _)) = running else { continue };
            let outcome =
                Outcome::of(&transfer.join()?, load.connections, load.connections > load.concurrency);
            match load.role {
                Role::Measured if is_first => (measured, is_first) = (outcome, false),
                Role::Measured => measured = measured.beside(outcome),
                Role::Short => short.extend(outcome.completion),
                Role::Background => {}
            }
        }
        if let Some(application) = self.application {
            measured =
                application.join().map_err(|_| anyhow::anyhow!("the application's thread panicked"))??;
        }
        let short = Outcome::began_beside(&short, &measured.completion);
        Ok((measured, short))
    }
}

/// The server port of a load, by its index.
fn port(load: usize) -> u16 {
    PORT + u16::try_from(load).unwrap_or(u16::MAX - PORT)
}
