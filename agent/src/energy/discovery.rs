// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds the best energy counters: the `power` PMU, else powercap, else the share that a host exports to its guest, else a model.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use mpwatch_ebpf::cpus;
use mpwatch_model::host::energy::EnergySource;
use mpwatch_model::host::setup::cpuinfo_field;

use super::estimate::CpuPower;
use super::perf;
use super::powercap::{self, FoundZone};
use super::topology::CpuTopology;
use super::zone::{Backend, Role, Zone, assign_roles};

const GRANT: &str =
    "run as root, or: sudo setcap cap_perfmon,cap_dac_read_search+ep \"$(command -v mpwatch)\"";
/// The message about missing counters, and what to do. Only processors of Intel and AMD have RAPL.
const NO_COUNTERS: (&str, &str) = if cfg!(target_arch = "x86_64") {
    (
        "no energy counters",
        "load the driver: modprobe -a intel_rapl_msr intel_rapl_common; in a virtual machine, the host can export \
         its counters (docs/energy.md)",
    )
} else {
    (
        "no energy counters: Linux has no driver for this processor architecture",
        "in a virtual machine, the host can export its counters (docs/energy.md)",
    )
};

/// The possible sources of energy figures on a machine.
#[derive(Clone, Debug)]
pub(crate) struct Hardware {
    /// `/sys`, or its replacement.
    pub(crate) root: PathBuf,
    /// Opens perf events. `None`: `root` replaces `/sys`, so the running kernel must not be used.
    pub(crate) perf: Option<perf::Open>,
    /// Whether this is a virtual machine, whose counters the hypervisor provides.
    pub(crate) in_vm: bool,
    pub(crate) simulated: bool,
    /// Number of CPUs online.
    pub(crate) cpus: u32,
    /// Power model that is used without counters.
    pub(crate) model: CpuPower,
}

impl Hardware {
    /// The running machine. `root` replaces `/sys`.
    pub(crate) fn detect(root: Option<&Path>) -> Self {
        let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let flags = cpuinfo_field(&cpuinfo, "flags").unwrap_or_default();
        Self {
            root: root.unwrap_or(Path::new("/sys")).to_owned(),
            perf: root.is_none().then_some(perf::open as perf::Open),
            in_vm: root.is_none() && flags.split_whitespace().any(|flag| flag == "hypervisor"),
            simulated: false,
            // CPUs that this process may not use are included, because counters cover the whole machine.
            cpus: u32::try_from(cpus::online().len()).unwrap_or(u32::MAX).max(1),
            model: CpuPower::from_cpuinfo(&cpuinfo),
        }
    }
}

/// A message to the user about energy counters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Note {
    pub(crate) what: String,
    /// What to do. `None`: nothing.
    pub(crate) fix: Option<String>,
}

pub(crate) struct Discovery {
    pub(crate) source: EnergySource,
    /// Zones of `source`, with their roles.
    pub(crate) zones: Vec<(FoundZone, Role)>,
    pub(crate) topology: CpuTopology,
    /// Reasons why a more accurate source than `source` is not used.
    pub(crate) notes: Vec<Note>,
}

/// Searches the machine. Never fails: a counter that cannot be read becomes a note.
pub(crate) fn discover(hardware: &Hardware) -> Discovery {
    let topology = CpuTopology::read(&hardware.root);
    let mut notes = Vec::new();
    let by_perf = hardware.perf.map(|open| perf::scan(&hardware.root, &topology, open)).unwrap_or_default();
    let mut shown = Vec::new();
    let best = usable(by_perf, &mut notes, &mut shown)
        .or_else(|| usable(powercap::scan(&hardware.root), &mut notes, &mut shown));
    let Some(zones) = best else {
        let (what, fix) = NO_COUNTERS;
        match shown.first() {
            _ if !notes.is_empty() => {}
            None => notes.push(Note { what: what.to_owned(), fix: Some(fix.to_owned()) }),
            Some(_) => notes.push(Note { what: "no energy counter of a package".to_owned(), fix: None }),
        }
        return Discovery { source: EnergySource::Model, zones: shown, topology, notes };
    };
    // Only zones that a host exports to its guest have no name.
    let is_share =
        |(found, role): &(FoundZone, Role)| found.zone.name.is_none() && matches!(role, Role::Counted(_));
    let source = if hardware.simulated {
        EnergySource::Simulated
    } else if hardware.in_vm || zones.iter().any(is_share) {
        EnergySource::VmShare
    } else if zones.iter().any(|(found, _)| found.zone.backend == Backend::Perf) {
        EnergySource::RaplPerf
    } else {
        EnergySource::RaplPowercap
    };
    Discovery { source, zones, topology, notes }
}

