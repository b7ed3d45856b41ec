// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counters that follow the CPU time of real threads, with a truth of their own: `/proc/TID/schedstat`, which no part of mpwatch
//! reads. It holds for threads that seldom wake, spinners and bulk senders: of others the kernel counts too much there.

use std::collections::BTreeMap;
use std::fs;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::machine::{Machine, Picojoules};
use super::tree::{Fault, Tree};
use crate::{Error, Result};

/// A thread's id.
pub type Tid = i32;

/// How a live simulation runs.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    /// The machine.
    pub machine: Machine,
    /// How often the threads are looked at.
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
    /// What each package drew.
    pub packages: Vec<Picojoules>,
}

enum Command {
    Watch { tid: Tid, package: u32 },
    Fault { device: String, fault: Fault },
    Mend { device: String },
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
            .spawn(move || Simulation::new(tree, setup).run(&inbox))
            .map_err(Error::os("start the thread", "raplsim"))?;
        Ok(Self { commands, thread: Some(thread) })
    }

    /// From now on, the CPU time of this thread draws power in a package.
    pub fn watch(&self, tid: Tid, package: u32) {
        self.send(Command::Watch { tid, package });
    }

    /// Lets something go wrong with a zone.
    pub fn fault(&self, device: &str, fault: Fault) {
        self.send(Command::Fault { device: device.to_owned(), fault });
    }

    /// Ends what is wrong with a zone.
    pub fn mend(&self, device: &str) {
        self.send(Command::Mend { device: device.to_owned() });
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
    truth: Truth,
    begun: Instant,
}

impl Simulation {
    fn new(tree: Tree, setup: Setup) -> Self {
        let packages = vec![0; setup.machine.packages as usize];
        let truth = Truth { packages, ..Truth::default() };
        Self { tree, setup, watched: BTreeMap::new(), truth, begun: Instant::now() }
    }

    fn run(mut self, inbox: &Receiver<Command>) -> Result<Truth> {
        let mut shown = Instant::now();
        loop {
            match inbox.recv_timeout(self.setup.tick) {
                Ok(Command::Watch { tid, package }) => {
                    let last = busy(tid).unwrap_or(0);
                    self.truth.busy.entry(tid).or_default();
                    self.watched.insert(tid, Watched { package, last });
                    continue;
                }
                Ok(Command::Fault { device, fault }) => self.tree.fault(&device, fault)?,
                Ok(Command::Mend { device }) => self.tree.mend(&device)?,
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

    /// Turns the time since the last look into energy.
    fn advance(&mut self) {
        let now = u64::try_from(self.begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let elapsed = now - self.truth.elapsed;
        let mut busy_in = vec![0; self.truth.packages.len()];
        for (tid, watched) in &mut self.watched {
            let Some(total) = busy(*tid) else { continue };
            let time = total.saturating_sub(watched.last);
            watched.last = watched.last.max(total);
            *self.truth.busy.entry(*tid).or_default() += time;
            if let Some(sum) = busy_in.get_mut(watched.package as usize) {
                *sum += time;
            }
        }
        let drawn: Vec<_> = busy_in.iter().map(|busy| self.setup.machine.energy(*busy, elapsed)).collect();
        self.tree.add(&drawn);
        self.truth.packages.iter_mut().zip(&drawn).for_each(|(sum, drawn)| *sum += drawn);
        self.truth.elapsed = now;
    }
}

/// CPU time of a thread so far, nanoseconds. `None`: there is no such thread, or the kernel does not count.
fn busy(tid: Tid) -> Option<u64> {
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
        let live = Live::start(tree, Setup { machine, tick, publish: tick }).unwrap();
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
}
