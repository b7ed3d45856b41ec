// SPDX-License-Identifier: MIT OR Apache-2.0
//! Looks for the best counters of the machine: the `power` PMU, then powercap, then a share that a host gives to its guest; a
//! model where there is nothing. What was passed over, why, and what to do about it, is kept for `doctor`.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use mpwatch_model::energy::EnergySource;

use super::estimate::CpuPower;
use super::perf;
use super::powercap::{self, Found};
use super::topology::Topology;
use super::zone::{Role, Zone, cover};

const GRANT: &str = "run as root, or: setcap cap_perfmon,cap_dac_read_search+ep \"$(command -v mpwatch)\"";
const NO_COUNTERS: &str = "load the driver: modprobe -a intel_rapl_msr intel_rapl_common; in a virtual machine, let the host \
                           share its counters (docs/energy.md)";

/// What to look at.
#[derive(Clone, Debug)]
pub(crate) struct Hardware {
    /// Stands for `/sys`.
    pub(crate) root: PathBuf,
    /// Opens perf events. `None`: the root is not the running kernel's, which must not be asked then.
    pub(crate) perf: Option<perf::Open>,
    /// Whether the counters, if there are any, are those that a hypervisor lets its guest see.
    pub(crate) in_vm: bool,
    /// Whether the counters are made up by a simulator.
    pub(crate) simulated: bool,
    /// CPUs of the machine.
    pub(crate) cpus: u32,
    /// For the model.
    pub(crate) model: CpuPower,
}

impl Hardware {
    /// The running machine; with `root`, the zones below that folder instead of those of `/sys`.
    pub(crate) fn detect(root: Option<&Path>) -> Self {
        let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let has_flag = |flag: &str| {
            let flags = cpuinfo.lines().find(|line| line.starts_with("flags"));
            flags.is_some_and(|line| line.split_whitespace().any(|word| word == flag))
        };
        Self {
            root: root.unwrap_or(Path::new("/sys")).to_owned(),
            perf: root.is_none().then_some(perf::open as perf::Open),
            in_vm: root.is_none() && has_flag("hypervisor"),
            simulated: false,
            cpus: online(),
            model: CpuPower::of(&cpuinfo),
        }
    }
}

/// CPUs online. Not those that this process may use: energy is of the whole machine.
fn online() -> u32 {
    let list = fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
    u32::try_from(perf::parse_list(list.trim()).len()).unwrap_or(u32::MAX).max(1)
}

/// Something worth telling about energy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Note {
    /// What was found.
    pub(crate) what: String,
    /// What to do. `None`: nothing can be done, or need be.
    pub(crate) fix: Option<String>,
}

/// What was found.
pub(crate) struct Discovery {
    /// Where joules will come from.
    pub(crate) source: EnergySource,
    /// Zones of that source.
    pub(crate) found: Vec<Found>,
    /// Which of them count.
    pub(crate) roles: Vec<Role>,
    /// Which CPU sits where.
    pub(crate) topology: Topology,
    /// What was passed over.
    pub(crate) notes: Vec<Note>,
}

/// Looks at the machine. Never fails: what cannot be read is a note.
pub(crate) fn discover(hardware: &Hardware) -> Discovery {
    let topology = Topology::read(&hardware.root);
    let mut notes = Vec::new();
    let by_perf = hardware.perf.map(|open| perf::scan(&hardware.root, &topology, open)).unwrap_or_default();
    let best = usable(by_perf, &mut notes).or_else(|| usable(powercap::scan(&hardware.root), &mut notes));
    let Some((found, roles)) = best else {
        if notes.is_empty() {
            notes.push(Note { what: "no energy counters".to_owned(), fix: Some(NO_COUNTERS.to_owned()) });
        }
        return Discovery {
            source: EnergySource::Model,
            found: Vec::new(),
            roles: Vec::new(),
            topology,
            notes,
        };
    };
    let zones = found.iter().map(|found| &found.zone);
    let is_share = zones.clone().zip(&roles).any(|(zone, role)| is_unnamed(zone, *role));
    let is_perf = zones.clone().any(|zone| zone.way == super::zone::Way::Perf);
    let source = match (is_share || hardware.in_vm, is_perf) {
        _ if hardware.simulated => EnergySource::Simulated,
        (true, _) => EnergySource::VmShare,
        (false, true) => EnergySource::RaplPerf,
        (false, false) => EnergySource::RaplPowercap,
    };
    Discovery { source, found, roles, topology, notes }
}

fn is_unnamed(zone: &Zone, role: Role) -> bool {
    zone.name.is_none() && matches!(role, Role::Counted(_))
}

/// The zones and their roles, if at least one that counts can be read and holds a number; notes on those that cannot.
fn usable(mut found: Vec<Found>, notes: &mut Vec<Note>) -> Option<(Vec<Found>, Vec<Role>)> {
    let zones: Vec<Zone> = found.iter().map(|found| found.zone.clone()).collect();
    let roles = cover(&zones);
    let mut is_readable = false;
    for (found, _) in found.iter_mut().zip(&roles).filter(|(_, role)| matches!(role, Role::Counted(_))) {
        match &mut found.read {
            Ok(read) => match read() {
                Ok(_) => is_readable = true,
                Err(error) => notes.push(unreadable(&found.path, &error)),
            },
            Err(error) => notes.push(unreadable(&found.path, error)),
        }
    }
    is_readable.then_some((found, roles))
}

