// SPDX-License-Identifier: MIT OR Apache-2.0
//! `mpwatch demo`: a small network of namespaces, real MPTCP traffic of the real kernel through it, and what mpwatch sees.
//! Nothing outside those namespaces is touched; all of them are gone when it ends, however it ends.

mod simulation;

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use mpwatch_exporters::store::Samples;
use mpwatch_lab::Topology;
use mpwatch_lab::topology::{LinkSpec, PathFailure, PathSpec, TopologySpec};
use mpwatch_lab::traffic::{Control, TrafficSpec, Transfer, Transport, Workload};
use mpwatch_model::connection::Connection;
use mpwatch_tui::screen::{Link, Settings};

use self::simulation::Simulation;
use super::database::Database;
use super::{on_a_terminal, print_report, trace_with};
use crate::cli::{DemoOptions, Format, ReportOptions, Scenario, Scope};
use crate::live::stop_on_signals;
use crate::screen::{FOREVER, Screen, load_settings};
use crate::session;
use crate::source::EventSource as _;
use crate::tracker::Closed;

const INTERVAL: Duration = Duration::from_millis(500);
/// After the traffic has ended, this long at the most for the last sockets to close.
const LINGER: Duration = Duration::from_secs(3);
/// A port of its own for the plain TCP flow that `--tcp` puts beside the MPTCP one.
const TCP_PORT: u16 = mpwatch_lab::traffic::PORT + 1;

