// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counters that follow the CPU time of real work, with a truth of their own that no part of mpwatch reads. Either chosen threads
//! draw power, by `/proc/TID/schedstat`, which holds for those that seldom wake (spinners, bulk senders: of others the kernel counts
//! too much there); or all threads of the machine do, by a perf counter each.

use std::collections::BTreeMap;
use std::fs;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::machine::{Machine, Picojoules};
use super::tasks::Tasks;
use super::tree::{Fault, Tree};
use crate::{Error, Result};

/// A thread's id.
pub type Tid = i32;

/// What draws power.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// The threads that are watched and followed, and nothing else.
    Threads,
    /// Whatever runs on this machine, as on a real one. Several packages are taken to be loaded alike.
    Everything,
}

/// How a live simulation runs.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    /// The machine.
    pub machine: Machine,
    /// What draws power.
    pub load: Load,
    /// How often it is looked at.
    pub tick: Duration,
    /// How often the counters move: 1 ms as hardware does, 1 s as virtual machines do.
    pub publish: Duration,
}

/// What happened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Truth {
    /// How long it ran, nanoseconds.
    pub elapsed: u64,
    /// Busy time of each thread that was watched, nanoseconds.
    pub busy: BTreeMap<Tid, u64>,
    /// Busy time of each package: of its threads, or of its CPUs.
    pub loads: Vec<u64>,
    /// What each package drew.
    pub packages: Vec<Picojoules>,
}

enum Command {
    Watch { tid: Tid, package: u32 },
    Follow { pid: Tid, package: u32 },
    Fault { device: String, fault: Fault },
    Mend { device: String },
    Tell { to: Sender<Truth> },
    Stop,
}

/// A simulation that runs; dropping it ends it.
pub struct Live {
    commands: Sender<Command>,
    thread: Option<JoinHandle<Result<Truth>>>,
}

impl Live {
    /// Lets a tree tick.
    pub fn start(tree: Tree, setup: Setup) -> Result<Self> {
        let (commands, inbox) = mpsc::channel();
        let thread = thread::Builder::new().name("raplsim".to_owned());
        let thread = thread
            .spawn(move || Simulation::new(tree, setup)?.run(&inbox))
            .map_err(Error::os("start the thread", "raplsim"))?;
        Ok(Self { commands, thread: Some(thread) })
    }

    /// From now on, the CPU time of this thread draws power in a package.
    pub fn watch(&self, tid: Tid, package: u32) {
        self.send(Command::Watch { tid, package });
    }

    /// From now on, the CPU time of all threads of this process does, also of those that it will start.
    pub fn follow(&self, pid: Tid, package: u32) {
        self.send(Command::Follow { pid, package });
    }

    /// Lets something go wrong with a zone.
    pub fn fault(&self, device: &str, fault: Fault) {
        self.send(Command::Fault { device: device.to_owned(), fault });
    }

    /// Ends what is wrong with a zone.
    pub fn mend(&self, device: &str) {
        self.send(Command::Mend { device: device.to_owned() });
    }

    /// Shows the energy up to now, and tells what has happened so far.
    pub fn so_far(&self) -> Result<Truth> {
        let (to, answer) = mpsc::channel();
        self.send(Command::Tell { to });
        answer.recv().map_err(|_| Error::Panicked { thread: "raplsim".to_owned() })
    }

    /// Ends it, while the watched threads still live, and tells what happened.
    pub fn stop(mut self) -> Result<Truth> {
        self.send(Command::Stop);
        let Some(thread) = self.thread.take() else { return Ok(Truth::default()) };
        thread.join().map_err(|_| Error::Panicked { thread: "raplsim".to_owned() })?
    }

