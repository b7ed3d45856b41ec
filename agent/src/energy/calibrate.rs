// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs the steps of `mpwatch calibrate`, which `mpwatch_engine::energy::fit` plans: threads load CPUs, the sampler reads power.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use mpwatch_engine::energy::fit::Reading;
use mpwatch_engine::energy::ledger::Ledger;
use mpwatch_model::host::energy::window::{EnergyWindow, ZoneOutcome, ZoneWindow};
use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;

use super::sampler::Sampler;
use super::ticks;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StepTiming {
    /// How long the load runs before power is measured: clock rates and fans adapt slowly.
    pub(crate) settle: Duration,
    /// How long power is measured.
    pub(crate) measure: Duration,
    /// Whether other programs use the CPUs. If so, the total load is measured instead of derived from the threads of this process.
    pub(crate) is_under_load: bool,
}

/// Runs one step: loads `cpus` and reads the zones. `total_cpus`: number of CPUs of the machine. `wait` sleeps, or advances a test's clock.
pub(crate) fn measure(
    sampler: &mut Sampler,
    cpus: &[u32],
    total_cpus: u32,
    timing: StepTiming,
    mut wait: impl FnMut(Duration),
) -> Vec<Reading> {
    let _load = load(cpus);
    let (mut window, mut ledger) = (EnergyWindow::default(), Ledger::default());
    wait(timing.settle);
    sampler.window(&mut window, &mut ledger, |_| {});
    let before = timing.is_under_load.then(ticks::now);
    wait(timing.measure);
    sampler.window(&mut window, &mut ledger, |_| {});
    let after = timing.is_under_load.then(ticks::now);
    let reading = |zone: &ZoneWindow| {
        let ZoneOutcome::Energy(spent) = zone.outcome else { return None };
        let inside = cpus.iter().filter(|cpu| zone.zone.cpus.contains(**cpu)).count() as f64;
        let planned = inside / f64::from(zone.zone.cpus.count(total_cpus).max(1));
        let busy = match before.as_ref().zip(after.as_ref()) {
            Some((before, after)) => ticks::busy(before, after, &zone.zone.cpus)?,
            None => planned,
        };
        let watts = spent.energy.joules() / spent.elapsed.seconds();
        let is_valid = zone.zone.source.is_measured() && watts.is_finite();
        is_valid.then(|| Reading { zone: zone.zone.label.clone(), busy, watts })
    };
    window.zones.iter().filter_map(reading).collect()
}

/// Keeps CPUs busy, with one thread bound to each, until the returned value is dropped.
fn load(cpus: &[u32]) -> Arc<()> {
    let alive = Arc::new(());
    for &cpu in cpus {
        let alive = Arc::downgrade(&alive);
        thread::spawn(move || {
            let mut set = CpuSet::new();
            // If this process may not use the CPU, the thread runs on another CPU, which loads the machine equally.
            let _ = set.set(cpu as usize).and_then(|()| sched_setaffinity(Pid::from_raw(0), &set));
            while alive.strong_count() > 0 {
                std::hint::black_box(());
            }
        });
    }
    alive
}
