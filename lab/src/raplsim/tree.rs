// SPDX-License-Identifier: MIT OR Apache-2.0
//! A tree of zones in files, and what can go wrong with it. Put it on tmpfs: a reader keeps files open, and each value is
//! replaced by one write of fixed width, so that nobody ever reads half of it.

use std::fs::{self, File, OpenOptions, Permissions};
use std::os::unix::fs::{FileExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use super::machine::{Machine, Picojoules};
use super::register::Register;
use super::shape::{Feed, Shape, ZoneSpec};
use crate::{Error, Result};

/// How the files lie below the root that stands for `/sys`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// As in sysfs: nested under `devices/virtual/powercap`, with a link to each zone in `class/powercap`.
    Linked,
    /// Nested folders under `class/powercap`, without links.
    Nested,
    /// All zones side by side in `class/powercap`, as fixtures of other tools have them.
    Flat,
}

/// What can go wrong with a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The file may not be read (does not stop root).
    Denied,
    /// The zone is gone. Who holds its file open reads nothing more from it.
    Vanished,
    /// The counter stands still.
    Stuck,
    /// The counter jumps backwards by this many microjoules, once.
    Backwards(u64),
    /// The counter is brought to this many microjoules below its end, once.
    NearWrap(u64),
}

struct Zone {
    spec: ZoneSpec,
    folder: PathBuf,
    file: Option<File>,
    register: Register,
    is_stuck: bool,
}

/// A tree on disk.
pub struct Tree {
    root: PathBuf,
    shape: Shape,
    zones: Vec<Zone>,
}

impl Tree {
    /// Writes the tree below `root`, which stands for `/sys`.
    pub fn create(root: &Path, shape: Shape, layout: Layout) -> Result<Self> {
        make_folder(&root.join("class/powercap"))?;
        let zones = shape.zones().into_iter().map(|spec| Zone::create(root, spec, layout));
        Ok(Self { root: root.to_owned(), shape, zones: zones.collect::<Result<_>>()? })
    }

    /// The folder that stands for `/sys`.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Zones, as they are meant to be.
    pub fn zones(&self) -> impl Iterator<Item = &ZoneSpec> {
        self.zones.iter().map(|zone| &zone.spec)
    }

    /// What a zone shows now, microjoules; for tests that compare readers.
    pub fn shown(&self, device: &str) -> Option<u64> {
        self.zones.iter().find(|zone| zone.spec.device == device).map(|zone| zone.register.shown())
    }

    /// Writes the topology of a machine, so that zones can be matched with CPUs.
    pub fn write_topology(&self, machine: &Machine) -> Result<()> {
        let dies = u32::from(matches!(self.shape, Shape::Dies | Shape::MirroredDies)) + 1;
        for cpu in 0..machine.packages * machine.cpus {
            let folder = self.root.join(format!("devices/system/cpu/cpu{cpu}/topology"));
            make_folder(&folder)?;
            let (package, inside) = (machine.package_of(cpu), cpu % machine.cpus);
            let package = if self.shape == Shape::Package10 { 10 } else { package };
            write(&folder.join("physical_package_id"), &format!("{package}\n"))?;
            write(&folder.join("die_id"), &format!("{}\n", inside * dies / machine.cpus))?;
        }
        Ok(())
    }

    /// Adds what each package drew, in order of their ids. Shows nothing yet.
    pub fn add(&mut self, packages: &[Picojoules]) {
        let of = |id: u32| packages.get(id as usize).copied().unwrap_or(0);
        for zone in &mut self.zones {
            zone.register.add(match zone.spec.feed {
                Feed::Package(id) => of(id),
                Feed::Die(id, die) => Machine::die(of(id), die),
                Feed::Core(id) => of(id) * 5 / 8,
                Feed::Uncore(id) => of(id) / 16,
                Feed::Dram(id) => Machine::dram(of(id)),
                Feed::Psys => packages.iter().sum::<u128>() * 5 / 4,
                Feed::Dead => 0,
            });
        }
    }

    /// Shows the energy added so far.
    pub fn publish(&self) -> Result<()> {
        self.zones.iter().try_for_each(Zone::publish)
    }