/// The zones with their roles. `None`: no counted zone can be read. Adds a note for each counted zone that cannot be read. If no zone is
/// counted, moves all zones to `shown`, unless it has zones.
fn usable(
    found: Vec<FoundZone>,
    notes: &mut Vec<Note>,
    shown: &mut Vec<(FoundZone, Role)>,
) -> Option<Vec<(FoundZone, Role)>> {
    let zones: Vec<Zone> = found.iter().map(|found| found.zone.clone()).collect();
    let mut found: Vec<_> = found.into_iter().zip(assign_roles(&zones)).collect();
    if !found.iter().any(|(_, role)| matches!(role, Role::Counted(_))) {
        if shown.is_empty() {
            *shown = found;
        }
        return None;
    }
    let mut is_readable = false;
    for (found, _) in found.iter_mut().filter(|(_, role)| matches!(role, Role::Counted(_))) {
        match &mut found.read {
            Ok(read) => match read() {
                Ok(_) => is_readable = true,
                Err(error) => notes.push(unreadable(&found.path, &error)),
            },
            Err(error) => notes.push(unreadable(&found.path, error)),
        }
    }
    is_readable.then_some(found)
}

/// Why a counter cannot be read, and what to do.
pub(crate) fn unreadable(path: &Path, error: &io::Error) -> Note {
    let path = path.display();
    if error.kind() == io::ErrorKind::PermissionDenied {
        let why = "only root may read it, because its value leaks what other programs compute \
                   (CVE-2020-8694, CVE-2020-12912)";
        Note { what: format!("{path}: permission denied: {why}"), fix: Some(GRANT.to_owned()) }
    } else {
        Note { what: format!("{path}: {error}"), fix: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::energy::tests::tree;
    use crate::system::procfs::folder_with;
    use mpwatch_lab::raplsim::{Fault, Platform, SysfsLayout};

    fn hardware(root: &Path) -> Hardware {
        Hardware { in_vm: false, cpus: 2, ..Hardware::detect(Some(root)) }
    }

    #[test]
    fn a_replaced_root_does_not_use_the_running_kernel() {
        let hardware = Hardware::detect(Some(Path::new("/nowhere")));
        assert!(hardware.perf.is_none() && !hardware.in_vm);
    }

    #[test]
    fn every_shape_has_its_source() {
        for shape in Platform::ALL {
            let (root, _tree) = tree(shape, SysfsLayout::Linked);
            let expected = match shape {
                Platform::Empty => EnergySource::Model,
                Platform::VmShare => EnergySource::VmShare,
                _ => EnergySource::RaplPowercap,
            };
            assert_eq!(discover(&hardware(root.path())).source, expected, "{shape:?}");
        }
    }

    #[test]
    fn counters_in_a_virtual_machine_are_a_share() {
        let (root, _tree) = tree(Platform::Intel1, SysfsLayout::Linked);
        let hardware = Hardware { in_vm: true, ..hardware(root.path()) };
        assert_eq!(discover(&hardware).source, EnergySource::VmShare);
    }

    #[test]
    fn without_zones_the_model_is_used_and_a_note_has_a_fix() {
        let root = tempfile::tempdir().unwrap();
        let found = discover(&hardware(root.path()));
        assert_eq!(found.source, EnergySource::Model);
        assert!(found.notes[0].fix.as_deref().unwrap().contains("docs/energy.md"));
    }

    #[test]
    fn a_platform_zone_alone_is_shown_and_needs_no_driver() {
        let root = folder_with(&[
            ("class/powercap/intel-rapl:0/name", "psys\n"),
            ("class/powercap/intel-rapl:0/energy_uj", "1\n"),
        ]);
        let found = discover(&hardware(root.path()));
        assert_eq!(
            (found.source, found.zones.len(), found.notes[0].fix.as_deref()),
            (EnergySource::Model, 1, None)
        );
        assert_eq!(found.notes[0].what, "no energy counter of a package");
    }

    #[test]
    fn counters_without_a_number_are_not_used_and_noted() {
        let (root, _tree) = tree(Platform::Intel1, SysfsLayout::Flat);
        let class = root.path().join("class/powercap");
        for folder in std::fs::read_dir(&class).unwrap().flatten() {
            let counter = folder.path().join("energy_uj");
            if counter.exists() {
                std::fs::write(counter, "-5\n").unwrap();
            }
        }
        let found = discover(&hardware(root.path()));
        assert_eq!(found.source, EnergySource::Model);
        assert!(found.notes.iter().any(|note| note.what.contains("\"-5\" is not a number")));
    }

    #[test]
    fn the_note_on_a_denied_counter_says_who_may_read_it() {
        let note = unreadable(Path::new("/x/energy_uj"), &io::ErrorKind::PermissionDenied.into());
        assert!(note.what.starts_with("/x/energy_uj") && note.what.contains("CVE-2020-8694"));
        assert!(note.fix.unwrap().contains("cap_dac_read_search"));
    }

    #[test]
    fn denied_counters_are_not_used() {
        let (root, mut tree) = tree(Platform::Intel1, SysfsLayout::Linked);
        tree.inject_fault("intel-rapl:0", Fault::Denied).unwrap();
        let found = discover(&hardware(root.path()));
        // Root can read the counter although it is denied to other users.
        if !nix::unistd::geteuid().is_root() {
            assert_eq!((found.source, found.notes.len()), (EnergySource::Model, 1));
        }
    }

    #[test]
    fn the_pmu_is_preferred_and_powercap_replaces_a_denied_one() {
        let (root, _tree) = tree(Platform::Intel1, SysfsLayout::Linked);
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
