// SPDX-License-Identifier: MIT OR Apache-2.0
//! Energy counters of the kernel's own powercap framework. A driver for these tests (tests/vm/powercap) registers zones whose energy
//! follows a known power law, and records the true energy of each reading. Runs in the guests that have the driver.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use mpwatch_lab::topology::LinkSpec;
use mpwatch_lab::traffic::{self, TrafficSpec, Workload};
use mpwatch_lab::{Topology, poll_until};
use mpwatch_tests::{Observer, ZONE_PARTS, list, number, program, skip, text};
use serde_json::Value;

const DRIVER: &str = "mpwatch_powercap";
/// The power law of the package; memory has an eighth of its power.
const IDLE_WATTS: f64 = 5.0;
const BUSY_WATTS: f64 = 30.0;
const ZONES: [Zone; 2] = [
    Zone { label: "package-0", name: "package-0", device: "intel-rapl:0", share: 1.0 },
    Zone { label: "package-0/dram", name: "dram", device: "intel-rapl:0:0", share: 0.125 },
];
const TOLERANCE: f64 = 0.02;
const TIMEOUT: Duration = Duration::from_mins(1);
/// `--sysfs-root /sys` declares that the counters measure this machine. Otherwise mpwatch assumes that counters in a virtual machine are the
/// hypervisor's.
const THIS_MACHINE: [&str; 2] = ["--sysfs-root", "/sys"];
const NOBODY: u32 = 65534;

struct Zone {
    /// Name of the zone in mpwatch's report.
    label: &'static str,
    /// Name of the zone in the kernel.
    name: &'static str,
    device: &'static str,
    /// Power of the zone relative to the package's.
    share: f64,
}

impl Zone {
    fn counter(&self) -> PathBuf {
        Path::new("/sys/class/powercap").join(self.device).join("energy_uj")
    }
}

/// The loaded driver.
struct Driver;

impl Driver {
    /// `None`: this kernel has no driver. tests/vm/run builds the driver for each kernel with headers, and fails if the build fails.
    fn load(wrap_millijoules: u64) -> Option<Self> {
        let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
        let modules = Path::new("/lib/modules").join(release.trim());
        if !modules.join("extra").join(DRIVER).with_extension("ko").exists() {
            skip("this kernel has no driver mpwatch_powercap; `./dev vm --test guest_powercap 6.1` has it");
            return None;
        }
        let parameters = [
            format!("idle_mw={}", IDLE_WATTS * 1e3),
            format!("busy_mw={}", BUSY_WATTS * 1e3),
            format!("wrap_mj={wrap_millijoules}"),
        ];
        run(Command::new("modprobe").arg(DRIVER).args(parameters));
        Some(Self)
    }

    /// All readings of a zone so far.
    fn readings(name: &str) -> Vec<Reading> {
        let text = fs::read_to_string("/proc/mpwatch_powercap").unwrap();
        let lines = text.lines().map(|line| line.split(' ').collect::<Vec<_>>());
        let readings = lines.filter(|words| words[0] == name).map(|words| {
            let number = |nth: usize| words[nth].parse().unwrap();
            Reading { energy: number(2), active: number(3) }
        });
        readings.collect()
    }

    fn wait_for_readings(more_than: usize) {
        let many = || (Self::readings("package-0").len() > more_than).then_some(());
        poll_until("mpwatch to read the counters", TIMEOUT, many).unwrap();
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        run(Command::new("rmmod").arg(DRIVER));
    }
}

/// True energy since the driver was loaded, microjoules.
#[derive(Clone, Copy, Debug)]
struct Reading {
    energy: u64,
    /// The part above idle.
    active: u64,
}