    /// What a right reader has counted when the packages drew this much: packages, and memory where it has zones.
    pub fn truth(&self, packages: &[Picojoules]) -> Picojoules {
        let counted = self.zones.iter().map(|zone| zone.spec).filter(|spec| spec.counted);
        counted
            .map(|spec| match spec.feed {
                Feed::Package(id) => packages[id as usize],
                Feed::Die(id, die) => Machine::die(packages[id as usize], die),
                Feed::Dram(id) => Machine::dram(packages[id as usize]),
                Feed::Core(_) | Feed::Uncore(_) | Feed::Psys | Feed::Dead => 0,
            })
            .sum()
    }

    /// Lets something go wrong with a zone.
    pub fn fault(&mut self, device: &str, fault: Fault) -> Result<()> {
        let found = self.zones.iter_mut().find(|zone| zone.spec.device == device);
        found
            .ok_or_else(|| Error::Invalid {
                what: format!("there is no zone {device}"),
                advice: "name a device of the shape, as intel-rapl:0",
            })?
            .fault(fault)
    }

    /// Ends every fault of a zone; one that had vanished comes back at zero, as after loading a module.
    pub fn mend(&mut self, device: &str) -> Result<()> {
        for zone in self.zones.iter_mut().filter(|zone| zone.spec.device == device) {
            zone.is_stuck = false;
            if zone.file.is_none() {
                zone.register = Register::starting_at(zone.spec.lsb, 0);
            }
            zone.write_files()?;
        }
        Ok(())
    }
}

impl Zone {
    fn create(root: &Path, spec: ZoneSpec, layout: Layout) -> Result<Self> {
        let class = root.join("class/powercap");
        let folder = match layout {
            Layout::Linked => nested(&root.join("devices/virtual/powercap"), spec.device),
            Layout::Nested => nested(&class, spec.device),
            Layout::Flat => class.join(spec.device),
        };
        let register = Register::starting_at(spec.lsb, spec.start);
        let mut zone = Self { spec, folder, file: None, register, is_stuck: false };
        zone.write_files()?;
        if layout == Layout::Linked {
            let control = spec.device.split(':').next().unwrap_or_default();
            for (name, target) in [
                (control, root.join("devices/virtual/powercap").join(control)),
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
            write(&self.folder.join("max_energy_range_uj"), &format!("{}\n", self.spec.lsb.max_range()))?;
        }
        let path = self.folder.join("energy_uj");
        let opened = OpenOptions::new().create(true).write(true).truncate(false).open(&path);
        self.file = Some(opened.map_err(Error::os("create", path.display().to_string()))?);
        permit(&path, 0o400)?;
        self.publish()
    }

    fn publish(&self) -> Result<()> {
        let Some(file) = self.file.as_ref().filter(|_| !self.is_stuck) else { return Ok(()) };
        let text = format!("{:020}\n", self.register.shown());
        file.write_all_at(text.as_bytes(), 0).map_err(Error::os("write", self.spec.device))
    }

    fn fault(&mut self, fault: Fault) -> Result<()> {
        match fault {
            Fault::Denied => permit(&self.folder.join("energy_uj"), 0o000),
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
                let start = self.register.shown().saturating_sub(by);
                self.register = Register::starting_at(self.spec.lsb, start);
                self.publish()
            }
            Fault::NearWrap(left) => {
                let start = self.spec.lsb.max_range().saturating_sub(left);
                self.register = Register::starting_at(self.spec.lsb, start);
                self.publish()
            }
        }
    }
}

/// `intel-rapl:0:1` lies in `intel-rapl/intel-rapl:0/intel-rapl:0:1`.
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

fn permit(path: &Path, mode: u32) -> Result<()> {
    let permissions = Permissions::from_mode(mode);
    fs::set_permissions(path, permissions)
        .map_err(Error::os("change the mode of", path.display().to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_zone_lies_inside_its_parents() {
        let base = Path::new("/x");
        assert_eq!(nested(base, "intel-rapl:0:1"), Path::new("/x/intel-rapl/intel-rapl:0/intel-rapl:0:1"));
        assert_eq!(nested(base, "intel-rapl:a"), Path::new("/x/intel-rapl/intel-rapl:a"));
    }
}
