// SPDX-License-Identifier: MIT OR Apache-2.0
//! `mpwatch calibrate`: measures the power of each zone, idle and under load, and saves it. `--verify` compares it with the saved power.

use std::fs;
use std::path::Path;
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use anyhow::{Context, anyhow, bail, ensure};
use jiff::Timestamp;
use mpwatch_engine::energy::fit::{Reading, drift, plan, summarise, summarise_under_load};
use mpwatch_model::host::energy::power::MeasuredZone;
use mpwatch_model::host::energy::window::Cpus;

use super::output::print;
use crate::cli::CalibrateOptions;
use crate::energy::calibrate::{StepTiming, measure};
use crate::energy::calibration::{MachineSetup, PowerFile};
use crate::energy::sampler::Sampler;
use crate::energy::ticks;
use crate::energy::topology::CpuTopology;
use crate::error::{Failure, KERNEL, PERMISSION};
use crate::system::clock::ClockPair;

/// Maximum share of CPU time that other programs use on an idle machine. Above it, idle power is extrapolated from readings under load.
const MAX_OTHER_USE: f64 = 0.05;
/// Maximum share of CPU time that other programs may use in a calibration under load: half of the CPUs, plus the error of `/proc/stat`.
const MAX_FITTED_USE: f64 = 0.55;
/// Maximum change of power that `--verify` accepts, as a fraction.
const TOLERANCE: f64 = 0.05;

pub(super) fn run(options: &CalibrateOptions) -> anyhow::Result<ExitCode> {
    let hardware = options.counters.hardware();
    let cpus = hardware.cpus;
    let packages = CpuTopology::read(&hardware.root).packages(cpus);
    let setup = MachineSetup::from_system(cpus);
    let mut machine = Machine {
        sampler: Sampler::new(hardware, Box::new(ClockPair::now)),
        cpus,
        timing: StepTiming { settle: options.settle, measure: options.measure, is_under_load: false },
    };
    machine.ensure_counters()?;
    machine.check_other_use(if options.verify { MAX_OTHER_USE } else { MAX_FITTED_USE })?;
    let path = options.counters.power_file();
    if options.verify {
        return verify(&mut machine, &packages.concat(), path);
    }
    let readings = machine.measure(&plan(&packages))?;
    let (zones, failure) = if machine.timing.is_under_load {
        let failure = "power did not follow the load of other programs; stop them and try again";
        (summarise_under_load(&readings), failure)
    } else {
        let failure = "no zone could be read on the idle machine; `mpwatch doctor` lists the zones";
        (summarise(&readings), failure)
    };
    ensure!(!zones.is_empty(), failure);
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

struct Machine {
    sampler: Sampler,
    cpus: u32,
    timing: StepTiming,
}

impl Machine {
    /// Fails without energy counters that measure this machine alone.
    fn ensure_counters(&self) -> anyhow::Result<()> {
        let source = self.sampler.source();
        if !source.is_measured() {
            let other_machines =
                || format!("the counters (`{}`) include other machines' energy", source.as_str());
            let reason = self.sampler.advice().unwrap_or_else(other_machines);
            // Either a privilege is missing, or there are no usable counters.
            let code = if reason.contains("permission denied") { PERMISSION } else { KERNEL };
            bail!(Failure { code, message: format!("cannot calibrate: {reason}") });
        }
        Ok(())
    }

    /// Fails if other programs use more than `limit` of the CPUs now. Otherwise decides whether the calibration is under load.
    fn check_other_use(&mut self, limit: f64) -> anyhow::Result<()> {
        let before = ticks::now();
        thread::sleep(self.timing.settle.max(Duration::from_secs(1)));
        let busy = ticks::busy(&before, &ticks::now(), &Cpus::All).unwrap_or_default();
        ensure!(
            busy <= limit,
            "other programs use {:.0} % of the CPUs, so idle power cannot be measured; stop them and try again",
            busy * 100.0
        );
        self.timing.is_under_load = busy > MAX_OTHER_USE;
        if self.timing.is_under_load {
            eprintln!("mpwatch: other programs use {:.0} % of the CPUs: idle power is fitted", busy * 100.0);
        }
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
        let MeasuredZone { name, idle_watts, idle_sigma_watts, is_fitted, knots } = zone;
        let fitted = if *is_fitted { ", fitted" } else { "" };
        let loads = knots.iter().filter(|knot| knot.busy > 0.0);
        let loads = loads.map(|knot| format!(", {:.2} W at {:.0} %", knot.watts, knot.busy * 100.0));
        let loads: String = loads.collect();
        format!("{name:<14} {idle_watts:.2} W idle (+-{idle_sigma_watts:.2}{fitted}){loads}\n")
    };
    zones.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use mpwatch_model::host::energy::power::CurvePoint;

    #[test]
    fn a_zone_is_one_line_with_its_loads() {
        let zone = MeasuredZone {
            name: "package-0".into(),
            idle_watts: 20.0,
            idle_sigma_watts: 0.1,
            is_fitted: false,
            knots: vec![CurvePoint { busy: 0.0, watts: 20.0 }, CurvePoint { busy: 0.5, watts: 41.25 }],
        };
        assert_eq!(table(&[zone]), "package-0      20.00 W idle (+-0.10), 41.25 W at 50 %\n");
    }
}
