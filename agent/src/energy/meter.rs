// SPDX-License-Identifier: MIT OR Apache-2.0
//! The energy of the running machine, one window per tick. Counters are read while the ledger is settled, so both cover the same time.

use std::path::Path;

use anyhow::Context;
use mpwatch_ebpf::tracer::Tracer;
use mpwatch_engine::energy::ledger::Ledger;
use mpwatch_model::cpu::CpuAccounts;
use mpwatch_model::energy::power::MachinePower;
use mpwatch_model::energy::window::EnergyWindow;

use super::calibration::{self, MachineSetup};
use super::discovery::Hardware;
use super::sampler::Sampler;
use crate::cli::CounterOptions;
use crate::clock::ClockPair;
use crate::paths;

impl CounterOptions {
    pub(crate) fn hardware(&self) -> Hardware {
        Hardware { simulated: self.simulated, ..Hardware::detect(self.sysfs_root.as_deref()) }
    }

    /// The file of the power curve.
    pub(crate) fn power_file(&self) -> &Path {
        self.power_file.as_deref().unwrap_or(Path::new(paths::POWER_CURVE))
    }
}

/// Reads windows.
pub(crate) struct Meter {
    machine: MachinePower,
    sampler: Sampler,
    window: EnergyWindow,
    ledger: Ledger,
    cpus: Vec<CpuAccounts>,
}

impl Meter {
    /// Finds counters and a calibration. Warns about a calibration that does not match and ignores it.
    pub(crate) fn start(options: &CounterOptions) -> Self {
        let hardware = options.hardware();
        let setup = MachineSetup::of_this_machine(hardware.cpus);
        let calibrated = calibration::load(options.power_file(), &setup).unwrap_or_else(|reason| {
            eprintln!("mpwatch: the calibration is not used: {reason}");
            Vec::new()
        });
        Self {
            machine: MachinePower { cpus: hardware.cpus, calibrated },
            sampler: Sampler::new(hardware, Box::new(ClockPair::now)),
            window: EnergyWindow::default(),
            ledger: Ledger::default(),
            cpus: Vec::new(),
        }
    }

    /// The machine, for the start of the event stream.
    pub(crate) fn machine(&self) -> &MachinePower {
        &self.machine
    }

    /// Closes a window. Returns it with the accounts of the CPUs at its end.
    pub(crate) fn read(&mut self, tracer: &Tracer) -> anyhow::Result<(Vec<CpuAccounts>, EnergyWindow)> {
        let (cpus, mut outcome) = (&mut self.cpus, Ok(()));
        self.sampler.window(&mut self.window, &mut self.ledger, |ledger| match tracer.cpus() {
            Ok(now) => {
                ledger.add_cpus(cpus, &now);
                *cpus = now;
            }
            Err(error) => outcome = Err(error),
        });
        outcome.context("cannot settle the CPU ledger")?;
        Ok((self.cpus.clone(), self.window.clone()))
    }
}
