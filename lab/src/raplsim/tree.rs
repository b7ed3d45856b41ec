// SPDX-License-Identifier: MIT OR Apache-2.0
//! Writes zones as files and injects faults. Create the tree on a tmpfs. Readers keep files open. Each update is one write of
//! fixed length, so that no reader gets a partial value.

use std::fs::{self, File, OpenOptions, Permissions};
use std::os::unix::fs::{FileExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use super::counter::EnergyCounter;
use super::machine::{Picojoules, SimulatedMachine};
use super::platform::{Domain, Platform, ZoneSpec};
use crate::error::{Error, Result};

/// The places of the files below the root folder, which replaces `/sys`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SysfsLayout {
    /// As in sysfs: nested in `devices/virtual/powercap`, with a symbolic link to each zone in `class/powercap`.
    Linked,
    /// Nested in `class/powercap`, without links.
    Nested,
    /// All zones directly in `class/powercap`, as in the fixtures of other tools.
    Flat,
}

/// A fault of a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The file has no read permission (root can read it anyway).
    Denied,
    /// The zone is removed. Readers that have its file open read an empty file.
    Vanished,
    /// The counter does not advance.
    Stuck,
    /// The counter decreases once by this number of microjoules.
    Backwards(u64),
    /// The counter is set once to this number of microjoules below the end of its range.
    NearWrap(u64),
}

struct Zone {
    spec: ZoneSpec,
    folder: PathBuf,
    file: Option<File>,
    counter: EnergyCounter,
    is_stuck: bool,
}

/// A powercap tree on disk.
pub struct PowercapTree {
    root: PathBuf,
    platform: Platform,
    zones: Vec<Zone>,
}

impl PowercapTree {
    /// Writes the tree below `root`, which replaces `/sys`.
    pub fn create(root: &Path, platform: Platform, layout: SysfsLayout) -> Result<Self> {
        make_folder(&root.join("class/powercap"))?;
        let zones = platform.zones().into_iter().map(|spec| Zone::create(root, spec, layout));
        Ok(Self { root: root.to_owned(), platform, zones: zones.collect::<Result<_>>()? })
    }

    /// The folder that replaces `/sys`.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Specifications of all zones.
    pub fn zones(&self) -> impl Iterator<Item = &ZoneSpec> {
        self.zones.iter().map(|zone| &zone.spec)
    }

    /// Value of a zone's counter, microjoules. `None`: there is no such zone.
    pub fn energy_uj(&self, device: &str) -> Option<u64> {
        self.zones.iter().find(|zone| zone.spec.device == device).map(|zone| zone.counter.energy_uj())
    }

    /// Writes the CPU topology of a machine, so that a reader can match zones with CPUs.
    pub fn write_topology(&self, machine: &SimulatedMachine) -> Result<()> {
        let dies = u32::from(matches!(self.platform, Platform::Dies | Platform::MirroredDies)) + 1;
        for cpu in 0..machine.packages * machine.cpus {
            let folder = self.root.join(format!("devices/system/cpu/cpu{cpu}/topology"));
            make_folder(&folder)?;
            let (package, index) = (machine.package_of(cpu), cpu % machine.cpus);
            let package = if self.platform == Platform::Package10 { 10 } else { package };
            write(&folder.join("physical_package_id"), &format!("{package}\n"))?;
            write(&folder.join("die_id"), &format!("{}\n", index * dies / machine.cpus))?;
        }
        Ok(())
    }

    /// Adds energy to the counters, given the energy of each package by id. The files change at the next [`Self::update_files`].
    pub fn add_energy(&mut self, packages: &[Picojoules]) {
        let energy_of = |id: u32| packages.get(id as usize).copied().unwrap_or(0);
        for zone in &mut self.zones {
            zone.counter.add(match zone.spec.domain {
                Domain::Package(id) => energy_of(id),
                Domain::Die(id, die) => SimulatedMachine::die(energy_of(id), die),
                Domain::Core(id) => energy_of(id) * 5 / 8,
                Domain::Uncore(id) => energy_of(id) / 16,
                Domain::Dram(id) => SimulatedMachine::dram(energy_of(id)),
                Domain::Psys => packages.iter().sum::<u128>() * 5 / 4,
                Domain::Dead => 0,
            });
        }
    }

    /// Writes the counters to the files.
    pub fn update_files(&self) -> Result<()> {
        self.zones.iter().try_for_each(Zone::update_file)
    }

    /// The energy that a correct reader counts if the packages used these energies: their sum, plus the memory's energy if memory has zones.
    pub fn expected_energy(&self, packages: &[Picojoules]) -> Picojoules {
        let counted = self.zones.iter().map(|zone| zone.spec).filter(|spec| spec.counted);
        counted
            .map(|spec| match spec.domain {
                Domain::Package(id) => packages[id as usize],
                Domain::Die(id, die) => SimulatedMachine::die(packages[id as usize], die),
                Domain::Dram(id) => SimulatedMachine::dram(packages[id as usize]),
                Domain::Core(_) | Domain::Uncore(_) | Domain::Psys | Domain::Dead => 0,
            })
            .sum()
    }

