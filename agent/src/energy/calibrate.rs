// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measuring the power curve of the machine: loads CPUs step by step and reads what each zone draws. The plan and the fit
//! are in `mpwatch_engine::energy::fit`; [`Spinners`] load, and the sampler reads. Used by `mpwatch calibrate`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;

use super::sampler::Sampler;
use mpwatch_engine::energy::fit::Reading;
use mpwatch_engine::energy::ledger::Ledger;
use mpwatch_model::energy::window::{EnergyWindow, ZoneOutcome, ZoneWindow};

/// How long a step takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pace {
    /// How long it runs before it is measured: clocks and fans follow slowly.
    pub(crate) settle: Duration,
    /// How long it is measured.
    pub(crate) measure: Duration,
}

/// Runs one step: loads these CPUs and reads every zone that counts. `wait` sleeps, or turns a test's clock.
pub(crate) fn measure(
    sampler: &mut Sampler,
    cpus: &[u32],
    machine: u32,
    pace: Pace,
    mut wait: impl FnMut(Duration),
) -> Vec<Reading> {
    let _load = Spinners::start(cpus);
    let (mut window, mut ledger) = (EnergyWindow::default(), Ledger::default());
    wait(pace.settle);
    sampler.window(&mut window, &mut ledger, |_| {});
    wait(pace.measure);
    sampler.window(&mut window, &mut ledger, |_| {});
    let reading = |zone: &ZoneWindow| {
        let ZoneOutcome::Energy(spent) = zone.outcome else { return None };
        let inside = cpus.iter().filter(|cpu| zone.zone.cpus.contains(**cpu)).count() as f64;
        let busy = inside / f64::from(zone.zone.cpus.count(machine).max(1));
        let watts = spent.energy.joules() / spent.elapsed.seconds();
        (zone.zone.source.is_measured() && watts.is_finite()).then(|| Reading {
            zone: zone.zone.label.clone(),
            busy,
            watts,
        })
    };
    window.zones.iter().filter_map(reading).collect()
}

/// Threads that do nothing but run, each bound to its CPU; they end when this is dropped.
pub(crate) struct Spinners {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Spinners {
    /// One on each of these CPUs.
    pub(crate) fn start(cpus: &[u32]) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let spin = |cpu: u32| {
            let stop = Arc::clone(&stop);
            thread::spawn(move || {
                let mut set = CpuSet::new();
                // A CPU that cannot be had is loaded by somebody else's thread: the machine as a whole is as busy.
                let _ = set.set(cpu as usize).and_then(|()| sched_setaffinity(Pid::from_raw(0), &set));
                while !stop.load(Ordering::Relaxed) {
                    std::hint::black_box(());
                }
            })
        };
        let threads = cpus.iter().map(|cpu| spin(*cpu)).collect();
        Self { stop, threads }
    }
}

impl Drop for Spinners {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}
