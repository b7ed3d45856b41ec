// SPDX-License-Identifier: MIT OR Apache-2.0
//! Simulated energy counters for machines without counters. Their power is linear in the CPU time of this process, which runs both ends of
//! the traffic of a demo or a study. All outputs mark the figures as simulated.

use std::time::Duration;

use jiff::Timestamp;
use mpwatch_lab::raplsim::live::{LiveSimulation, LoadScope, SimulationSettings};
use mpwatch_lab::raplsim::{Platform, PowerModel, PowercapTree, SimulatedMachine, SysfsLayout};
use mpwatch_model::host::energy::power::{CurvePoint, MeasuredZone};
use tempfile::TempDir;

use crate::cli::CounterOptions;
use crate::energy::calibration::{MachineSetup, PowerFile};

/// Idle power of a small server, and the additional power at full load, in milliwatts.
const POWER: PowerModel = PowerModel::Linear { idle: 18_000, dynamic: 32_000 };
/// Name of the file with the power curve, in the directory that replaces `/sys`.
const CALIBRATION: &str = "power.toml";
/// Time between two updates of the counters.
const TICK: Duration = Duration::from_millis(10);

/// Simulated counters, which advance until this value is dropped.
pub(crate) struct Simulation {
    _live: LiveSimulation,
    folder: TempDir,
}

impl Simulation {
    /// Starts counters that follow this process, which runs both ends of the traffic.
    pub(crate) fn start(cpus: u32) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir()?;
        let machine = SimulatedMachine { packages: 1, cpus, power: POWER };
        let tree = PowercapTree::create(folder.path(), Platform::Intel1, SysfsLayout::Linked)?;
        tree.write_topology(&machine)?;
        let setup = SimulationSettings {
            machine,
            scope: LoadScope::Threads,
            sample_interval: TICK,
            update_interval: TICK,
        };
        let live = LiveSimulation::start(tree, setup)?;
        live.follow_process(nix::unistd::getpid().as_raw(), 0);
        let setup = MachineSetup::from_system(cpus);
        // The power curve that `mpwatch calibrate` would measure.
        let knots = [(0.0, 18.0), (1.0, 50.0)].map(|(busy, watts)| CurvePoint { busy, watts }).into();
        let name = "package-0".to_owned();
        let curve = MeasuredZone { name, idle_watts: 18.0, idle_sigma_watts: 0.0, is_fitted: false, knots };
        let file = PowerFile::new(Timestamp::now().to_string(), setup, vec![curve]);
        file.save(&folder.path().join(CALIBRATION))?;
        Ok(Self { _live: live, folder })
    }

    /// The options that select the simulated counters.
    pub(crate) fn counters(&self) -> CounterOptions {
        let root = self.folder.path();
        let power_file = Some(root.join(CALIBRATION));
        CounterOptions { sysfs_root: Some(root.to_owned()), power_file, simulated: true }
    }
}
