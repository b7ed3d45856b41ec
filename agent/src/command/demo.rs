// SPDX-License-Identifier: MIT OR Apache-2.0
//! `mpwatch demo`: observes real MPTCP traffic in private namespaces. Nothing outside them is changed; they are removed at the end.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::bail;
use mpwatch_engine::tracker::Closed;
use mpwatch_lab::Topology;
use mpwatch_lab::topology::{LinkSpec, PathFailure, PathSpec, TopologySpec};
use mpwatch_lab::traffic::{Control, TrafficSpec, Transfer, Transport, Workload};
use mpwatch_model::flow::connection::Connection;
use mpwatch_model::flow::series::CounterSeries;
use mpwatch_model::kernel::cpu::LedgerMode;
use mpwatch_tui::screen::{Link, Settings};

use super::database::Database;
use super::output::{on_a_terminal, print_report};
use super::trace::{describe, interval, labels_by_name};
use crate::cli::{DemoOptions, Format, ReportOptions, Scenario, TraceOptions};
use crate::energy::simulation::Simulation;
use crate::error::Failure;
use crate::live::session::{self, TrackerSettings};
use crate::screen::{FOREVER, Screen, is_dumb, load_settings};
use crate::system::stop_flag;

/// Time between two snapshots.
const INTERVAL: Duration = Duration::from_millis(500);
/// Maximum wait for the last sockets to close after the traffic has ended.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(3);
/// Port of the plain TCP connection that `--tcp` adds.
const TCP_PORT: u16 = mpwatch_lab::traffic::PORT + 1;
const SERVER_WITHOUT_MPTCP: u16 = TCP_PORT + 1;

pub(super) fn run(options: &DemoOptions) -> anyhow::Result<()> {
    let DemoOptions { filter, trace, label, store, .. } = options;
    let interval = interval(None, INTERVAL, store.samples)?;
    let labels = labels_by_name(&label.labels)?;
    if options.simulate_rapl && trace.ledger == Some(LedgerMode::Off) {
        bail!(Failure::usage(
            "--simulate-rapl needs the CPU ledger: omit --simulate-rapl, or remove --ledger off"
        ));
    }
    let stop = stop_flag()?;
    mpwatch_lab::sweep_stale()?;
    let topology = build(options.scenario)?;
    let cpus = trace.counters.hardware().cpus;
    let simulation = options.simulate_rapl.then(|| Simulation::start(cpus)).transpose()?;
    let counters = simulation.as_ref().map_or_else(|| trace.counters.clone(), Simulation::counters);
    filter.ensure_namespace()?;
    let mut live =
        TraceOptions { counters, ..trace.clone() }.start(interval, Arc::clone(&stop))?.without_cost();
    describe(&mut live, labels, Some(topology.client().name()));
    let mut database = Database::open(store.db.as_deref(), store.samples, &live.start)?;
    let ours = [topology.client().name().to_owned(), topology.server().name().to_owned()];
    let is_ours = |connection: &Connection| ours.contains(&connection.netns) && filter.selects(connection);

    let mut traffic = ScenarioTraffic::start(&topology, options, trace.tcp)?;
    // On a terminal that cannot move its cursor, only the report is printed.
    let screen = (!options.headless && !options.json && on_a_terminal() && !is_dumb())
        .then(|| open_screen(options, &stop))
        .transpose()?;
    live.playback = screen.as_ref().map(|screen| Arc::clone(&screen.playback));
    let began = Instant::now();
    let mut report =
        session::run(&mut live, TrackerSettings::new(Closed::Keep, trace.method), None, |mut snapshot| {
            snapshot.connections.retain(is_ours);
            traffic.advance(&topology, options, began.elapsed())?;
            let all_closed = snapshot.connections.iter().all(|connection| !connection.is_open());
            let snapshot = Arc::new(snapshot);
            database.offer(&snapshot);
            if let Some(screen) = &screen {
                screen.show(snapshot);
            }
            let is_over = traffic.ended_at.is_some_and(|at| all_closed || at.elapsed() > CLOSE_TIMEOUT);
            Ok(!is_over && !stop.load(Ordering::Relaxed))
        })?;
    if let Some(screen) = &screen {
        // The final state stays on the screen until the user quits.
        screen.set_link(Link::Ended);
        screen.playback.wait_for_quit(FOREVER);
    }
    // The screen closes before the report is printed.
    screen.map(Screen::close).transpose()?;
    traffic.finish()?;
    report.connections.retain(is_ours);
    let format = if options.json { Format::Json } else { Format::Text };
    // The report is printed even if the disk is full.
    let stored = database.close(None);
    print_report(&report, &CounterSeries::new(), &ReportOptions { format, output: None, full: false })?;
    stored
}

