// SPDX-License-Identifier: MIT OR Apache-2.0
//! The live part: builds a cell's network, runs its traffic under `mpwatch record`, watches its queues, and stores trace and labels.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use mpwatch_lab::endpoint::{self, Limits};
use mpwatch_lab::link::{Discipline, QueueReader, fair_handle};
use mpwatch_lab::topology::{LinkSpec, PathSpec, TopologySpec};
use mpwatch_lab::traffic::{Control, PORT, TrafficSpec, Transfer, Transport, Workload};
use mpwatch_lab::{Direction, Topology};
use nix::time::{ClockId, clock_gettime};

use super::cell::{App, Cell, Cross, Layout};
use super::trace;
use super::truth::{Labels, QueueSample, Time};
use crate::Observer;

const SAMPLE: Duration = Duration::from_millis(50);
const LATE: Duration = Duration::from_millis(25);

/// Where a cell's trace is, in the folder of all.
pub fn trace_of(folder: &Path, cell: &Cell) -> PathBuf {
    folder.join(format!("{cell}.mpw"))
}

/// Where a cell's labels are. They are written last: a cell that has them is complete.
pub fn labels_of(folder: &Path, cell: &Cell) -> PathBuf {
    folder.join(format!("{cell}.json"))
}

/// Runs a cell and stores its trace and labels.
pub fn run(cell: &Cell, folder: &Path) -> Result<Labels, Box<dyn std::error::Error>> {
    let lab = Topology::build(&network(cell))?;
    let mut options = vec!["--no-ledger", "--never-rest"];
    if cell.lone {
        // Nobody joins: each path has a connection of its own.
        endpoint::set_limits(lab.client(), Limits { subflows: 0, add_addr_accepted: 0 })?;
        options.push("--across");
    }
    let observer = Observer::start_every("250ms", &options);
    let watches = watches(&lab, cell)?;
    let stop = Arc::new(AtomicBool::new(false));
    let sampling = thread::spawn({
        let (stop, queues) = (Arc::clone(&stop), cell.queues());
        move || sample(&watches, queues, &stop)
    });
    let idle = idle_time();
    let others = cross_traffic(&lab, cell)?;
    thread::sleep(Duration::from_millis(u64::from(cell.seed % 5) * 60));
    let begun = Instant::now();
    let start =
        |spec: &TrafficSpec| Transfer::start(lab.client(), lab.server(), spec, &Arc::new(Control::default()));
    let transfers = traffic(&lab, cell)?.iter().map(start).collect::<Result<Vec<_>, _>>()?;
    let switched = let_it_run(&lab, cell, begun)?;
    for transfer in &transfers {
        transfer.control().cancel();
    }
    for transfer in transfers {
        // Cut off in the middle, and meant to be.
        let _ = transfer.join();
    }
    let busy = 1.0 - (idle_time() - idle) / (begun.elapsed().as_secs_f64() * cpus());
    drop(others);
    stop.store(true, Ordering::Relaxed);
    let (queues, late) = sampling.join().map_err(|_| "the queues' watcher panicked")??;
    let report = observer.finish();
    trace::cut(&report.recording(), lab.client().inode(), &trace_of(folder, cell))?;
    let addresses = lab.paths().map(|path| path.client_address()).collect();
    let labels =
        Labels { cell: *cell, addresses, switched, queues, late, busy, overflowed: overflowed(&lab)? };
    fs::write(labels_of(folder, cell), serde_json::to_vec(&labels)?)?;
    Ok(labels)
}

fn ms(milliseconds: u32) -> Duration {
    Duration::from_millis(milliseconds.into())
}

