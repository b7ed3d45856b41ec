// SPDX-License-Identifier: MIT OR Apache-2.0
//! The traffic of a run. Starts background traffic first, then the other loads; makes a path fail; detects the end.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use mpwatch::shared::boot_now;
use mpwatch_lab::traffic::{Control, PORT, Transfer, Transport};
use mpwatch_model::unit::Nanos;

use crate::application;
use crate::experiment::{Load, Purpose, Scenario};
use crate::network::RunningNetwork;
use crate::outcome::Outcome;

/// Time from the start of background traffic to the start of the other loads.
const LEAD: Duration = Duration::from_secs(1);
/// Maximum time from the end of the traffic until the last sockets close.
pub(super) const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// The traffic of a run.
pub(super) struct Traffic<'a> {
    network: &'a RunningNetwork,
    scenario: &'a Scenario,
    seed: u64,
    /// The loads, in the order of the scenario. `None`: the load was not started yet.
    running: Vec<Option<(Transfer, Arc<Control>)>>,
    application: Option<JoinHandle<anyhow::Result<Outcome>>>,
    started: Instant,
    /// Start of the measured traffic. `None`: not started yet.
    began: Option<(Instant, Nanos)>,
    path_has_failed: bool,
    ended: Option<Instant>,
    /// Server ports of the measured connections.
    pub(super) ports: Vec<u16>,
}

impl<'a> Traffic<'a> {
    /// Starts background traffic or, if there is none, all loads.
    pub(super) fn start(
        network: &'a RunningNetwork,
        scenario: &'a Scenario,
        seed: u64,
    ) -> anyhow::Result<Self> {
        let measured =
            scenario.traffic.iter().enumerate().filter(|(_, load)| load.purpose == Purpose::Measured);
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
            path_has_failed: false,
            ended: None,
            ports,
        };
        traffic.launch(|purpose| purpose == Purpose::Background)?;
        if traffic.running.iter().all(Option::is_none) {
            traffic.launch_rest()?;
        }
        Ok(traffic)
    }

    fn launch(&mut self, which: impl Fn(Purpose) -> bool) -> anyhow::Result<()> {
        for (index, load) in self.scenario.traffic.iter().enumerate().filter(|(_, load)| which(load.purpose))
        {
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
        self.launch(|purpose| purpose != Purpose::Background)
    }

    /// Starts and ends loads and makes a path fail, each at its time. Called once per snapshot.
    pub(super) fn advance(&mut self) -> anyhow::Result<()> {
        let Some((began, _)) = self.began else {
            return if self.started.elapsed() >= LEAD { self.launch_rest() } else { Ok(()) };
        };
        if let Some(failure) = self.scenario.failure.filter(|_| !self.path_has_failed)
            && began.elapsed() >= failure.after
        {
            self.path_has_failed = true;
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
        let measured = with_loads.filter(|(load, _)| load.purpose == Purpose::Measured);
        measured.filter_map(|(load, running)| Some((load, &running.as_ref()?.1)))
    }

    pub(super) fn is_over(&self, has_open: bool) -> bool {
        self.ended.is_some_and(|ended| !has_open || ended.elapsed() > CLOSE_TIMEOUT)
    }

    /// Start of the measured traffic on the boot clock.
    pub(super) fn began(&self) -> anyhow::Result<Nanos> {
        self.began.map(|(_, at)| at).ok_or_else(|| anyhow::anyhow!("the traffic was not started"))
    }

    /// The protocol of the measured traffic.
    pub(super) fn transport(&self) -> Transport {
        let of_load = self.scenario.traffic.iter().find(|load| load.purpose == Purpose::Measured);
        let of_application = self.scenario.application.map(|application| application.transport);
        of_load.map(|load| load.transport).or(of_application).unwrap_or_default()
    }

    /// The outcome of the measured traffic, and completion times of the short flows that began before any measured connection ended.
    pub(super) fn finish(self) -> anyhow::Result<(Outcome, Vec<f64>)> {
        self.cancel();
        let (mut measured, mut short) = (Outcome::default(), Vec::new());
        let mut is_first = true;
        for (load, running) in self.scenario.traffic.iter().zip(self.running) {
            let Some((transfer, _)) = running else { continue };
            let outcome = Outcome::from_transfer(
                &transfer.join()?,
                load.connections,
                load.connections > load.concurrency,
            );
            match load.purpose {
                Purpose::Measured if is_first => (measured, is_first) = (outcome, false),
                Purpose::Measured => measured = measured.with(outcome),
                Purpose::Short => short.extend(outcome.completion),
                Purpose::Background => {}
            }
        }
        if let Some(application) = self.application {
            measured =
                application.join().map_err(|_| anyhow::anyhow!("the application's thread panicked"))??;
        }
        let short = Outcome::began_under_full_load(&short, &measured.completion);
        Ok((measured, short))
    }
}

/// The server port of the load with this index.
fn port(load: usize) -> u16 {
    PORT + u16::try_from(load).unwrap_or(u16::MAX - PORT)
}