    /// Injects a fault into a zone.
    pub fn inject_fault(&mut self, device: &str, fault: Fault) -> Result<()> {
        let found = self.zones.iter_mut().find(|zone| zone.spec.device == device);
        found
            .ok_or_else(|| Error::Invalid {
                what: format!("there is no zone {device}"),
                advice: "use a device of the platform, for example intel-rapl:0",
            })?
            .inject_fault(fault)
    }

    /// Ends all faults of a zone. A removed zone returns with its counter at zero, as after loading a kernel module.
    pub fn clear_fault(&mut self, device: &str) -> Result<()> {
        for zone in self.zones.iter_mut().filter(|zone| zone.spec.device == device) {
            zone.is_stuck = false;
            if zone.file.is_none() {
                zone.counter = EnergyCounter::starting_at(zone.spec.unit, 0);
            }
            zone.write_files()?;
        }
        Ok(())
    }
}

impl Zone {
    fn create(root: &Path, spec: ZoneSpec, layout: SysfsLayout) -> Result<Self> {
        let class = root.join("class/powercap");
        let folder = match layout {
            SysfsLayout::Linked => nested(&root.join("devices/virtual/powercap"), spec.device),
            SysfsLayout::Nested => nested(&class, spec.device),
            SysfsLayout::Flat => class.join(spec.device),
        };
        let counter = EnergyCounter::starting_at(spec.unit, spec.start);
        let mut zone = Self { spec, folder, file: None, counter, is_stuck: false };
        zone.write_files()?;
        if layout == SysfsLayout::Linked {
            let control_type = spec.device.split(':').next().unwrap_or_default();
            for (name, target) in [
                (control_type, root.join("devices/virtual/powercap").join(control_type)),
                (spec.device, zone.folder.clone()),
            ] {
                let link = class.join(name);
                if !link.exists() {
                    symlink(&target, &link).map_err(Error::os("link", link.display().to_string()))?;
                }
            }
        }
        Ok(zone)
    }

    fn write_files(&mut self) -> Result<()> {
        make_folder(&self.folder)?;
        if let Some(name) = self.spec.name {
            write(&self.folder.join("name"), &format!("{name}\n"))?;
            write(&self.folder.join("enabled"), "1\n")?;
        }
        if self.spec.has_range {
            write(&self.folder.join("max_energy_range_uj"), &format!("{}\n", self.spec.unit.max_range()))?;
        }
        let path = self.folder.join("energy_uj");
        let opened = OpenOptions::new().create(true).write(true).truncate(false).open(&path);
        self.file = Some(opened.map_err(Error::os("create", path.display().to_string()))?);
        set_mode(&path, 0o400)?;
        self.update_file()
    }

    fn update_file(&self) -> Result<()> {
        let Some(file) = self.file.as_ref().filter(|_| !self.is_stuck) else { return Ok(()) };
        let text = format!("{:020}\n", self.counter.energy_uj());
        file.write_all_at(text.as_bytes(), 0).map_err(Error::os("write", self.spec.device))
    }

    fn inject_fault(&mut self, fault: Fault) -> Result<()> {
        match fault {
            Fault::Denied => set_mode(&self.folder.join("energy_uj"), 0o000),
            Fault::Stuck => {
                self.is_stuck = true;
                Ok(())
            }
            Fault::Vanished => {
                if let Some(file) = self.file.take() {
                    file.set_len(0).map_err(Error::os("empty", self.spec.device))?;
                }
                fs::remove_dir_all(&self.folder).map_err(Error::os("remove", self.spec.device))
            }
            Fault::Backwards(by) => {
                let start = self.counter.energy_uj().saturating_sub(by);
                self.counter = EnergyCounter::starting_at(self.spec.unit, start);
                self.update_file()
            }
            Fault::NearWrap(left) => {
                let start = self.spec.unit.max_range().saturating_sub(left);
                self.counter = EnergyCounter::starting_at(self.spec.unit, start);
                self.update_file()
            }
        }
    }
}

/// The folder of `intel-rapl:0:1` is `intel-rapl/intel-rapl:0/intel-rapl:0:1`.
fn nested(base: &Path, device: &str) -> PathBuf {
    let ends = device.match_indices(':').map(|(at, _)| at).chain([device.len()]);
    ends.fold(base.to_owned(), |folder, end| folder.join(&device[..end]))
}

fn make_folder(path: &Path) -> Result<()> {
    fs::create_dir_all(path).map_err(Error::os("create", path.display().to_string()))
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).map_err(Error::os("write", path.display().to_string()))
}

fn set_mode(path: &Path, mode: u32) -> Result<()> {
    let permissions = Permissions::from_mode(mode);
    fs::set_permissions(path, permissions)
        .map_err(Error::os("change the mode of", path.display().to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_of_a_zone_is_inside_the_folder_of_its_parent() {
        let base = Path::new("/x");
        assert_eq!(nested(base, "intel-rapl:0:1"), Path::new("/x/intel-rapl/intel-rapl:0/intel-rapl:0:1"));
        assert_eq!(nested(base, "intel-rapl:a"), Path::new("/x/intel-rapl/intel-rapl:a"));
    }
}