pub(super) fn run(options: &DemoOptions, scope: &Scope) -> anyhow::Result<()> {
    let stop = stop_on_signals()?;
    mpwatch_lab::sweep_stale()?;
    let topology = build(options.scenario)?;
    let simulation =
        options.simulate_rapl.then(|| Simulation::start(scope.energy().hardware().cpus)).transpose()?;
    let energy = simulation.as_ref().map_or_else(|| scope.energy(), Simulation::options);
    let mut live = trace_with(INTERVAL, scope, energy, Arc::clone(&stop))?;
    let mut database = Database::open(options.db.as_deref(), live.start())?;
    let ours = [topology.client().name().to_owned(), topology.server().name().to_owned()];
    let is_ours = |connection: &Connection| ours.contains(&connection.netns) && scope.shows(connection);

    let mut traffic = Traffic::start(&topology, options, scope.tcp)?;
    let screen =
        (!options.headless && !options.json && on_a_terminal()).then(|| open(options, &stop)).transpose()?;
    if let Some(screen) = &screen {
        live.follow(screen.pace());
    }
    let began = Instant::now();
    let mut report = session::run(&mut live, scope.outlook(Closed::Keep), None, |mut snapshot| {
        snapshot.connections.retain(is_ours);
        traffic.script(&topology, options, began.elapsed())?;
        let quiet = snapshot.connections.iter().all(|connection| !connection.is_open());
        let snapshot = Arc::new(snapshot);
        if let Some(database) = &mut database {
            database.offer(&snapshot);
        }
        if let Some(screen) = &screen {
            screen.show(snapshot);
        }
        let over = traffic.ended_at.is_some_and(|at| quiet || at.elapsed() > LINGER);
        Ok(if over || interrupted(&stop) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    })?;
    if let Some(screen) = &screen {
        // Who watched traffic for some seconds may want to look at what was seen for longer.
        screen.link(Link::Ended);
        screen.pace().wait_for_leave(FOREVER);
    }
    // The report is for the terminal that was there before.
    screen.map(Screen::close).transpose()?;
    traffic.finish()?;
    report.connections.retain(is_ours);
    let format = if options.json { Format::Json } else { Format::Text };
    // A full disk must not cost the report as well.
    let stored = database.map(Database::close).transpose();
    print_report(&report, &Samples::new(), &ReportOptions { format, output: None })?;
    stored?;
    Ok(())
}

/// The live view, with a line that says what is going on.
fn open(options: &DemoOptions, stop: &Arc<AtomicBool>) -> anyhow::Result<Screen> {
    let what = match options.scenario {
        Scenario::TwoPaths => "an upload over two links",
        Scenario::Shared => "an upload with three subflows",
        Scenario::Failover => "an upload over two links, one is cut half way",
        Scenario::Requests => "many small requests over two links",
    };
    let banner = format!("DEMO for {} s: {what}; private namespaces", options.seconds);
    Screen::open(Settings { banner: Some(banner), ..load_settings()? }, Arc::clone(stop))
}

fn interrupted(stop: &AtomicBool) -> bool {
    stop.load(Ordering::Relaxed)
}

fn build(scenario: Scenario) -> mpwatch_lab::Result<Topology> {
    let queue = Duration::from_millis(50);
    let path = |mbit: f64, rtt: u64| LinkSpec::rate(mbit, queue).rtt(Duration::from_millis(rtt));
    match scenario {
        Scenario::TwoPaths | Scenario::Requests => Topology::two_paths(path(40.0, 10), path(20.0, 30)),
        Scenario::Failover => {
            let paths = [path(30.0, 10), path(30.0, 20)].map(|link| PathSpec { link, ..PathSpec::default() });
            // So that the dead path is given up within the demo, not after a quarter of an hour.
            Topology::build(&TopologySpec {
                paths: paths.into(),
                quick_timeouts: true,
                ..TopologySpec::default()
            })
        }
        Scenario::Shared => {
            let access = LinkSpec::default();
            Topology::shared(&[access, access, access], path(40.0, 20))
        }
    }
}

/// The traffic of a scenario, and what happens to it while it runs.
struct Traffic {
    transfers: Vec<Transfer>,
    controls: Vec<Arc<Control>>,
    path_died: bool,
    ended_at: Option<Instant>,
}

impl Traffic {
    fn start(topology: &Topology, options: &DemoOptions, tcp_too: bool) -> anyhow::Result<Self> {
        let mut traffic =
            Self { transfers: Vec::new(), controls: Vec::new(), path_died: false, ended_at: None };
        let spec = spec(topology, options)?;
        traffic.add(topology, &spec)?;
        if tcp_too {
            let mut tcp = TrafficSpec { transport: Transport::Tcp, ..spec };
            tcp.server.set_port(TCP_PORT);
            traffic.add(topology, &tcp)?;
        }
        Ok(traffic)
    }

    fn add(&mut self, topology: &Topology, spec: &TrafficSpec) -> anyhow::Result<()> {
        let control = Arc::new(Control::default());
        self.transfers.push(Transfer::start(topology.client(), topology.server(), spec, &control)?);
        self.controls.push(control);
        Ok(())
    }

    /// What the scenario has in store at this time.
    fn script(
        &mut self,
        topology: &Topology,
        options: &DemoOptions,
        elapsed: Duration,
    ) -> anyhow::Result<()> {
        let total = Duration::from_secs(options.seconds);
        if options.scenario == Scenario::Failover && !self.path_died && elapsed >= total / 2 {
            self.path_died = true;
            topology.path(0)?.fail(PathFailure::LinkDown)?;
        }
        let ended = self.controls.iter().all(|control| control.client_finished());
        if self.ended_at.is_none() && (ended || elapsed > total + LINGER) {
            self.ended_at = Some(Instant::now());
        }
        Ok(())
    }

    fn finish(self) -> anyhow::Result<()> {
        for control in &self.controls {
            control.cancel();
        }
        for transfer in self.transfers {
            transfer.join()?;
        }
        Ok(())
    }
}

fn spec(topology: &Topology, options: &DemoOptions) -> anyhow::Result<TrafficSpec> {
    let duration = Duration::from_secs(options.seconds);
    let server = topology.path(0)?.server_address();
    let think = Duration::from_millis(5);
    let mut spec = match options.scenario {
        Scenario::Requests => {
            // About 16 ms an exchange: 10 ms on the path, 5 ms of thinking.
            let count = options.seconds * 1000 / 16 / 20;
            let workload = Workload::Requests {
                count: 20,
                request_bytes: 200,
                response_bytes: 10_000,
                think_time: think,
            };
            TrafficSpec {
                connections: u32::try_from(count.max(1) * 4)?,
                concurrency: 4,
                ..TrafficSpec::new(server, workload)
            }
        }
        _ => TrafficSpec::new(server, Workload::upload_for(duration)),
    };
    spec.congestion = Some("cubic".to_owned());
    spec.timeout = duration + Duration::from_mins(1);
    Ok(spec)
}