/// The live view, with a line about the scenario.
fn open_screen(options: &DemoOptions, stop: &Arc<AtomicBool>) -> anyhow::Result<Screen> {
    let what = match options.scenario {
        Scenario::TwoPaths => "upload over two links",
        Scenario::Shared => "upload with three subflows",
        Scenario::Failover => "upload over two links, one fails halfway",
        Scenario::Requests => "many small requests over two links",
        Scenario::Fallback => "uploads to two servers, one without MPTCP",
    };
    let banner = format!("DEMO, {} s: {what}; private namespaces", options.seconds);
    Screen::open(Settings { banner: Some(banner), ..load_settings()? }, Arc::clone(stop))
}

fn build(scenario: Scenario) -> mpwatch_lab::Result<Topology> {
    let queue = Duration::from_millis(50);
    let path = |mbit: f64, rtt: u64| LinkSpec::rate(mbit, queue).rtt(Duration::from_millis(rtt));
    match scenario {
        Scenario::TwoPaths | Scenario::Requests | Scenario::Fallback => {
            Topology::two_paths(path(40.0, 10), path(20.0, 30))
        }
        Scenario::Failover => {
            let paths = [path(30.0, 10), path(30.0, 20)].map(|link| PathSpec { link, ..PathSpec::default() });
            // The kernel must give up the failed path within the demo, not after a quarter of an hour.
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

struct ScenarioTraffic {
    transfers: Vec<(Transfer, Arc<Control>)>,
    path_failed: bool,
    ended_at: Option<Instant>,
}

impl ScenarioTraffic {
    fn start(topology: &Topology, options: &DemoOptions, tcp_too: bool) -> anyhow::Result<Self> {
        let mut traffic = Self { transfers: Vec::new(), path_failed: false, ended_at: None };
        let spec = spec(topology, options)?;
        traffic.add(topology, &spec)?;
        if options.scenario == Scenario::Fallback {
            let mut to_tcp = TrafficSpec { server_transport: Some(Transport::Tcp), ..spec.clone() };
            to_tcp.server.set_port(SERVER_WITHOUT_MPTCP);
            traffic.add(topology, &to_tcp)?;
        }
        if tcp_too {
            let mut tcp = TrafficSpec { transport: Transport::Tcp, ..spec };
            tcp.server.set_port(TCP_PORT);
            traffic.add(topology, &tcp)?;
        }
        Ok(traffic)
    }

    fn add(&mut self, topology: &Topology, spec: &TrafficSpec) -> anyhow::Result<()> {
        let control = Arc::new(Control::default());
        let transfer = Transfer::start(topology.client(), topology.server(), spec, &control)?;
        self.transfers.push((transfer, control));
        Ok(())
    }

    /// Applies the events of the scenario that are due.
    fn advance(
        &mut self,
        topology: &Topology,
        options: &DemoOptions,
        elapsed: Duration,
    ) -> anyhow::Result<()> {
        let total = Duration::from_secs(options.seconds);
        if options.scenario == Scenario::Failover && !self.path_failed && elapsed >= total / 2 {
            self.path_failed = true;
            topology.path(0)?.fail(PathFailure::LinkDown)?;
        }
        let ended = self.transfers.iter().all(|(_, control)| control.client_finished());
        if self.ended_at.is_none() && (ended || elapsed > total + CLOSE_TIMEOUT) {
            self.ended_at = Some(Instant::now());
        }
        Ok(())
    }

    fn finish(self) -> anyhow::Result<()> {
        for (_, control) in &self.transfers {
            control.cancel();
        }
        for (transfer, _) in self.transfers {
            transfer.join()?;
        }
        Ok(())
    }
}

fn spec(topology: &Topology, options: &DemoOptions) -> anyhow::Result<TrafficSpec> {
    let duration = Duration::from_secs(options.seconds);
    let server = topology.path(0)?.server_address();
    let mut spec = match options.scenario {
        Scenario::Requests => {
            // An exchange takes a little more than 15 ms (10 ms on the path, 5 ms of think time); 16 ms are assumed.
            let count = options.seconds * 1000 / 16 / 20;
            let workload = Workload::Requests {
                count: 20,
                request_bytes: 200,
                response_bytes: 10_000,
                think_time: Duration::from_millis(5),
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
