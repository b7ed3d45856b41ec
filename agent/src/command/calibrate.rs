// SPDX-License-Identifier: MIT OR Apache-2.0
//! `mpwatch calibrate`: measures the power of each zone when the machine is idle and under load, and writes it to a file that every
//! later run reads. `--verify` compares idle power and full load with that file.

use std::fs;
use std::path::Path;
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use anyhow::{Context, anyhow, bail, ensure};
use jiff::Timestamp;
use mpwatch_engine::energy::fit::{Reading, drift, plan, summarise};
use mpwatch_model::energy::power::MeasuredZone;

use super::output::print;
use crate::cli::CalibrateOptions;
use crate::clock::ClockPair;
use crate::energy::calibrate::{StepTiming, measure};
use crate::energy::calibration::{MachineSetup, PowerFile};
use crate::energy::sampler::Sampler;
use crate::energy::topology::Topology;
use crate::error::{Failure, KERNEL, PERMISSION};

/// Highest CPU use by other programs; with more, the machine is not idle.
const MAX_OTHER_USE: f64 = 0.05;
/// Largest change of power that `--verify` accepts.
const TOLERANCE: f64 = 0.05;

pub(super) fn run(options: &CalibrateOptions) -> anyhow::Result<ExitCode> {
    let hardware = options.counters.hardware();
    let cpus = hardware.cpus;
    let packages = Topology::read(&hardware.root).packages(cpus);
    let setup = MachineSetup::of_this_machine(cpus);
    let mut machine = Machine {
        sampler: Sampler::new(hardware, Box::new(ClockPair::now)),
        cpus,
        timing: StepTiming { settle: options.settle, measure: options.measure },
    };
    machine.ensure_idle_with_counters()?;
    let path = options.counters.power_file();
    if options.verify {
        return verify(&mut machine, &packages.concat(), path);
    }
    let zones = summarise(&machine.measure(&plan(&packages))?);
    ensure!(!zones.is_empty(), "no zone could be read on the idle machine; `mpwatch doctor` lists the zones");
    let text = table(&zones);
    let file = PowerFile::new(Timestamp::now().to_string(), setup, zones);
    file.save(path).with_context(|| format!("cannot write {}", path.display()))?;
    print(&format!("{text}written to {}\n", path.display()))?;
    Ok(ExitCode::SUCCESS)
}

