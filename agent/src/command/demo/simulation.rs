// SPDX-License-Identifier: MIT OR Apache-2.0
//! Made-up energy counters for machines that have none: they follow the CPU time of the demo's own threads by a simple law. Whatever
//! is shown of them says so.

use std::time::Duration;

use jiff::Timestamp;
use mpwatch_lab::raplsim::live::{LiveSimulation, LoadScope, SimulationSettings};
use mpwatch_lab::raplsim::{Platform, PowerModel, PowercapTree, SimulatedMachine, SysfsLayout};
use mpwatch_model::energy::power::{CurvePoint, MeasuredZone};
use tempfile::TempDir;

use crate::energy::calibration::{Configuration, File};
use crate::energy::meter::Options;

/// At rest, and what full load adds: a small server, watts.
const IDLE: f64 = 18.0;
const DYNAMIC: f64 = 32.0;
/// The same, in milliwatts.
const POWER: PowerModel = PowerModel::Linear { idle: 18_000, dynamic: 32_000 };
/// In the folder that stands for `/sys`.
const CALIBRATION: &str = "power.toml";
/// As often as the counters move.
const TICK: Duration = Duration::from_millis(10);

/// Counters that tick until this is dropped.
pub(super) struct Simulation {
    _live: LiveSimulation,
    folder: TempDir,
}

impl Simulation {
    /// Follows this process, which runs both ends of the traffic.
    pub(super) fn start(cpus: u32) -> anyhow::Result<Self> {
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
        let now = Configuration::of_this_machine(cpus);
        File::new(Timestamp::now().to_string(), now, vec![law()]).save(&folder.path().join(CALIBRATION))?;
        Ok(Self { _live: live, folder })
    }

    /// Where to look for what is made up.
    pub(super) fn options(&self) -> Options {
        let folder = self.folder.path();
        Options { root: Some(folder.to_owned()), calibration: folder.join(CALIBRATION), simulated: true }
    }
}

/// What calibration would find.
fn law() -> MeasuredZone {
    let knots = vec![CurvePoint { busy: 0.0, watts: IDLE }, CurvePoint { busy: 1.0, watts: IDLE + DYNAMIC }];
    MeasuredZone { name: "package-0".to_owned(), idle_watts: IDLE, idle_sigma_watts: 0.0, knots }
}
