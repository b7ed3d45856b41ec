// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernel's `power` PMU has the same counters as powercap, but 64 bits wide, so without wraps, and readable with CAP_PERFMON.

use std::io;
use std::path::{Path, PathBuf};

use mpwatch_ebpf::cpus;
use perf_event::Builder;
use perf_event::events::Software;

use super::powercap::{FoundZone, ReadCounter};
use super::topology::CpuTopology;
use super::zone::{Backend, CpuLocation, Zone};
use crate::system::procfs::read_file;

/// Opens a counter. Readings are in the unit of the counter.
pub(crate) type Open = fn(Event) -> io::Result<ReadCounter>;

/// A counter of a PMU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) pmu: u32,
    pub(crate) config: u64,
    /// CPU on which the counter is read: one of the PMU's `cpumask`.
    pub(crate) cpu: u32,
}

/// Opens a counter of the running kernel.
pub(crate) fn open(event: Event) -> io::Result<ReadCounter> {
    let mut builder = Builder::new(Software::DUMMY);
    builder.attrs_mut().type_ = event.pmu;
    builder.attrs_mut().config = event.config;
    // The PMU counts all processes and does not support exclusions.
    builder.any_pid().one_cpu(event.cpu as usize).exclude_kernel(false).exclude_hv(false);
    let mut counter = builder.build()?;
    counter.enable()?;
    Ok(Box::new(move || counter.read()))
}

/// All zones of the PMU below `/sys` or its replacement. Empty: there is no such PMU.
pub(crate) fn scan(root: &Path, topology: &CpuTopology, open: Open) -> Vec<FoundZone> {
    let directory = root.join("bus/event_source/devices/power");
    let text = |name: &str| read_file(directory.join(name));
    let (Some(pmu), Some(cpus)) = (text("type").and_then(|text| text.parse().ok()), text("cpumask")) else {
        return Vec::new();
    };
    let cpus = cpus::parse(&cpus);
    let mut found = Vec::new();
    for (event, name) in EVENTS {
        let config = text(&format!("events/{event}")).as_deref().and_then(parse_config);
        let unit = text(&format!("events/{event}.scale")).as_deref().and_then(Unit::parse);
        let (Some(config), Some(unit)) = (config, unit) else { continue };
        // There is a single platform counter. Reading it on each CPU of the mask would count its energy several times.
        let readers = if name == "psys" { &cpus[..cpus.len().min(1)] } else { &cpus[..] };
        found.extend(readers.iter().map(|cpu| FoundZone {
            zone: zone(event, name, *cpu, &packages(&cpus, topology)),
            path: PathBuf::from(format!("power/{event}")),
            read: open(Event { pmu, config, cpu: *cpu }).map(|read| unit.apply(read)),
        }));
    }
    found
}

/// Events, with the names of their zones. [`packages`] adds the number of a package.
const EVENTS: [(&str, &str); 5] = [
    ("energy-pkg", "package"),
    ("energy-ram", "dram"),
    ("energy-cores", "core"),
    ("energy-gpu", "uncore"),
    ("energy-psys", "psys"),
];

/// Names of packages, or of dies if a package has several counters, by the CPU on which they are read.
fn packages(cpus: &[u32], topology: &CpuTopology) -> Vec<(u32, String)> {
    let locations: Vec<_> = cpus.iter().map(|cpu| (*cpu, topology.location(*cpu))).collect();
    let name = |(nth, (cpu, location)): (usize, &(u32, Option<CpuLocation>))| {
        let package = location.and_then(|location| location.package);
        let is_in = |other: &Option<CpuLocation>| other.is_some_and(|other| other.package == package);
        let counters = locations.iter().filter(|(_, other)| is_in(other)).count();
        let name = match (package, location.and_then(|location| location.die)) {
            (Some(package), Some(die)) if counters > 1 => format!("package-{package}-die-{die}"),
            (Some(package), _) => format!("package-{package}"),
            (None, _) => format!("package-{nth}"),
        };
        (*cpu, name)
    };
    locations.iter().enumerate().map(name).collect()
}

fn zone(event: &str, name: &str, cpu: u32, packages: &[(u32, String)]) -> Zone {
    let package = || packages.iter().find(|(on, _)| *on == cpu).map(|(_, name)| name.clone());
    let (name, parent) = match name {
        "package" => (package(), None),
        "psys" => (Some(name.to_owned()), None),
        _ => (Some(name.to_owned()), Some(format!("energy-pkg@{cpu}"))),
    };
    Zone { device: format!("{event}@{cpu}"), parent, name, backend: Backend::Perf, max: None, limit: None }
}

/// Energy of one count, in 2^-64 microjoules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Unit(u128);

