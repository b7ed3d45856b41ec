// SPDX-License-Identifier: MIT OR Apache-2.0
//! Simulated counters that advance with the CPU time of real threads. The ground truth is measured independently of mpwatch: for selected
//! threads by `/proc/TID/schedstat`, for all threads of the machine by perf counters. schedstat is accurate only for threads
//! that seldom wake up, such as spinners and bulk senders.

use std::collections::BTreeMap;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

pub use super::procfs::Tid;

use super::machine::{Picojoules, SimulatedMachine};
use super::procfs::{cpu_time, threads};
use super::task_clocks::TaskClocks;
use super::tree::{Fault, PowercapTree};
use crate::error::{Error, Result};

/// The threads whose CPU time is converted into energy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoadScope {
    /// Only the watched threads and the threads of followed processes.
    Threads,
    /// All threads of this machine. Their load is divided equally among the packages.
    Machine,
}

/// Settings of a simulation.
#[derive(Clone, Copy, Debug)]
pub struct SimulationSettings {
    /// The simulated machine.
    pub machine: SimulatedMachine,
    /// The threads whose CPU time is converted into energy.
    pub scope: LoadScope,
    /// Interval at which the CPU time is sampled.
    pub sample_interval: Duration,
    /// Interval at which the counters change: 1 ms as in hardware, 1 s as in virtual machines.
    pub update_interval: Duration,
}

/// The true busy times and energy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroundTruth {
    /// Time since the start of the simulation, nanoseconds.
    pub elapsed: u64,
    /// Busy time of each watched thread, nanoseconds.
    pub busy_by_thread: BTreeMap<Tid, u64>,
    /// Busy time of each package, nanoseconds.
    pub busy_by_package: Vec<u64>,
    /// Energy of each package.
    pub energy_by_package: Vec<Picojoules>,
}

enum Command {
    WatchThread { tid: Tid, package: u32 },
    FollowProcess { pid: Tid, package: u32 },
    InjectFault { device: String, fault: Fault },
    ClearFault { device: String },
    Report { to: Sender<GroundTruth> },
    Stop,
}

/// A running simulation. It stops when it is dropped.
pub struct LiveSimulation {
    commands: Sender<Command>,
    thread: Option<JoinHandle<Result<GroundTruth>>>,
}

impl LiveSimulation {
    /// Starts a thread that updates the counters of a tree.
    pub fn start(tree: PowercapTree, settings: SimulationSettings) -> Result<Self> {
        let (commands, inbox) = mpsc::channel();
        let thread = thread::Builder::new().name("raplsim".to_owned());
        let thread = thread
            .spawn(move || Simulation::new(tree, settings)?.run(&inbox))
            .map_err(Error::os("start the thread", "raplsim"))?;
        Ok(Self { commands, thread: Some(thread) })
    }

    /// Adds a thread, whose CPU time from now on is converted into energy of a package.
    pub fn watch_thread(&self, tid: Tid, package: u32) {
        self.send(Command::WatchThread { tid, package });
    }

    /// Adds all threads of a process, including threads that the process starts later.
    pub fn follow_process(&self, pid: Tid, package: u32) {
        self.send(Command::FollowProcess { pid, package });
    }

    /// Injects a fault into a zone.
    pub fn inject_fault(&self, device: &str, fault: Fault) {
        self.send(Command::InjectFault { device: device.to_owned(), fault });
    }

    /// Ends the faults of a zone.
    pub fn clear_fault(&self, device: &str) {
        self.send(Command::ClearFault { device: device.to_owned() });
    }

    /// Updates the counters and returns the ground truth so far.
    pub fn so_far(&self) -> Result<GroundTruth> {
        let (to, reply) = mpsc::channel();
        self.send(Command::Report { to });
        reply.recv().map_err(|_| Error::Panicked { thread: "raplsim".to_owned() })
    }

    /// Stops the simulation and returns the ground truth. The watched threads must still be running.
    pub fn stop(mut self) -> Result<GroundTruth> {
        self.send(Command::Stop);
        let Some(thread) = self.thread.take() else { return Ok(GroundTruth::default()) };
        thread.join().map_err(|_| Error::Panicked { thread: "raplsim".to_owned() })?
    }

