// SPDX-License-Identifier: MIT OR Apache-2.0
//! Steady churn: short connections between two permanent namespaces, and jobs, each of which has its own namespace and control group.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use mpwatch_lab::Topology;
use mpwatch_lab::topology::LinkSpec;
use mpwatch_lab::traffic::{self, PORT, TrafficSpec, Workload};

use super::job::Groups;
use super::options::Options;
use super::outcome::Outcome;
use super::wait::wait_until;

/// Payload of a connection in bytes.
const BYTES: u64 = 1_000;
const MIN_LIFETIME: Duration = Duration::from_millis(1);
const MAX_LIFETIME: Duration = Duration::from_millis(500);
/// Duration of a batch of connections. The churn can end only between batches.
const BATCH: Duration = Duration::from_secs(5);
/// Number of jobs that can run in parallel.
const JOB_THREADS: usize = 4;

/// Counts of the churn so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Number of connections between the two permanent namespaces.
    pub(super) connections: u64,
    /// Number of jobs. Each has a namespace, a control group and one connection.
    pub(super) jobs: u64,
    /// Number of failures of batches of connections and of jobs.
    pub(super) failed: u64,
}

#[derive(Default)]
struct Progress {
    connections: AtomicU64,
    jobs: AtomicU64,
    failed: AtomicU64,
    next_job: AtomicU64,
}

/// Running churn. It ends when the value is dropped.
pub(super) struct Churn {
    stop: Arc<AtomicBool>,
    progress: Arc<Progress>,
    threads: Vec<JoinHandle<()>>,
}

impl Churn {
    /// Starts the churn. The churn also ends when `interrupted` is set.
    pub(super) fn start(options: &Options, interrupted: &Arc<AtomicBool>) -> Outcome<Self> {
        let lab = Topology::two_paths(LinkSpec::default(), LinkSpec::default())?;
        let groups = Arc::new(Groups::new()?);
        let mut churn = Self { stop: Arc::default(), progress: Arc::default(), threads: Vec::new() };
        let (rate, began) = (options.jobs, Instant::now());
        for _ in 0..JOB_THREADS {
            let (groups, pace) = (Arc::clone(&groups), churn.pace(interrupted));
            let work = move || run_jobs(&groups, &pace, began, rate);
            churn.threads.push(thread::Builder::new().name("soak-jobs".to_owned()).spawn(work)?);
        }
        let (pace, rate) = (churn.pace(interrupted), options.connections);
        let work = move || run_connections(&lab, &pace, rate);
        churn.threads.push(thread::Builder::new().name("soak-traffic".to_owned()).spawn(work)?);
        Ok(churn)
    }

    fn pace(&self, interrupted: &Arc<AtomicBool>) -> Pace {
        let stop = [Arc::clone(&self.stop), Arc::clone(interrupted)];
        Pace { stop, progress: Arc::clone(&self.progress) }
    }

    pub(super) fn counts(&self) -> Counts {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let Progress { connections, jobs, failed, next_job: _ } = &*self.progress;
        Counts { connections: read(connections), jobs: read(jobs), failed: read(failed) }
    }

    /// Ends the churn and returns its counts.
    pub(super) fn finish(mut self) -> Counts {
        self.join();
        self.counts()
    }

    fn join(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                eprintln!("bench: a thread of the churn has panicked");
            }
        }
    }
}

impl Drop for Churn {
    fn drop(&mut self) {
        self.join();
    }
}

/// State that the threads of the churn share.
struct Pace {
    stop: [Arc<AtomicBool>; 2],
    progress: Arc<Progress>,
}

impl Pace {
    /// Waits until `due`. Returns `false` if the churn must end.
    fn wait_until(&self, due: Instant) -> bool {
        loop {
            if self.stop.iter().any(|stop| stop.load(Ordering::Relaxed)) {
                return false;
            }
            let soon = Instant::now() + Duration::from_millis(100);
            if due <= soon {
                return wait_until(due, &self.stop[0]);
            }
            if !wait_until(soon, &self.stop[0]) {
                return false;
            }
        }
    }

    fn failed(&self, count: u64, error: &str) {
        self.progress.failed.fetch_add(count, Ordering::Relaxed);
        eprintln!("bench: {error}");
    }
}

/// Runs jobs at a rate of `per_second`. A job that is late starts immediately.
fn run_jobs(groups: &Groups, pace: &Pace, began: Instant, per_second: u32) {
    loop {
        let number = pace.progress.next_job.fetch_add(1, Ordering::Relaxed);
        let due = began + Duration::from_secs_f64(number as f64 / f64::from(per_second));
        if !pace.wait_until(due) {
            return;
        }
        match groups.run_job(number) {
            Ok(()) => _ = pace.progress.jobs.fetch_add(1, Ordering::Relaxed),
            Err(error) => pace.failed(1, &error.to_string()),
        }
    }
}

fn run_connections(lab: &Topology, pace: &Pace, per_second: u32) {
    let mut due = Instant::now();
    // The ports alternate, because the port of the previous batch may still be in use.
    let mut ports = [PORT, PORT + 1].into_iter().cycle();
    while pace.wait_until(due) {
        due = (due + BATCH).max(Instant::now());
        match run_batch(lab, ports.next().unwrap_or(PORT), per_second) {
            Ok((done, failed)) => {
                pace.progress.connections.fetch_add(done, Ordering::Relaxed);
                if let Some(error) = failed {
                    pace.failed(1, &error);
                }
            }
            Err(error) => pace.failed(1, &error.to_string()),
        }
    }
}

/// Runs a batch of connections. Returns the number of opened connections, and the first error.
fn run_batch(lab: &Topology, port: u16, per_second: u32) -> Outcome<(u64, Option<String>)> {
    let workload = Workload::Churn { bytes: BYTES, min_lifetime: MIN_LIFETIME, max_lifetime: MAX_LIFETIME };
    let address = lab.path(0)?.server_address();
    let mut spec = TrafficSpec::new(address, workload);
    spec.server.set_port(port);
    let seconds = u32::try_from(BATCH.as_secs())?;
    // Connections last a quarter of a second on average. The concurrency is higher than a quarter of the rate to compensate delays.
    (spec.connections, spec.concurrency) = (per_second * seconds, (per_second * 3).div_ceil(10));
    spec.read_socket_info = false;
    let report = traffic::run(lab.client(), lab.server(), &spec)?.client;
    Ok((report.connections.len() as u64, report.first_error().map(ToString::to_string)))
}