impl Unit {
    /// Parses decimal joules. The unit is 2^-32 J, except for the platform zone of some machines, which counts whole joules.
    fn parse(text: &str) -> Option<Self> {
        let joules: f64 = text.parse().ok()?;
        // All factors are exact in 53 bits, so a power of two stays exact.
        let scaled = joules * 2_f64.powi(32) * 1e6 * 2_f64.powi(32);
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked to be in range")]
        (scaled >= 1.0 && scaled < 2_f64.powi(100)).then_some(Self(scaled as u128))
    }

    fn microjoules(self, count: u64) -> u64 {
        u64::try_from(self.0.saturating_mul(u128::from(count)) >> 64).unwrap_or(u64::MAX)
    }

    fn apply(self, mut read: ReadCounter) -> ReadCounter {
        Box::new(move || read().map(|count| self.microjoules(count)))
    }
}

/// Parses `event=0x02`.
fn parse_config(text: &str) -> Option<u64> {
    u64::from_str_radix(text.strip_prefix("event=")?.trim_start_matches("0x"), 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::energy::zone::{Role, assign_roles};
    use crate::system::procfs::folder_with;

    const SCALE: &str = "2.3283064365386962890625e-10\n";

    /// A counter whose value identifies it: its configuration as joules.
    #[allow(clippy::unnecessary_wraps, reason = "stands in for a system call")]
    fn fake(event: Event) -> io::Result<ReadCounter> {
        assert_eq!(event.pmu, 32);
        Ok(Box::new(move || Ok((event.config << 32) + u64::from(event.cpu))))
    }

    #[test]
    fn events_become_zones_of_the_packages_of_their_cpus() {
        let root = folder_with(&[
            ("bus/event_source/devices/power/type", "32\n"),
            ("bus/event_source/devices/power/cpumask", "0,4\n"),
            ("bus/event_source/devices/power/events/energy-pkg", "event=0x02\n"),
            ("bus/event_source/devices/power/events/energy-pkg.scale", SCALE),
            ("bus/event_source/devices/power/events/energy-ram", "event=0x03\n"),
            ("bus/event_source/devices/power/events/energy-ram.scale", SCALE),
            ("bus/event_source/devices/power/events/energy-psys", "event=0x05\n"),
            ("bus/event_source/devices/power/events/energy-psys.scale", SCALE),
            ("devices/system/cpu/cpu0/topology/physical_package_id", "1\n"),
            ("devices/system/cpu/cpu4/topology/physical_package_id", "0\n"),
        ]);
        let mut found = scan(root.path(), &CpuTopology::read(root.path()), fake);
        let zones: Vec<Zone> = found.iter().map(|found| found.zone.clone()).collect();
        let labels: Vec<String> = zones.iter().map(|zone| zone.label(&zones)).collect();
        assert_eq!(labels, ["package-1", "package-0", "package-1/dram", "package-0/dram", "psys"]);
        let roles = assign_roles(&zones);
        assert_eq!(roles.iter().filter(|role| matches!(role, Role::Counted(_))).count(), 4);
        assert_eq!(roles[4], Role::DisplayOnly);
        let values = found.iter_mut().map(|found| found.read.as_mut().unwrap()().unwrap() / 1_000_000);
        assert_eq!(values.collect::<Vec<_>>(), [2, 2, 3, 3, 5]);
    }

    #[test]
    fn without_the_pmu_there_are_no_zones() {
        let root = tempfile::tempdir().unwrap();
        assert!(scan(root.path(), &CpuTopology::default(), fake).is_empty());
    }

    #[test]
    fn counts_are_scaled_exactly() {
        let unit = Unit::parse(SCALE.trim()).unwrap();
        assert_eq!(unit.microjoules(1 << 32), 1_000_000);
        assert_eq!(unit.microjoules((1 << 32) * 1_000_000_007), 1_000_000_007_000_000);
        assert_eq!(Unit::parse("1").unwrap().microjoules(3), 3_000_000);
        assert_eq!((Unit::parse("0"), Unit::parse("x")), (None, None));
        assert_eq!((cpus::parse("0,8-9"), parse_config("event=0x0f")), (vec![0, 8, 9], Some(15)));
    }

    #[test]
    fn the_running_kernel_opens_a_counter_or_refuses() {
        // A software clock instead of the `power` PMU, which most test machines lack.
        let clock = Event { pmu: 1, config: 0, cpu: 0 };
        match open(clock) {
            Ok(mut read) => {
                let first = read().unwrap();
                assert!(read().unwrap() > first);
            }
            Err(error) => eprintln!("SKIP: perf_event_open is not available here: {error}"),
        }
    }
}
