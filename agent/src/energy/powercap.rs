// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds and opens the zones below `class/powercap`. [`super::zone`] interprets them.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::zone::{Backend, Zone};
use crate::system::procfs::read_file;

/// Reads a counter in microjoules.
pub(crate) type ReadCounter = Box<dyn FnMut() -> io::Result<u64> + Send>;

/// Levels of directories to search: control type, package, part, and parts of a part.
const MAX_DEPTH: u32 = 4;

pub(crate) struct FoundZone {
    pub(crate) zone: Zone,
    /// Path of the counter, for messages.
    pub(crate) path: PathBuf,
    /// Reads the counter, or why it could not be opened.
    pub(crate) read: io::Result<ReadCounter>,
}

/// All zones below `/sys` or its replacement, by device. A zone that several links lead to is listed once.
pub(crate) fn scan(root: &Path) -> Vec<FoundZone> {
    let mut directories = Vec::new();
    // A host may export zones to its guest as a shared directory with nothing else, so the root itself is searched too.
    for start in [root.join("class/powercap"), root.join("devices/virtual/powercap"), root.to_owned()] {
        collect(&start, MAX_DEPTH, &mut directories);
    }
    let mut seen = HashSet::new();
    let mut found: Vec<FoundZone> = directories
        .iter()
        .filter(|directory| fs::canonicalize(directory).is_ok_and(|path| seen.insert(path)))
        .filter_map(|directory| open(directory))
        .collect();
    found.sort_by(|a, b| a.zone.device.cmp(&b.zone.device));
    // Device names are unique in the class, so a copy that is not a link is the same zone.
    found.dedup_by(|a, b| a.zone.device == b.zone.device);
    found
}

fn collect(directory: &Path, depth: u32, directories: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        let is_rapl = entry.file_name().to_str().is_some_and(|name| name.starts_with("intel-rapl"));
        if is_rapl && path.is_dir() {
            directories.push(path.clone());
            if depth > 1 {
                collect(&path, depth - 1, directories);
            }
        }
    }
}

/// Opens the zone in a directory. `None`: the directory has no counter, for example because it is the directory of a control type.
fn open(directory: &Path) -> Option<FoundZone> {
    let device = directory.file_name()?.to_str()?.to_owned();
    let path = directory.join("energy_uj");
    let (control, index) = device.split_once(':')?;
    if fs::symlink_metadata(&path).is_err() {
        return None;
    }
    let number = |name: &str| text(directory, name)?.parse().ok();
    let limits = (0..3).filter_map(|nth| number(&format!("constraint_{nth}_max_power_uw")));
    let zone = Zone {
        parent: index.rsplit_once(':').map(|(outer, _)| format!("{control}:{outer}")),
        name: text(directory, "name"),
        backend: if control.ends_with("mmio") { Backend::Mmio } else { Backend::Powercap },
        max: number("max_energy_range_uj"),
        limit: limits.max().filter(|limit| *limit > 0),
        device,
    };
    let read = File::open(&path).map(reader);
    Some(FoundZone { zone, path, read })
}

fn text(directory: &Path, name: &str) -> Option<String> {
    read_file(directory.join(name)).filter(|text| !text.is_empty())
}

