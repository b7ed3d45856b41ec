// SPDX-License-Identifier: MIT OR Apache-2.0
//! Zones under `class/powercap`: finds and opens them. What they mean is in [`super::zone`]; nothing is computed here.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::zone::{Way, Zone};

/// Reads a counter, microjoules.
pub(crate) type Read = Box<dyn FnMut() -> io::Result<u64> + Send>;

/// Folders may lie inside each other so deep: control type, package, part.
const DEPTH: u32 = 4;

/// A zone and the means to read it.
pub(crate) struct Found {
    /// The zone.
    pub(crate) zone: Zone,
    /// Path of its counter, to be named in messages.
    pub(crate) path: PathBuf,
    /// Reads it, or why it could not be opened.
    pub(crate) read: io::Result<Read>,
}

/// All zones below a root that stands for `/sys`, by device; each once, whatever links lead to it.
pub(crate) fn scan(root: &Path) -> Vec<Found> {
    let mut folders = Vec::new();
    // The last is the root of a share by which a host gives energy to its guest: zones and nothing else.
    for start in [root.join("class/powercap"), root.join("devices/virtual/powercap"), root.to_owned()] {
        collect(&start, DEPTH, &mut folders);
    }
    let mut seen = HashSet::new();
    let mut found: Vec<Found> = folders
        .iter()
        .filter(|folder| fs::canonicalize(folder).is_ok_and(|path| seen.insert(path)))
        .filter_map(|folder| open(folder))
        .collect();
    found.sort_by(|a, b| a.zone.device.cmp(&b.zone.device));
    // One device has one name in the whole class: a copy without links is the same zone.
    found.dedup_by(|a, b| a.zone.device == b.zone.device);
    found
}

fn collect(folder: &Path, depth: u32, folders: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let is_rapl = entry.file_name().to_str().is_some_and(|name| name.starts_with("intel-rapl"));
        if is_rapl && path.is_dir() {
            folders.push(path.clone());
            if depth > 1 {
                collect(&path, depth - 1, folders);
            }
        }
    }
}

/// `None`: no counter here, as in the folder of a control type.
fn open(folder: &Path) -> Option<Found> {
    let device = folder.file_name()?.to_str()?.to_owned();
    let path = folder.join("energy_uj");
    let (control, place) = device.split_once(':')?;
    if fs::symlink_metadata(&path).is_err() {
        return None;
    }
    let number = |name: &str| text(folder, name)?.parse().ok();
    let limits = (0..3).filter_map(|nth| number(&format!("constraint_{nth}_max_power_uw")));
    let zone = Zone {
        parent: place.rsplit_once(':').map(|(outer, _)| format!("{control}:{outer}")),
        name: text(folder, "name"),
        way: if control.ends_with("mmio") { Way::Mmio } else { Way::Powercap },
        max: number("max_energy_range_uj"),
        limit: limits.max().filter(|limit| *limit > 0),
        device,
    };
    let read = File::open(&path).map(reader);
    Some(Found { zone, path, read })
}

fn text(folder: &Path, name: &str) -> Option<String> {
    fs::read_to_string(folder.join(name))
        .ok()
        .map(|text| text.trim().to_owned())
        .filter(|text| !text.is_empty())
}

/// Keeps the file open: sysfs makes a new value for each read at its beginning.
fn reader(file: File) -> Read {
    Box::new(move || {
        let mut buffer = [0; 32];
        let length = file.read_at(&mut buffer, 0)?;
        let text = std::str::from_utf8(&buffer[..length]).unwrap_or_default().trim();
        let broken =
            |_| io::Error::new(io::ErrorKind::InvalidData, format!("holds {text:?}, which is no number"));
        text.parse().map_err(broken)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::energy::zone::{Role, cover};
    use mpwatch_lab::raplsim::{Platform, PowercapTree, SysfsLayout};

    const LAYOUTS: [SysfsLayout; 3] = [SysfsLayout::Linked, SysfsLayout::Nested, SysfsLayout::Flat];

    fn tree(shape: Platform, layout: SysfsLayout) -> (tempfile::TempDir, PowercapTree) {
        let root = tempfile::tempdir().unwrap();
        let tree = PowercapTree::create(root.path(), shape, layout).unwrap();
        (root, tree)
    }

    #[test]
    fn every_shape_is_covered_right_in_every_layout() {
        for (shape, layout) in Platform::ALL.iter().flat_map(|shape| LAYOUTS.map(|layout| (*shape, layout))) {
            let (root, tree) = tree(shape, layout);
            let found = scan(root.path());
            let mut expected: Vec<_> = tree.zones().map(|spec| (spec.device, spec.counted)).collect();
            expected.sort_unstable();
            let zones: Vec<Zone> = found.iter().map(|found| found.zone.clone()).collect();
            let counted = cover(&zones).into_iter().map(|role| matches!(role, Role::Counted(_)));
            let found: Vec<_> = zones.iter().map(|zone| zone.device.as_str()).zip(counted).collect();
            // That a counter is a mirror of another, or dead, shows only over time.
            let shows_later = matches!(shape, Platform::MirroredDies | Platform::DeadZone);
            let expected: Vec<_> =
                expected.into_iter().map(|(device, counted)| (device, counted || shows_later)).collect();
            assert_eq!(found, expected, "{shape:?} {layout:?}");
        }
    }

    #[test]
    fn values_and_ranges_are_those_of_an_independent_reader() {
        for shape in Platform::ALL {
            let (root, tree) = tree(shape, SysfsLayout::Nested);
            let Ok(other) = powercap::PowerCap::try_from(root.path().join("class/powercap")) else {
                assert!(
                    matches!(shape, Platform::Empty | Platform::MmioOnly),
                    "{shape:?}: the other reader sees nothing"
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
            assert_eq!(compared, theirs, "{shape:?}: the other reader has zones that ours lacks");
        }
    }

    /// Whether the other reader has the zone, and then the same of it. It knows no sockets named by letters, and no MMIO.
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
    fn a_share_of_a_host_is_found_at_the_root_itself() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("intel-rapl:0")).unwrap();
        fs::write(root.path().join("intel-rapl:0/energy_uj"), "123\n").unwrap();
        let mut found = scan(root.path());
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].read.as_mut().unwrap()().unwrap(), &found[0].zone.name), (123, &None));
    }

    #[test]
    fn an_emptied_file_is_an_error_and_no_zero() {
        let (root, mut tree) = tree(Platform::Intel2, SysfsLayout::Linked);
        let mut found = scan(root.path());
        tree.inject_fault("intel-rapl:0", mpwatch_lab::raplsim::Fault::Vanished).unwrap();
        assert_eq!(found[0].read.as_mut().unwrap()().unwrap_err().kind(), io::ErrorKind::InvalidData);
        assert_eq!(scan(root.path()).len(), 1);
    }
}