fn verify(machine: &mut Machine, all_cpus: &[u32], path: &Path) -> anyhow::Result<ExitCode> {
    let text = fs::read_to_string(path)
        .with_context(|| format!("cannot read {}: run `mpwatch calibrate` first", path.display()))?;
    let file = PowerFile::parse(&text).map_err(|reason| anyhow!("{}: {reason}", path.display()))?;
    let readings = machine.measure(&[Vec::new(), all_cpus.to_vec()])?;
    let Some(drift) = drift(&file.zones, &readings) else {
        bail!("{} has no zone of this machine: run `mpwatch calibrate` again", path.display());
    };
    let is_valid = drift <= TOLERANCE;
    let verdict =
        if is_valid { "is still valid" } else { "is no longer valid: run `mpwatch calibrate` again" };
    print(&format!(
        "{}the power measured on {} has changed by at most {:.1} %: the calibration {verdict}\n",
        table(&summarise(&readings)),
        file.measured_at,
        drift * 100.0
    ))?;
    Ok(if is_valid { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The machine that is measured.
struct Machine {
    sampler: Sampler,
    cpus: u32,
    timing: StepTiming,
}

impl Machine {
    /// Fails without energy counters, and while other programs use the CPUs.
    fn ensure_idle_with_counters(&self) -> anyhow::Result<()> {
        let source = self.sampler.source();
        if !source.is_measured() {
            let other_machines =
                || format!("the counters (`{}`) include other machines' energy", source.as_str());
            let reason = self.sampler.advice().unwrap_or_else(other_machines);
            // Either another user may read them, or there are none.
            let code = if reason.contains("permission denied") { PERMISSION } else { KERNEL };
            bail!(Failure { code, message: format!("cannot calibrate: {reason}") });
        }
        let before = CpuTicks::now();
        thread::sleep(self.timing.settle.max(Duration::from_secs(1)));
        let busy = before.zip(CpuTicks::now()).and_then(|(before, after)| before.busy_until(after));
        let busy = busy.unwrap_or_default();
        ensure!(
            busy <= MAX_OTHER_USE,
            "other programs use {:.0} % of the CPUs, so idle power cannot be measured; stop them and try again",
            busy * 100.0
        );
        Ok(())
    }

    fn measure(&mut self, steps: &[Vec<u32>]) -> anyhow::Result<Vec<Reading>> {
        let mut readings = Vec::new();
        let seconds = (self.timing.settle + self.timing.measure).as_secs_f64();
        for (number, loaded) in (1..).zip(steps) {
            let (steps, loaded_cpus, cpus) = (steps.len(), loaded.len(), self.cpus);
            eprintln!("mpwatch: step {number} of {steps}, {seconds} s: {loaded_cpus} of {cpus} CPUs loaded");
            readings.extend(measure(&mut self.sampler, loaded, cpus, self.timing, thread::sleep));
        }
        ensure!(!readings.is_empty(), "no counter advanced; `mpwatch doctor` lists the zones");
        Ok(readings)
    }
}

/// One line per zone: idle power, and the power of each load.
fn table(zones: &[MeasuredZone]) -> String {
    let line = |zone: &MeasuredZone| {
        let MeasuredZone { name, idle_watts, idle_sigma_watts, knots } = zone;
        let loads = knots.iter().filter(|knot| knot.busy > 0.0);
        let loads = loads.map(|knot| format!(", {:.2} W at {:.0} %", knot.watts, knot.busy * 100.0));
        let loads: String = loads.collect();
        format!("{name:<14} {idle_watts:.2} W idle (+-{idle_sigma_watts:.2}){loads}\n")
    };
    zones.iter().map(line).collect()
}

/// CPU time of the machine in ticks of the kernel: precise enough to see whether other programs run.
#[derive(Clone, Copy)]
struct CpuTicks {
    idle: u64,
    all: u64,
}

impl CpuTicks {
    fn now() -> Option<Self> {
        Self::parse(&fs::read_to_string("/proc/stat").ok()?)
    }

    /// From `cpu user nice system idle iowait irq softirq`. The next field, time stolen by a hypervisor, does not count.
    fn parse(stat: &str) -> Option<Self> {
        let line = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
        let ticks: Vec<u64> = line.split_whitespace().take(7).map_while(|tick| tick.parse().ok()).collect();
        let idle = ticks.get(3)? + ticks.get(4).unwrap_or(&0);
        Some(Self { idle, all: ticks.iter().sum() })
    }

    /// Busy fraction between two readings.
    fn busy_until(self, later: Self) -> Option<f64> {
        let all = later.all.checked_sub(self.all).filter(|all| *all > 0)?;
        Some(1.0 - later.idle.saturating_sub(self.idle) as f64 / all as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mpwatch_model::energy::power::CurvePoint;

    #[test]
    fn the_busy_fraction_is_what_was_not_idle() {
        let before = CpuTicks::parse("cpu  10 0 10 100 0 0 0 0 5 0\ncpu0 1 1\n").unwrap();
        let after = CpuTicks::parse("cpu  20 0 15 175 10 0 0 0 9 0\n").unwrap();
        assert!((before.busy_until(after).unwrap() - 0.15).abs() < 1e-9);
        assert!(before.busy_until(before).is_none());
        assert!(CpuTicks::parse("nothing").is_none());
    }

    #[test]
    fn a_zone_is_one_line_with_its_loads() {
        let zone = MeasuredZone {
            name: "package-0".into(),
            idle_watts: 20.0,
            idle_sigma_watts: 0.1,
            knots: vec![CurvePoint { busy: 0.0, watts: 20.0 }, CurvePoint { busy: 0.5, watts: 41.25 }],
        };
        assert_eq!(table(&[zone]), "package-0      20.00 W idle (+-0.10), 41.25 W at 50 %\n");
    }
}