/// Keeps the file open: sysfs computes a new value for every read at offset 0.
fn reader(file: File) -> ReadCounter {
    Box::new(move || {
        let mut buffer = [0; 32];
        let length = file.read_at(&mut buffer, 0)?;
        let text = std::str::from_utf8(&buffer[..length]).unwrap_or_default().trim();
        let broken =
            |_| io::Error::new(io::ErrorKind::InvalidData, format!("its value {text:?} is not a number"));
        text.parse().map_err(broken)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::energy::tests::tree;
    use crate::energy::zone::{Role, assign_roles};
    use mpwatch_lab::raplsim::{Platform, SysfsLayout};

    const LAYOUTS: [SysfsLayout; 3] = [SysfsLayout::Linked, SysfsLayout::Nested, SysfsLayout::Flat];

    #[test]
    fn the_right_zones_are_counted_in_every_shape_and_layout() {
        for (shape, layout) in Platform::ALL.iter().flat_map(|shape| LAYOUTS.map(|layout| (*shape, layout))) {
            let (root, tree) = tree(shape, layout);
            let found = scan(root.path());
            let mut expected: Vec<_> = tree.zones().map(|spec| (spec.device, spec.counted)).collect();
            expected.sort_unstable();
            let zones: Vec<Zone> = found.iter().map(|found| found.zone.clone()).collect();
            let counted = assign_roles(&zones).into_iter().map(|role| matches!(role, Role::Counted(_)));
            let found: Vec<_> = zones.iter().map(|zone| zone.device.as_str()).zip(counted).collect();
            // Only later readings show that a counter does not advance or mirrors another.
            let is_found_later = matches!(shape, Platform::MirroredDies | Platform::DeadZone);
            let expected: Vec<_> =
                expected.into_iter().map(|(device, counted)| (device, counted || is_found_later)).collect();
            assert_eq!(found, expected, "{shape:?} {layout:?}");
        }
    }

    #[test]
    fn values_and_ranges_equal_those_of_an_independent_reader() {
        for shape in Platform::ALL {
            let (root, tree) = tree(shape, SysfsLayout::Nested);
            let Ok(other) = powercap::PowerCap::try_from(root.path().join("class/powercap")) else {
                assert!(
                    matches!(shape, Platform::Empty | Platform::MmioOnly),
                    "{shape:?}: the other reader found zones"
                );
                continue;
            };
            let mut compared = 0;
            for mut found in scan(root.path()) {
                let ours = (found.read.as_mut().unwrap()().unwrap(), found.zone.max);
                assert_eq!(Some(ours.0), tree.energy_uj(&found.zone.device));
                compared += usize::from(check(&other, &found.zone, ours));
            }
            let theirs: usize =
                other.intel_rapl.sockets.values().map(|socket| 1 + socket.domains.len()).sum();
            assert_eq!(compared, theirs, "{shape:?}: the other reader has zones that ours does not have");
        }
    }

    /// Whether `other` has the zone; if so, the values must be equal. The crate `powercap` does not read MMIO or sockets named by letters.
    fn check(other: &powercap::PowerCap, zone: &Zone, (energy, max): (u64, Option<u64>)) -> bool {
        let mut numbers =
            zone.device.strip_prefix("intel-rapl:").into_iter().flat_map(|rest| rest.split(':'));
        let Some(socket) = numbers.next().and_then(|number| number.parse::<u8>().ok()) else { return false };
        let Some(socket) = other.intel_rapl.sockets.get(&socket) else { return false };
        let (their_energy, their_max, their_name) =
            match numbers.next().and_then(|number| number.parse::<u8>().ok()) {
                None => (socket.energy(), socket.max_energy_range(), None),
                Some(part) => {
                    let domain = &socket.domains[&part];
                    (domain.energy(), domain.max_energy_range(), domain.name().ok())
                }
            };
        assert_eq!((their_energy.unwrap(), their_max.ok()), (energy, max), "{}", zone.device);
        assert!(their_name.is_none() || their_name == zone.name, "{}", zone.device);
        true
    }

    #[test]
    fn zones_exported_by_a_host_are_found_at_the_root() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("intel-rapl:0")).unwrap();
        fs::write(root.path().join("intel-rapl:0/energy_uj"), "123\n").unwrap();
        let mut found = scan(root.path());
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].read.as_mut().unwrap()().unwrap(), &found[0].zone.name), (123, &None));
    }

    #[test]
    fn an_empty_file_is_an_error_and_not_zero() {
        let (root, mut tree) = tree(Platform::Intel2, SysfsLayout::Linked);
        let mut found = scan(root.path());
        tree.inject_fault("intel-rapl:0", mpwatch_lab::raplsim::Fault::Vanished).unwrap();
        assert_eq!(found[0].read.as_mut().unwrap()().unwrap_err().kind(), io::ErrorKind::InvalidData);
        assert_eq!(scan(root.path()).len(), 1);
    }
}
