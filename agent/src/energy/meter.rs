// SPDX-License-Identifier: MIT OR Apache-2.0
//! The energy of the running machine, a window a tick: reads the counters around the settling of the CPU ledger, so that joules
//! and nanoseconds are of the same time.

use std::path::PathBuf;

use anyhow::Context;
use mpwatch_ebpf::tracer::Tracer;
use mpwatch_engine::energy::ledger::Ledger;
use mpwatch_model::cpu::CpuAccounts;
use mpwatch_model::energy::power::MachinePower;
use mpwatch_model::energy::window::EnergyWindow;

use super::calibration::{Configuration, Loaded};
use super::sampler::Sampler;
use super::source::Hardware;
use crate::clock;

/// Where to look.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    /// Stands for `/sys`.
    pub(crate) root: Option<PathBuf>,
    /// What `mpwatch calibrate` has written.
    pub(crate) calibration: PathBuf,
    /// The counters below `root` are made up.
    pub(crate) simulated: bool,
}

impl Options {
    /// The machine's energy counters.
    pub(crate) fn hardware(&self) -> Hardware {
        Hardware { simulated: self.simulated, ..Hardware::detect(self.root.as_deref()) }
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
    /// Looks for counters and for a calibration that fits; one that does not is told of and left aside.
    pub(crate) fn start(options: &Options) -> Self {
        let hardware = options.hardware();
        let now = Configuration::of_this_machine(hardware.cpus);
        let calibrated = match Loaded::from_file(&options.calibration, &now) {
            Loaded::Fits(zones) => zones,
            Loaded::Missing => Vec::new(),
            Loaded::Differs(differences) => {
                eprintln!(
                    "mpwatch: the calibration in {} is not of this machine as it is now ({}); run `mpwatch calibrate` again",
                    options.calibration.display(),
                    differences.join("; ")
                );
                Vec::new()
            }
            Loaded::Unusable(why) => {
                eprintln!("mpwatch: no calibration is used: {why}");
                Vec::new()
            }
        };
        Self {
            machine: MachinePower { cpus: hardware.cpus, calibrated },
            sampler: Sampler::new(hardware, Box::new(clock::both)),
            window: EnergyWindow::default(),
            ledger: Ledger::default(),
            cpus: Vec::new(),
        }
    }

    /// The machine, for the beginning of the event stream.
    pub(crate) fn machine(&self) -> &MachinePower {
        &self.machine
    }

    /// Closes a window; the accounts of the CPUs at its end.
    pub(crate) fn read(&mut self, tracer: &Tracer) -> anyhow::Result<(Vec<CpuAccounts>, EnergyWindow)> {
        let (cpus, mut settled) = (&mut self.cpus, Ok(()));
        self.sampler.window(&mut self.window, &mut self.ledger, |ledger| match tracer.cpus() {
            Ok(now) => {
                ledger.add_cpus(cpus, &now);
                *cpus = now;
            }
            Err(error) => settled = Err(error),
        });
        settled.context("settling the CPU ledger")?;
        Ok((self.cpus.clone(), self.window.clone()))
    }
}