fn network(cell: &Cell) -> TopologySpec {
    // Acknowledgements meet no limit.
    let limit = |queue: usize| LinkSpec {
        backward: None,
        ..LinkSpec::rate(f64::from(cell.rate_of(queue)), ms(cell.buffer_ms()))
    };
    let rtt = |subflow: usize| ms(cell.rtt_ms(subflow));
    let paths = (0..cell.subflows).map(|subflow| match cell.layout {
        Layout::Disjoint | Layout::Switching => {
            PathSpec { link: limit(subflow).rtt(rtt(subflow)), ..PathSpec::default() }
        }
        Layout::Shared | Layout::Partly | Layout::TwoRates | Layout::Fair => PathSpec {
            link: if cell.unequal { LinkSpec::default().rtt(rtt(subflow)) } else { LinkSpec::default() },
            bottleneck: Some(if cell.layout == Layout::Fair { 0 } else { cell.queue_of(subflow, false) }),
            ..PathSpec::default()
        },
    });
    let bottlenecks = match cell.layout {
        Layout::Disjoint | Layout::Switching => 0,
        Layout::Fair => 1,
        _ => cell.queues(),
    };
    let bottleneck = |queue: usize| {
        let mut quality = limit(queue);
        if cell.layout == Layout::Fair {
            quality.forward = quality.forward.map(|shape| shape.with_discipline(Discipline::Fair));
        }
        if cell.unequal { quality } else { quality.rtt(rtt(0)) }
    };
    TopologySpec {
        paths: paths.collect(),
        bottlenecks: (0..bottlenecks).map(bottleneck).collect(),
        ..TopologySpec::default()
    }
}

/// What tells of each queue: the interface, and the queue there.
fn watches(lab: &Topology, cell: &Cell) -> Result<Vec<(QueueReader, Vec<u16>)>, mpwatch_lab::Error> {
    const LIMIT: u16 = 1;
    let mut watches = Vec::new();
    match cell.layout {
        Layout::Fair => {
            let of_paths = (1..=9).take(cell.subflows).map(fair_handle).collect();
            watches
                .extend(lab.bottleneck_queue_reader(0, Direction::Forward)?.map(|watch| (watch, of_paths)));
        }
        Layout::Disjoint | Layout::Switching => {
            for path in lab.paths() {
                watches.extend(path.queue_reader(Direction::Forward)?.map(|watch| (watch, vec![LIMIT])));
            }
        }
        Layout::Shared | Layout::Partly | Layout::TwoRates => {
            for queue in 0..cell.queues() {
                let watch = lab.bottleneck_queue_reader(queue, Direction::Forward)?;
                watches.extend(watch.map(|watch| (watch, vec![LIMIT])));
            }
        }
    }
    Ok(watches)
}

type Sampled = Result<(Vec<QueueSample>, f64), mpwatch_lab::Error>;

fn sample(watches: &[(QueueReader, Vec<u16>)], queues: usize, stop: &AtomicBool) -> Sampled {
    let (mut samples, mut late) = (Vec::new(), 0_u32);
    let mut due = Instant::now();
    while !stop.load(Ordering::Relaxed) {
        late += u32::from(due.elapsed() > LATE);
        let (mut backlog, mut drops) = (Vec::with_capacity(queues), Vec::with_capacity(queues));
        for (watch, handles) in watches {
            let found = watch.read()?;
            for handle in handles {
                let queue = found.get(handle).copied().unwrap_or_default();
                backlog.push(queue.backlog);
                drops.push(queue.drops);
            }
        }
        samples.push(QueueSample { at: boot_time(), backlog, drops });
        due = (due + SAMPLE).max(Instant::now());
        thread::sleep(due.saturating_duration_since(Instant::now()));
    }
    let share = f64::from(late) / samples.len().max(1) as f64;
    Ok((samples, share))
}

fn boot_time() -> Time {
    let now: Duration = clock_gettime(ClockId::CLOCK_BOOTTIME).expect("a clock of every Linux").into();
    u64::try_from(now.as_nanos()).unwrap_or(Time::MAX)
}

/// Longer than any cell: the traffic is cut off.
const ENDLESS: Duration = Duration::from_mins(5);