/// Why a counter cannot be read, and what to do.
pub(crate) fn unreadable(path: &Path, error: &io::Error) -> Note {
    let path = path.display();
    if error.kind() == io::ErrorKind::PermissionDenied {
        let why = "the kernel shows it to root only, since its value gives away what other programs compute \
                   (CVE-2020-8694, CVE-2020-12912)";
        Note { what: format!("{path}: permission denied: {why}"), fix: Some(GRANT.to_owned()) }
    } else {
        Note { what: format!("{path}: {error}"), fix: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mpwatch_lab::raplsim::{Fault, Platform, PowercapTree, SysfsLayout};

    fn hardware(root: &Path) -> Hardware {
        Hardware { in_vm: false, cpus: 2, ..Hardware::detect(Some(root)) }
    }

    #[test]
    fn an_injected_root_never_asks_the_running_kernel() {
        let hardware = Hardware::detect(Some(Path::new("/nowhere")));
        assert!(hardware.perf.is_none() && !hardware.in_vm);
    }

    #[test]
    fn every_shape_has_its_label() {
        for shape in Platform::ALL {
            let root = tempfile::tempdir().unwrap();
            let _tree = PowercapTree::create(root.path(), shape, SysfsLayout::Linked).unwrap();
            let expected = match shape {
                Platform::Empty => EnergySource::Model,
                Platform::VmShare => EnergySource::VmShare,
                _ => EnergySource::RaplPowercap,
            };
            assert_eq!(discover(&hardware(root.path())).source, expected, "{shape:?}");
        }
    }

    #[test]
    fn in_a_virtual_machine_counters_are_a_share() {
        let root = tempfile::tempdir().unwrap();
        let _tree = PowercapTree::create(root.path(), Platform::Intel1, SysfsLayout::Linked).unwrap();
        let hardware = Hardware { in_vm: true, ..hardware(root.path()) };
        assert_eq!(discover(&hardware).source, EnergySource::VmShare);
    }

    #[test]
    fn a_tree_without_zones_is_the_model_and_says_what_to_do() {
        let root = tempfile::tempdir().unwrap();
        let found = discover(&hardware(root.path()));
        assert_eq!(found.source, EnergySource::Model);
        assert!(found.notes[0].fix.as_deref().unwrap().contains("modprobe"));
    }

    #[test]
    fn counters_that_hold_no_number_are_no_source_and_named() {
        let root = tempfile::tempdir().unwrap();
        let _tree = PowercapTree::create(root.path(), Platform::Intel1, SysfsLayout::Flat).unwrap();
        let class = root.path().join("class/powercap");
        for folder in std::fs::read_dir(&class).unwrap().flatten() {
            let counter = folder.path().join("energy_uj");
            if counter.exists() {
                std::fs::write(counter, "-5\n").unwrap();
            }
        }
        let found = discover(&hardware(root.path()));
        assert_eq!(found.source, EnergySource::Model);
        assert!(found.notes.iter().any(|note| note.what.contains("\"-5\", which is no number")));
    }

    #[test]
    fn a_denied_counter_says_who_may_read_it() {
        let note = unreadable(Path::new("/x/energy_uj"), &io::ErrorKind::PermissionDenied.into());
        assert!(note.what.starts_with("/x/energy_uj") && note.what.contains("CVE-2020-8694"));
        assert!(note.fix.unwrap().contains("cap_dac_read_search"));
    }

    #[test]
    fn a_denied_tree_is_no_source() {
        let root = tempfile::tempdir().unwrap();
        let mut tree = PowercapTree::create(root.path(), Platform::Intel1, SysfsLayout::Linked).unwrap();
        tree.inject_fault("intel-rapl:0", Fault::Denied).unwrap();
        let found = discover(&hardware(root.path()));
        // Root reads it all the same.
        if !nix::unistd::geteuid().is_root() {
            assert_eq!((found.source, found.notes.len()), (EnergySource::Model, 1));
        }
    }

    #[test]
    fn the_pmu_comes_before_powercap_and_powercap_helps_out() {
        let root = tempfile::tempdir().unwrap();
        let _tree = PowercapTree::create(root.path(), Platform::Intel1, SysfsLayout::Linked).unwrap();
        let power = root.path().join("bus/event_source/devices/power");
        fs::create_dir_all(power.join("events")).unwrap();
        for (name, text) in [
            ("type", "32"),
            ("cpumask", "0"),
            ("events/energy-pkg", "event=0x02"),
            ("events/energy-pkg.scale", "2.3283064365386962890625e-10"),
        ] {
            fs::write(power.join(name), text).unwrap();
        }
        let with = |open: perf::Open| discover(&Hardware { perf: Some(open), ..hardware(root.path()) });
        let granted = with(|_| Ok(Box::new(|| Ok(0))));
        assert_eq!((granted.source, granted.notes.len()), (EnergySource::RaplPerf, 0));
        let denied = with(|_| Err(io::ErrorKind::PermissionDenied.into()));
        assert_eq!((denied.source, denied.notes.len()), (EnergySource::RaplPowercap, 1));
    }
}