fn run(command: &mut Command) {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn the_zones_are_found_and_only_root_may_read_them() {
    let Some(_driver) = Driver::load(0) else { return };
    for zone in ZONES {
        let file = fs::metadata(zone.counter()).unwrap();
        assert_eq!((file.permissions().mode() & 0o7777, file.uid()), (0o400, 0), "{}", zone.device);
    }
    let checks = doctor(Command::new(program()).args(["doctor", "--json"]).args(THIS_MACHINE));
    assert_eq!(message(&checks, "energy"), "measured (rapl-powercap)");
    assert_eq!(message(&checks, "energy zone package-0"), "part of the total (intel-rapl:0)");
    assert_eq!(message(&checks, "energy zone package-0 dram"), "part of the total (intel-rapl:0:0)");

    let checks = doctor(Command::new(program()).args(["doctor", "--json"]));
    assert!(message(&checks, "energy").contains("vm-share"));

    let mut unprivileged = Command::new(program());
    unprivileged.args(["doctor", "--json"]).args(THIS_MACHINE).uid(NOBODY);
    let checks = doctor(unprivileged.gid(NOBODY));
    assert!(message(&checks, "energy").contains("not measured: figures are estimates (source `model`)"));
    let denied = message(&checks, "energy counters");
    assert!(denied.contains("/energy_uj: permission denied: only root may read it"), "{denied}");
}

#[test]
fn energy_follows_the_power_law_across_a_wrap() {
    /// Energy after which the package's counter wraps, microjoules.
    const WRAP: u64 = 150_000_000;
    let Some(driver) = Driver::load(0) else { return };
    let folder = tempfile::tempdir().unwrap();
    let power_file = folder.path().join("power.toml");
    let options = [&THIS_MACHINE[..], &["--power-file", power_file.to_str().unwrap()]].concat();
    calibrate(&options, &power_file);
    drop(driver);

    let _driver = Driver::load(WRAP / 1_000).unwrap();
    let topology = Topology::two_paths(LinkSpec::default(), LinkSpec::default()).unwrap();
    let observer =
        Observer::start_every("1s", &[&options[..], &["--no-bottlenecks", "--ledger", "exact"]].concat());
    // One reading of the search for zones, and two readings of each of two windows.
    Driver::wait_for_readings(1 + 2 * 2);
    let workload = Workload::upload_for(Duration::from_secs(6));
    let spec = TrafficSpec::new(topology.path(0).unwrap().server_address(), workload);
    traffic::run(topology.client(), topology.server(), &spec).unwrap();
    let report = observer.finish_after_close(&topology);

    for zone in ZONES {
        let Zone { label, name, share, .. } = zone;
        // The search for zones makes the first reading. The second one begins the first window.
        let readings = Driver::readings(name);
        let [begin, end] = [readings[1], readings[readings.len() - 1]];
        let wrap = WRAP as f64 * share;
        println!("{label}: {} readings, {begin:?} to {end:?}, wrap at {wrap}", readings.len());
        let reported = zone_of(&report.json, label);
        println!("{reported}");
        assert!((begin.energy as f64) < wrap && wrap < end.energy as f64, "no wrap");
        // Before the wrap a counter is near the end of its range of 262 kJ.
        let value: u64 = fs::read_to_string(zone.counter()).unwrap().trim().parse().unwrap();
        assert!(value < 2 * end.energy, "{label} did not wrap");
        assert_eq!((number(reported, "windows_lost"), number(reported, "epoch")), (0, 0));
        let total = number(reported, "zone_uj");
        close(&format!("{label}, energy"), total as f64, (end.energy - begin.energy) as f64);
        let active = total - number(reported, "idle_uj");
        close(&format!("{label}, energy above idle"), active as f64, (end.active - begin.active) as f64);
    }
    let (mut active, mut cpu_time) = (0, 0);
    for end in [topology.client(), topology.server()] {
        let energy = &report.only_connection_in(end.name())["energy"];
        assert_eq!((text(energy, "source"), text(energy, "idle")), ("rapl-powercap", "calibrated"));
        active += number(energy, "active_uj");
        cpu_time += number(energy, "cpu_ns");
    }
    let watts: f64 = ZONES.iter().map(|zone| BUSY_WATTS * zone.share).sum();
    close("energy of the flows", active as f64, watts * cpu_time as f64 / 1e3);
}

fn doctor(command: &mut Command) -> Value {
    let output = command.stdin(Stdio::null()).output().unwrap();
    serde_json::from_slice(&output.stdout).unwrap()
}

fn message<'a>(checks: &'a Value, name: &str) -> &'a str {
    let check = list(checks, "checks").iter().find(|check| check["name"] == name);
    text(check.unwrap_or_else(|| panic!("no check {name}: {checks:#}")), "message")
}

/// Measures the power of the zones, and compares it with the power law.
fn calibrate(options: &[&str], power_file: &Path) {
    let steps = ["calibrate", "--settle", "500ms", "--measure", "2s"];
    run(Command::new(program()).args(steps).args(options));
    let text = fs::read_to_string(power_file).unwrap();
    let values = |key: &str| -> Vec<f64> {
        text.lines().filter_map(|line| line.strip_prefix(key)?.parse().ok()).collect()
    };
    // Each zone has its idle power, and a curve whose last value is the power with all CPUs busy.
    let (idle, curve) = (values("idle_watts = "), values("watts = "));
    let loads = curve.len() / ZONES.len();
    let cpus = std::thread::available_parallelism().unwrap().get() as f64;
    for (nth, Zone { label, share, .. }) in ZONES.into_iter().enumerate() {
        let full = curve[(nth + 1) * loads - 1];
        close(&format!("{label}, idle watts"), idle[nth], IDLE_WATTS * share);
        close(&format!("{label}, watts at full load"), full, (IDLE_WATTS + BUSY_WATTS * cpus) * share);
    }
}

#[test]
fn zones_that_vanish_are_reported_and_found_again() {
    let Some(driver) = Driver::load(0) else { return };
    let observer = Observer::start_every("200ms", &[&THIS_MACHINE[..], &["--no-bottlenecks"]].concat());
    Driver::wait_for_readings(10);
    drop(driver);
    let _driver = Driver::load(0).unwrap();
    Driver::wait_for_readings(10);
    let report = observer.finish();
    println!("{}", report.json["energy"]);
    for Zone { label, .. } in ZONES {
        let zone = zone_of(&report.json, label);
        assert!(number(zone, "windows_lost") > 0 && number(zone, "epoch") == 1, "{zone}");
        let mut lost = list(&report.json["energy"], "lost").iter();
        assert!(lost.any(|lost| lost["zone"] == label && lost["reason"] == "vanished"), "{label}");
    }
}

/// A zone of the report. Asserts that its parts add up.
fn zone_of<'a>(report: &'a Value, label: &str) -> &'a Value {
    let mut zones = list(&report["energy"], "zones").iter();
    let zone = zones.find(|zone| zone["zone"] == label).unwrap_or_else(|| panic!("no {label}: {report:#}"));
    assert_eq!(number(zone, "zone_uj"), ZONE_PARTS.iter().map(|part| number(zone, part)).sum::<u64>());
    zone
}

#[track_caller]
fn close(what: &str, reported: f64, truth: f64) {
    let error = reported / truth - 1.0;
    println!("{what}: {reported} of {truth}, {:+.4} %", error * 100.0);
    assert!(error.abs() <= TOLERANCE, "{what}: {reported} of {truth}");
}