    /// A simulation that has failed says so when it is stopped.
    fn send(&self, command: Command) {
        let _ = self.commands.send(command);
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.send(Command::Stop);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Watched {
    package: u32,
    last: u64,
}

struct Simulation {
    tree: Tree,
    setup: Setup,
    watched: BTreeMap<Tid, Watched>,
    followed: Vec<(Tid, u32)>,
    truth: Truth,
    begun: Instant,
    /// What else draws power.
    tasks: Option<Tasks>,
}

impl Simulation {
    fn new(tree: Tree, setup: Setup) -> Result<Self> {
        let packages = setup.machine.packages as usize;
        let truth = Truth { packages: vec![0; packages], loads: vec![0; packages], ..Truth::default() };
        let (watched, followed) = (BTreeMap::new(), Vec::new());
        let tasks = (setup.load == Load::Everything).then(Tasks::watch).transpose()?;
        Ok(Self { tree, setup, watched, followed, truth, begun: Instant::now(), tasks })
    }

    fn run(mut self, inbox: &Receiver<Command>) -> Result<Truth> {
        let mut shown = Instant::now();
        loop {
            match inbox.recv_timeout(self.setup.tick) {
                Ok(Command::Watch { tid, package }) => {
                    self.watch(tid, package, scheduled(tid).unwrap_or(0));
                    continue;
                }
                Ok(Command::Follow { pid, package }) => {
                    for tid in threads(pid) {
                        self.watch(tid, package, scheduled(tid).unwrap_or(0));
                    }
                    self.followed.push((pid, package));
                    continue;
                }
                Ok(Command::Fault { device, fault }) => self.tree.fault(&device, fault)?,
                Ok(Command::Mend { device }) => self.tree.mend(&device)?,
                Ok(Command::Tell { to }) => {
                    self.advance();
                    self.tree.publish()?;
                    // Who asked may have given up.
                    let _ = to.send(self.truth.clone());
                    continue;
                }
                Ok(Command::Stop) | Err(RecvTimeoutError::Disconnected) => {
                    self.advance();
                    self.tree.publish()?;
                    return Ok(self.truth);
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
            self.advance();
            if shown.elapsed() >= self.setup.publish {
                self.tree.publish()?;
                shown = Instant::now();
            }
        }
    }

    fn watch(&mut self, tid: Tid, package: u32, last: u64) {
        self.truth.busy.entry(tid).or_default();
        self.watched.insert(tid, Watched { package, last });
    }

    /// New threads count from their beginning.
    fn meet(&mut self) {
        for (pid, package) in self.followed.clone() {
            for tid in threads(pid) {
                if !self.watched.contains_key(&tid) {
                    self.watch(tid, package, 0);
                }
            }
        }
    }

    /// Turns the time since the last look into energy.
    fn advance(&mut self) {
        self.meet();
        let now = u64::try_from(self.begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let mut busy_in = self.watched_time();
        if let Some(tasks) = &mut self.tasks {
            let each = tasks.used() / busy_in.len() as u64;
            busy_in.fill(each);
        }
        let elapsed = now - self.truth.elapsed;
        self.truth.loads.iter_mut().zip(&busy_in).for_each(|(sum, busy)| *sum += busy);
        let drawn: Vec<_> = busy_in.iter().map(|busy| self.setup.machine.energy(*busy, elapsed)).collect();
        self.tree.add(&drawn);
        self.truth.packages.iter_mut().zip(&drawn).for_each(|(sum, drawn)| *sum += drawn);
        self.truth.elapsed = now;
    }

    /// Time that watched threads have used in each package since the last look.
    fn watched_time(&mut self) -> Vec<u64> {
        let mut busy_in = vec![0; self.truth.packages.len()];
        for (tid, watched) in &mut self.watched {
            let Some(total) = scheduled(*tid) else { continue };
            let time = total.saturating_sub(watched.last);
            watched.last = watched.last.max(total);
            *self.truth.busy.entry(*tid).or_default() += time;
            if let Some(sum) = busy_in.get_mut(watched.package as usize) {
                *sum += time;
            }
        }
        busy_in
    }
}

/// Threads of a process; none where there is no such process.
pub(super) fn threads(pid: Tid) -> Vec<Tid> {
    let entries = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// CPU time of a thread so far, nanoseconds. `None`: there is no such thread, or the kernel does not count.
pub(super) fn scheduled(tid: Tid) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{tid}/schedstat")).ok()?;
    text.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::super::{Layout, Power, Shape};
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn counters_follow_a_spinner() {
        let root = tempfile::tempdir().unwrap();
        let tree = Tree::create(root.path(), Shape::Intel1, Layout::Linked).unwrap();
        let machine =
            Machine { packages: 1, cpus: 2, power: Power::Linear { idle: 20_000, dynamic: 30_000 } };
        let tick = Duration::from_millis(1);
        let live = Live::start(tree, Setup { machine, load: Load::Threads, tick, publish: tick }).unwrap();
        let read = || -> u64 {
            let path = root.path().join("class/powercap/intel-rapl:0/energy_uj");
            fs::read_to_string(path).unwrap().trim().parse().unwrap()
        };
        let before = read();
        let stop = Arc::new(AtomicBool::new(false));
        let (sender, tid) = mpsc::channel();
        let seen = Arc::clone(&stop);
        let spinner = thread::spawn(move || {
            sender.send(nix::unistd::gettid().as_raw()).unwrap();
            while !seen.load(Ordering::Relaxed) {}
        });
        live.watch(tid.recv().unwrap(), 0);
        thread::sleep(Duration::from_millis(200));
        let truth = live.stop().unwrap();
        stop.store(true, Ordering::Relaxed);
        spinner.join().unwrap();
        let busy: u64 = truth.busy.values().sum();
        assert!(busy > 10_000_000 && busy <= truth.elapsed, "{truth:?}");
        let law = 20_000 * u128::from(truth.elapsed) + 15_000 * u128::from(busy);
        assert!(truth.packages[0].abs_diff(law) < 1_000_000, "{truth:?} {law}");
        let shown = u128::from(read() - before) * 1_000_000;
        assert!(shown.abs_diff(truth.packages[0]) < 130_000_000, "{shown} {truth:?}");
    }

    #[test]
    fn counters_follow_the_whole_machine() {
        let root = tempfile::tempdir().unwrap();
        let tree = Tree::create(root.path(), Shape::Intel1, Layout::Linked).unwrap();
        let machine =
            Machine { packages: 1, cpus: 2, power: Power::Linear { idle: 20_000, dynamic: 30_000 } };
        let tick = Duration::from_millis(5);
        let live = Live::start(tree, Setup { machine, load: Load::Everything, tick, publish: tick }).unwrap();
        // It may take perf counters of all threads, which not everyone may.
        if live.so_far().is_err() {
            return;
        }
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_millis(200) {}
        let so_far = live.so_far().unwrap();
        let truth = live.stop().unwrap();
        // At least this thread was busy, unless others took its CPU; at most all were.
        assert!(so_far.elapsed <= truth.elapsed && so_far.packages[0] <= truth.packages[0]);
        assert!(truth.loads[0] > 50_000_000, "{truth:?}");
        assert!(truth.packages[0] >= 20_000 * u128::from(truth.elapsed), "{truth:?}");
    }
}
