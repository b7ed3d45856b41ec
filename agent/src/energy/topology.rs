// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packages and dies of the CPUs, from `devices/system/cpu` below `/sys` or its replacement.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use mpwatch_model::host::energy::window::Cpus;

use super::zone::CpuLocation;
use crate::system::procfs::read_file;

/// Locations of all CPUs of the machine, by number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CpuTopology(BTreeMap<u32, CpuLocation>);

impl CpuTopology {
    /// Reads the topology. Empty: the directory has none.
    pub(crate) fn read(root: &Path) -> Self {
        let entries = fs::read_dir(root.join("devices/system/cpu")).into_iter().flatten().flatten();
        let cpus = entries.filter_map(|entry| {
            let number = entry.file_name().to_str()?.strip_prefix("cpu")?.parse().ok()?;
            let read = |name: &str| read_file(entry.path().join("topology").join(name))?.parse().ok();
            let location = CpuLocation { package: read("physical_package_id"), die: read("die_id") };
            location.package.map(|_| (number, location))
        });
        Self(cpus.collect())
    }

    pub(crate) fn location(&self, number: u32) -> Option<CpuLocation> {
        self.0.get(&number).copied()
    }

    /// The CPUs of each package. A machine of unknown topology is one package with all its `cpus`.
    pub(crate) fn packages(&self, cpus: u32) -> Vec<Vec<u32>> {
        if self.0.is_empty() {
            return vec![(0..cpus).collect()];
        }
        let mut packages = BTreeMap::<_, Vec<u32>>::new();
        for (number, location) in &self.0 {
            packages.entry(location.package).or_default().push(*number);
        }
        packages.into_values().collect()
    }

    /// The CPUs at a location; all CPUs if the location is unknown.
    pub(crate) fn cpus(&self, CpuLocation { package, die }: CpuLocation) -> Cpus {
        let is_inside = |cpu: &CpuLocation| cpu.package == package && (die.is_none() || cpu.die == die);
        let inside = self.0.iter().filter(|(_, location)| is_inside(location));
        let numbers: Vec<u32> = inside.map(|(number, _)| *number).collect();
        if numbers.is_empty() { Cpus::All } else { Cpus::These(numbers) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::energy::tests::tree;
    use mpwatch_lab::raplsim::{Platform, PowerModel, SimulatedMachine, SysfsLayout};

    #[test]
    fn cpus_are_found_by_package_and_die() {
        let (root, tree) = tree(Platform::Dies, SysfsLayout::Linked);
        let power = PowerModel::Linear { idle: 1, dynamic: 1 };
        tree.write_topology(&SimulatedMachine { packages: 2, cpus: 4, power }).unwrap();
        let topology = CpuTopology::read(root.path());
        let at = |package, die| topology.cpus(CpuLocation { package, die });
        assert_eq!(at(Some(1), None), Cpus::These(vec![4, 5, 6, 7]));
        assert_eq!(at(Some(0), Some(1)), Cpus::These(vec![2, 3]));
        assert_eq!((at(None, None), at(Some(9), None)), (Cpus::All, Cpus::All));
        assert_eq!(topology.packages(9), [vec![0, 1, 2, 3], vec![4, 5, 6, 7]]);
        assert_eq!(CpuTopology::default().packages(2), [vec![0, 1]]);
        assert!(at(Some(1), None).contains(5) && !at(Some(1), None).contains(3));
    }
}
