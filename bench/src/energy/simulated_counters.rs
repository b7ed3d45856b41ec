// SPDX-License-Identifier: MIT OR Apache-2.0
//! Simulated energy counters on a real machine: the powercap tree that mpwatch reads, the power file that a calibration would write, and
//! the power model from which both follow.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use mpwatch_lab::raplsim::live::{GroundTruth, LiveSimulation, LoadScope, SimulationSettings};
use mpwatch_lab::raplsim::{Platform, PowerModel, PowercapTree, SimulatedMachine, SysfsLayout, ZoneSpec};
use mpwatch_model::host::setup::cpu_model;
use nix::unistd::{SysconfVar, sysconf};
use tempfile::TempDir;

/// Idle power of a package, milliwatts.
pub const IDLE: u32 = 20_000;
/// Additional power of a package at full load, milliwatts.
pub const DYNAMIC: u32 = 30_000;
/// Time between two changes of the counters.
const INTERVAL: Duration = Duration::from_millis(10);

/// A machine with simulated energy counters.
pub struct SimulatedCounters {
    machine: SimulatedMachine,
    platform: Platform,
    stopped: Option<PowercapTree>,
    live: Option<LiveSimulation>,
    folder: TempDir,
}

impl SimulatedCounters {
    /// Creates counters that do not advance yet.
    pub fn new(platform: Platform) -> Self {
        let folder = in_memory();
        let packages = platform.packages();
        let machine = SimulatedMachine {
            packages,
            cpus: (cpus() / packages).max(1),
            power: PowerModel::Linear { idle: IDLE, dynamic: DYNAMIC },
        };
        let tree = PowercapTree::create(folder.path(), platform, SysfsLayout::Linked)
            .expect("a tree can be written");
        tree.write_topology(&machine).expect("the topology can be written");
        Self { machine, platform, stopped: Some(tree), live: None, folder }
    }

    /// Starts to advance the counters.
    pub fn start(&mut self, scope: LoadScope) -> &LiveSimulation {
        let tree = self.stopped.take().expect("the simulation is started once");
        let settings = SimulationSettings {
            machine: self.machine,
            scope,
            sample_interval: INTERVAL,
            update_interval: INTERVAL,
        };
        self.live.insert(LiveSimulation::start(tree, settings).expect("the simulation starts"))
    }

    /// The ground truth since the start of the counters.
    pub fn so_far(&self) -> GroundTruth {
        self.live.as_ref().expect("the simulation was started").so_far().expect("the simulation runs")
    }

    /// Stops the counters and returns the ground truth.
    pub fn stop(&mut self) -> GroundTruth {
        self.live.take().expect("the simulation was started").stop().expect("the simulation ends")
    }

    /// The machine with its power model.
    pub fn machine(&self) -> SimulatedMachine {
        self.machine
    }

    /// The zones that a correct reader includes in the sum.
    pub fn counted_zones(&self) -> Vec<ZoneSpec> {
        self.platform.zones().into_iter().filter(|zone| zone.counted).collect()
    }

    /// The file of a counter.
    pub fn counter_file(&self, device: &str) -> PathBuf {
        self.folder.path().join("class/powercap").join(device).join("energy_uj")
    }

    /// The value of a counter, microjoules.
    pub fn energy_uj(&self, device: &str) -> u64 {
        let text = fs::read_to_string(self.counter_file(device)).expect("a counter can be read");
        text.trim().parse().expect("a counter is a number")
    }

    /// Path of the power file, which may not exist yet.
    pub fn power_file(&self) -> PathBuf {
        self.folder.path().join("power.toml")
    }

    /// Options that make mpwatch use these counters and this power file.
    pub fn arguments(&self) -> [String; 4] {
        let as_text = |path: &Path| path.display().to_string();
        let root = as_text(self.folder.path());
        ["--sysfs-root".to_owned(), root, "--power-file".to_owned(), as_text(&self.power_file())]
    }

    /// Writes the power file that an exact calibration would write.
    pub fn write_power_file(&self) {
        let head = "schema = 1\nmeasured_at = \"2026-01-01T00:00:00Z\"\n\n[machine]";
        let names = (0..self.machine.packages).flat_map(|package| {
            [(format!("package-{package}"), 1.0), (format!("package-{package}/dram"), DRAM)]
        });
        let zones: Vec<String> = names.map(|(name, share)| zone(&name, share)).collect();
        let text = format!("{head}\n{}{}", this_machine(), zones.concat());
        fs::write(self.power_file(), text).expect("the power file can be written");
    }
}

/// Power of memory as a share of the package's power: see [`SimulatedMachine::dram`].
const DRAM: f64 = 0.125;

/// The entry in the power file of a zone that has this share of a package's power.
fn zone(name: &str, share: f64) -> String {
    let [idle, full] = [IDLE, IDLE + DYNAMIC].map(|milliwatts| f64::from(milliwatts) / 1e3 * share);
    format!(
        "\n[[zone]]\nname = \"{name}\"\nidle_watts = {idle:?}\nidle_sigma_watts = 0.0\n\
         knots = [{{ busy = 0.0, watts = {idle:?} }}, {{ busy = 1.0, watts = {full:?} }}]\n"
    )
}

/// Number of online CPUs.
pub fn cpus() -> u32 {
    let online = sysconf(SysconfVar::_NPROCESSORS_ONLN).expect("the number of CPUs is known");
    online.and_then(|cpus| u32::try_from(cpus).ok()).expect("there is a CPU")
}

/// A temporary folder, on tmpfs if possible: there, readers never get a partly written value.
fn in_memory() -> TempDir {
    TempDir::new_in("/dev/shm").or_else(|_| TempDir::new()).expect("a temporary folder")
}

/// The keys of the table `[machine]` in the power file, which describe the machine on which the file is valid.
fn this_machine() -> String {
    let read = |path: &str| fs::read_to_string(path).ok().map(|text| text.trim().to_owned());
    let cpuinfo = read("/proc/cpuinfo").unwrap_or_default();
    let field = |name: &str| {
        let mut pairs = cpuinfo.lines().filter_map(|line| line.split_once(':'));
        pairs.find(|(key, _)| key.trim() == name).map(|(_, value)| value.trim().to_owned())
    };
    let flag = |path: &str| read(&format!("/sys/devices/system/cpu/{path}")).map(|value| value == "1");
    let turbo = flag("intel_pstate/no_turbo").map(|off| !off).or_else(|| flag("cpufreq/boost"));
    let words = [
        ("cpu_model", cpu_model(&cpuinfo)),
        ("microcode", field("microcode")),
        ("governor", read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")),
    ];
    let flags = [("turbo", turbo), ("smt", flag("smt/active"))];
    let words = words.iter().filter_map(|(name, value)| Some(format!("{name} = {:?}\n", value.as_ref()?)));
    let flags = flags.iter().filter_map(|(name, value)| Some(format!("{name} = {}\n", (*value)?)));
    format!("cpus = {}\n{}", cpus(), words.chain(flags).collect::<String>())
}