/// One run of connections over all paths, or one for each path.
fn traffic(lab: &Topology, cell: &Cell) -> Result<Vec<TrafficSpec>, mpwatch_lab::Error> {
    let workload = match cell.app {
        App::Bulk => Workload::upload_for(ENDLESS),
        App::Short => Workload::upload(500_000),
        App::Limited => Workload::Paced { rate: u64::from(cell.total_mbit()) * 700_000, duration: ENDLESS },
    };
    let mut spec = lab.traffic(workload)?;
    spec.congestion = Some(cell.congestion.name().to_owned());
    spec.concurrency = cell.connections;
    spec.connections = if cell.app == App::Short { u32::MAX } else { cell.connections };
    (spec.read_socket_info, spec.timeout, spec.seed) = (false, ENDLESS, cell.seed.into());
    if !cell.lone {
        return Ok(vec![spec]);
    }
    let over = |(path, port): (mpwatch_lab::topology::Path<'_>, u16)| {
        let server = SocketAddr::new(spec.server.ip(), port);
        TrafficSpec { server, client: Some(path.client_address()), ..spec.clone() }
    };
    Ok(lab.paths().zip(PORT + 100..).map(over).collect())
}

/// Traffic of others, until it is dropped.
fn cross_traffic(lab: &Topology, cell: &Cell) -> Result<Vec<Transfer>, mpwatch_lab::Error> {
    let through = if cell.cross == Cross::None { 0 } else { cell.queues() };
    let mut transfers = Vec::new();
    for queue in (0..through).step_by(2) {
        let Some(subflow) = (0..cell.subflows).find(|subflow| cell.queue_of(*subflow, false) == queue) else {
            continue;
        };
        let path = lab.path(subflow)?;
        let (workload, connections) = match cell.cross {
            Cross::Short => (Workload::upload(60_000), u32::MAX),
            _ if cell.queues() == 1 => (Workload::upload_for(ENDLESS), 1 + cell.seed % 3),
            _ => (Workload::upload_for(ENDLESS), 1),
        };
        let mut spec = TrafficSpec::new(path.server_address(), workload);
        let port = PORT + 1 + u16::try_from(queue).unwrap_or(0);
        spec.server = SocketAddr::new(path.server_address(), port);
        spec.client = Some(path.client_address());
        (spec.transport, spec.read_socket_info, spec.timeout) = (Transport::Tcp, false, ENDLESS);
        spec.congestion = Some("cubic".to_owned());
        (spec.connections, spec.concurrency) = (connections, connections.min(3));
        transfers.push(Transfer::start(lab.client(), lab.server(), &spec, &Arc::new(Control::default()))?);
    }
    Ok(transfers)
}

/// Waits for the end of a cell, and changes the route in its middle if it is one for that; returns when.
fn let_it_run(lab: &Topology, cell: &Cell, begun: Instant) -> Result<Option<Time>, mpwatch_lab::Error> {
    let whole = Duration::from_secs(cell.seconds.into());
    let mut switched = None;
    if cell.layout == Layout::Switching {
        thread::sleep((begun + whole / 2).saturating_duration_since(Instant::now()));
        // The subflow of the connection's opening: those that join are bound to the interface of their endpoint.
        lab.path(0)?.reroute_over(&lab.path(1)?)?;
        switched = Some(boot_time());
    }
    thread::sleep((begun + whole).saturating_duration_since(Instant::now()));
    Ok(switched)
}

/// Packets that relays dropped for lack of room.
fn overflowed(lab: &Topology) -> Result<u64, mpwatch_lab::Error> {
    let mut sum = 0;
    for impairer in lab.paths().filter_map(|path| path.impairer()) {
        for direction in [Direction::Forward, Direction::Backward] {
            sum += impairer.counters(direction)?.overflowed;
        }
    }
    Ok(sum)
}

/// Seconds that CPUs have been idle, all together.
fn idle_time() -> f64 {
    let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
    let field = |place: usize| stat.split_whitespace().nth(place)?.parse::<f64>().ok();
    // user nice system idle iowait, in hundredths
    (field(4).unwrap_or(0.0) + field(5).unwrap_or(0.0)) / 100.0
}

fn cpus() -> f64 {
    thread::available_parallelism().map_or(1.0, |count| count.get() as f64)
}
