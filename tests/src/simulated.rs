// SPDX-License-Identifier: MIT OR Apache-2.0
//! A machine whose energy counters are simulated while everything else is real: the tree that mpwatch is told to read, the power
//! curve that a calibration of it would find, and the law that tells what is true.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use mpwatch_lab::raplsim::live::{Live, Load, Setup, Truth};
use mpwatch_lab::raplsim::{Layout, Machine, Power, Shape, Tree, ZoneSpec};
use nix::unistd::{SysconfVar, sysconf};
use tempfile::TempDir;

/// At rest, and what full load adds, milliwatts of a package.
pub const IDLE: u32 = 20_000;
/// See [`IDLE`].
pub const DYNAMIC: u32 = 30_000;
/// How often the counters move.
const TICK: Duration = Duration::from_millis(10);

/// The machine.
pub struct Simulated {
    machine: Machine,
    shape: Shape,
    stopped: Option<Tree>,
    live: Option<Live>,
    folder: TempDir,
}

impl Simulated {
    /// Counters that stand still.
    pub fn new(shape: Shape) -> Self {
        let folder = in_memory();
        let packages = shape.packages();
        let machine = Machine {
            packages,
            cpus: (cpus() / packages).max(1),
            power: Power::Linear { idle: IDLE, dynamic: DYNAMIC },
        };
        let tree = Tree::create(folder.path(), shape, Layout::Linked).expect("a tree can be written");
        tree.write_topology(&machine).expect("the topology can be written");
        Self { machine, shape, stopped: Some(tree), live: None, folder }
    }

    /// Lets them move.
    pub fn run(&mut self, load: Load) -> &Live {
        let tree = self.stopped.take().expect("it is started once");
        let setup = Setup { machine: self.machine, load, tick: TICK, publish: TICK };
        self.live.insert(Live::start(tree, setup).expect("the simulation starts"))
    }

    /// What has happened so far.
    pub fn so_far(&self) -> Truth {
        self.live.as_ref().expect("it runs").so_far().expect("the simulation runs")
    }

    /// Lets them stand still for good.
    pub fn stop(&mut self) -> Truth {
        self.live.take().expect("it runs").stop().expect("the simulation ends")
    }

    /// The law.
    pub fn machine(&self) -> Machine {
        self.machine
    }

    /// Zones that a right reader adds up.
    pub fn counted(&self) -> Vec<ZoneSpec> {
        self.shape.zones().into_iter().filter(|zone| zone.counted).collect()
    }

    /// The file of a counter.
    pub fn counter(&self, device: &str) -> PathBuf {
        self.folder.path().join("class/powercap").join(device).join("energy_uj")
    }

    /// What a counter shows, microjoules.
    pub fn shown(&self, device: &str) -> u64 {
        let text = fs::read_to_string(self.counter(device)).expect("a counter can be read");
        text.trim().parse().expect("a counter is a number")
    }

    /// The file of the power curve, which may not be there yet.
    pub fn power_file(&self) -> PathBuf {
        self.folder.path().join("power.toml")
    }

    /// Options for mpwatch to look here.
    pub fn arguments(&self) -> [String; 4] {
        let shown = |path: &Path| path.display().to_string();
        let root = shown(self.folder.path());
        ["--sysfs-root".to_owned(), root, "--power-file".to_owned(), shown(&self.power_file())]
    }

    /// Writes the power curve as an exact calibration would have found it.
    pub fn write_law(&self) {
        let head = "schema = 1\nmeasured_at = \"2026-01-01T00:00:00Z\"\n\n[machine]";
        let names = (0..self.machine.packages).flat_map(|package| {
            [(format!("package-{package}"), 1.0), (format!("package-{package}/dram"), DRAM)]
        });
        let zones: Vec<String> = names.map(|(name, part)| law(&name, part)).collect();
        let text = format!("{head}\n{}{}", this_machine(), zones.concat());
        fs::write(self.power_file(), text).expect("the power file can be written");
    }
}

/// Power of memory, as a part of its package's: see [`Machine::dram`].
const DRAM: f64 = 0.125;

/// A zone that draws this part of what a package draws, in the form of the power file.
fn law(name: &str, part: f64) -> String {
    let [idle, full] = [IDLE, IDLE + DYNAMIC].map(|milliwatts| f64::from(milliwatts) / 1e3 * part);
    format!(
        "\n[[zone]]\nname = \"{name}\"\nidle_watts = {idle:?}\nidle_sigma_watts = 0.0\n\
         knots = [{{ busy = 0.0, watts = {idle:?} }}, {{ busy = 1.0, watts = {full:?} }}]\n"
    )
}

/// CPUs online.
pub fn cpus() -> u32 {
    let online = sysconf(SysconfVar::_NPROCESSORS_ONLN).expect("the number of CPUs is known");
    online.and_then(|cpus| u32::try_from(cpus).ok()).expect("there is a CPU")
}

/// A counter is written a hundred times a second, and a reader must never see half of it.
fn in_memory() -> TempDir {
    TempDir::new_in("/dev/shm").or_else(|_| TempDir::new()).expect("a folder for the counters")
}

/// What a power file says of the machine it holds for, by the names of its form.
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
        ("cpu_model", field("model name")),
        ("microcode", field("microcode")),
        ("governor", read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")),
    ];
    let flags = [("turbo", turbo), ("smt", flag("smt/active"))];
    let words = words.iter().filter_map(|(name, value)| Some(format!("{name} = {:?}\n", value.as_ref()?)));
    let flags = flags.iter().filter_map(|(name, value)| Some(format!("{name} = {}\n", (*value)?)));
    format!("cpus = {}\n{}", cpus(), words.chain(flags).collect::<String>())
}