    /// Sends a command. The error is ignored: if the simulation has failed, `stop` returns the reason.
    fn send(&self, command: Command) {
        let _ = self.commands.send(command);
    }
}

impl Drop for LiveSimulation {
    fn drop(&mut self) {
        self.send(Command::Stop);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct WatchedThread {
    package: u32,
    last: u64,
}

struct Simulation {
    tree: PowercapTree,
    settings: SimulationSettings,
    watched: BTreeMap<Tid, WatchedThread>,
    followed: Vec<(Tid, u32)>,
    truth: GroundTruth,
    started: Instant,
    /// Perf counters of all threads. `None`: the scope is [`LoadScope::Threads`].
    task_clocks: Option<TaskClocks>,
}

impl Simulation {
    fn new(tree: PowercapTree, settings: SimulationSettings) -> Result<Self> {
        let packages = settings.machine.packages as usize;
        let truth = GroundTruth {
            energy_by_package: vec![0; packages],
            busy_by_package: vec![0; packages],
            ..GroundTruth::default()
        };
        let (watched, followed) = (BTreeMap::new(), Vec::new());
        let task_clocks = (settings.scope == LoadScope::Machine).then(TaskClocks::start).transpose()?;
        Ok(Self { tree, settings, watched, followed, truth, started: Instant::now(), task_clocks })
    }

    fn run(mut self, inbox: &Receiver<Command>) -> Result<GroundTruth> {
        let mut updated = Instant::now();
        loop {
            match inbox.recv_timeout(self.settings.sample_interval) {
                Ok(Command::WatchThread { tid, package }) => {
                    self.watch(tid, package, cpu_time(tid).unwrap_or(0));
                    continue;
                }
                Ok(Command::FollowProcess { pid, package }) => {
                    for tid in threads(pid) {
                        self.watch(tid, package, cpu_time(tid).unwrap_or(0));
                    }
                    self.followed.push((pid, package));
                    continue;
                }
                Ok(Command::InjectFault { device, fault }) => self.tree.inject_fault(&device, fault)?,
                Ok(Command::ClearFault { device }) => self.tree.clear_fault(&device)?,
                Ok(Command::Report { to }) => {
                    self.advance();
                    self.tree.update_files()?;
                    // Fails if the caller has stopped waiting.
                    let _ = to.send(self.truth.clone());
                    continue;
                }
                Ok(Command::Stop) | Err(RecvTimeoutError::Disconnected) => {
                    self.advance();
                    self.tree.update_files()?;
                    return Ok(self.truth);
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
            self.advance();
            if updated.elapsed() >= self.settings.update_interval {
                self.tree.update_files()?;
                updated = Instant::now();
            }
        }
    }

    fn watch(&mut self, tid: Tid, package: u32, last: u64) {
        self.truth.busy_by_thread.entry(tid).or_default();
        self.watched.insert(tid, WatchedThread { package, last });
    }

    /// Adds the new threads of the followed processes. Their CPU time counts from the start of each thread.
    fn add_new_threads(&mut self) {
        for (pid, package) in self.followed.clone() {
            for tid in threads(pid) {
                if !self.watched.contains_key(&tid) {
                    self.watch(tid, package, 0);
                }
            }
        }
    }

    /// Converts the CPU time since the last sample into energy.
    fn advance(&mut self) {
        self.add_new_threads();
        let now = u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let mut busy = self.busy_since_last_sample();
        if let Some(clocks) = &mut self.task_clocks {
            let share = clocks.used() / busy.len() as u64;
            busy.fill(share);
        }
        let elapsed = now - self.truth.elapsed;
        self.truth.busy_by_package.iter_mut().zip(&busy).for_each(|(sum, busy)| *sum += busy);
        let energy: Vec<_> = busy.iter().map(|busy| self.settings.machine.energy(*busy, elapsed)).collect();
        self.tree.add_energy(&energy);
        self.truth.energy_by_package.iter_mut().zip(&energy).for_each(|(sum, energy)| *sum += energy);
        self.truth.elapsed = now;
    }

    /// CPU time of the watched threads in each package since the last sample.
    fn busy_since_last_sample(&mut self) -> Vec<u64> {
        let mut busy = vec![0; self.truth.energy_by_package.len()];
        for (tid, watched) in &mut self.watched {
            let Some(total) = cpu_time(*tid) else { continue };
            let time = total.saturating_sub(watched.last);
            watched.last = watched.last.max(total);
            *self.truth.busy_by_thread.entry(*tid).or_default() += time;
            if let Some(sum) = busy.get_mut(watched.package as usize) {
                *sum += time;
            }
        }
        busy
    }
}

#[cfg(test)]
mod tests {
    use super::super::machine::PowerModel;
    use super::super::platform::Platform;
    use super::super::tree::SysfsLayout;
    use super::*;
    use std::fs;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    const MACHINE: SimulatedMachine = SimulatedMachine {
        packages: 1,
        cpus: 2,
        power: PowerModel::Linear { idle: 20_000, dynamic: 30_000 },
    };

    fn start(root: &std::path::Path, scope: LoadScope, interval: Duration) -> LiveSimulation {
        let tree = PowercapTree::create(root, Platform::Intel1, SysfsLayout::Linked).unwrap();
        let settings = SimulationSettings {
            machine: MACHINE,
            scope,
            sample_interval: interval,
            update_interval: interval,
        };
        LiveSimulation::start(tree, settings).unwrap()
    }

    #[test]
    fn counters_follow_a_spinning_thread() {
        let root = tempfile::tempdir().unwrap();
        let live = start(root.path(), LoadScope::Threads, Duration::from_millis(1));
        let read = || -> u64 {
            let path = root.path().join("class/powercap/intel-rapl:0/energy_uj");
            fs::read_to_string(path).unwrap().trim().parse().unwrap()
        };
        let before = read();
        let stop = Arc::new(AtomicBool::new(false));
        let (sender, tid) = mpsc::channel();
        let stop_requested = Arc::clone(&stop);
        let spinner = thread::spawn(move || {
            sender.send(nix::unistd::gettid().as_raw()).unwrap();
            while !stop_requested.load(Ordering::Relaxed) {}
        });
        live.watch_thread(tid.recv().unwrap(), 0);
        thread::sleep(Duration::from_millis(200));
        let truth = live.stop().unwrap();
        stop.store(true, Ordering::Relaxed);
        spinner.join().unwrap();
        let busy: u64 = truth.busy_by_thread.values().sum();
        // `busy` may exceed `elapsed` a little, because the thread's CPU time is read after the clock.
        assert!(busy > 10_000_000 && busy <= truth.elapsed + 5_000_000, "{truth:?}");
        let expected = 20_000 * u128::from(truth.elapsed) + 15_000 * u128::from(busy);
        assert!(truth.energy_by_package[0].abs_diff(expected) < 1_000_000, "{truth:?} {expected}");
        let counted = u128::from(read() - before) * 1_000_000;
        assert!(counted.abs_diff(truth.energy_by_package[0]) < 130_000_000, "{counted} {truth:?}");
    }

    #[test]
    fn counters_follow_the_whole_machine() {
        let root = tempfile::tempdir().unwrap();
        let live = start(root.path(), LoadScope::Machine, Duration::from_millis(5));
        // Unprivileged users may not open perf counters of all threads.
        if live.so_far().is_err() {
            return;
        }
        let started = Instant::now();
        while started.elapsed() < Duration::from_millis(200) {}
        let so_far = live.so_far().unwrap();
        let truth = live.stop().unwrap();
        assert!(so_far.elapsed <= truth.elapsed && so_far.energy_by_package[0] <= truth.energy_by_package[0]);
        // This thread was busy for 200 ms, less the time in which other threads used its CPU.
        assert!(truth.busy_by_package[0] > 50_000_000, "{truth:?}");
        assert!(truth.energy_by_package[0] >= 20_000 * u128::from(truth.elapsed), "{truth:?}");
    }
}
