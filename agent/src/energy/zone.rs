// SPDX-License-Identifier: MIT OR Apache-2.0
//! Zones of energy counters, and which of them cover the machine without overlap. The `name` of a zone identifies its package; the index in
//! `intel-rapl:0` does not. `psys` contains packages, `core` and `uncore` are parts of a package, an MMIO zone is a second view of a package.

/// The part of the machine that a zone measures, by its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Domain {
    /// A package, or one of its dies.
    Package {
        package: u32,
        die: Option<u32>,
    },
    Dram,
    /// A part of a package, or the platform around all packages.
    Overlapping,
    /// No name: the share that a host exports to its guest.
    Unnamed,
    /// An unknown name.
    Other,
}

impl Domain {
    /// Interprets the content of the file `name`. `None`: there is no such file.
    pub(crate) fn parse(name: Option<&str>) -> Self {
        let Some(name) = name else { return Self::Unnamed };
        match name {
            "dram" => Self::Dram,
            "core" | "uncore" | "psys" => Self::Overlapping,
            // Sapphire Rapids has a platform zone for each package.
            _ if name.starts_with("psys-") => Self::Overlapping,
            _ => {
                let rest = name.strip_prefix("package-").unwrap_or_default();
                let (package, die) = rest.split_once("-die-").unzip();
                match (package.unwrap_or(rest).parse(), die.map(str::parse).transpose()) {
                    (Ok(package), Ok(die)) => Self::Package { package, die },
                    _ => Self::Other,
                }
            }
        }
    }
}

/// How a zone is read. Several backends may read one counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Backend {
    /// The kernel's `power` PMU.
    Perf,
    /// powercap, from model-specific registers (or TPMI).
    Powercap,
    /// powercap, from memory-mapped registers: a second view of a package.
    Mmio,
}

/// A zone, which has one energy counter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Zone {
    /// Device, such as `intel-rapl:0:1`; for a perf event, `energy-pkg@0` with the CPU on which it is read.
    pub(crate) device: String,
    /// Device of the enclosing zone. `None`: no zone encloses this one.
    pub(crate) parent: Option<String>,
    pub(crate) name: Option<String>,
    pub(crate) backend: Backend,
    /// `max_energy_range_uj`, microjoules. `None`: unknown, or the counter does not wrap.
    pub(crate) max: Option<u64>,
    /// Long-term power limit of the package, microwatts. `None`: unknown.
    pub(crate) limit: Option<u64>,
}

impl Zone {
    pub(crate) fn domain(&self) -> Domain {
        Domain::parse(self.name.as_deref())
    }

    fn parent_in<'a>(&self, zones: &'a [Self]) -> Option<&'a Self> {
        let parent = self.parent.as_deref()?;
        zones.iter().find(|zone| zone.device == parent)
    }

    /// Name that is unique on the machine, such as `package-0/dram`; the device of a zone without a name.
    pub(crate) fn label(&self, zones: &[Self]) -> String {
        let own = self.name.clone().unwrap_or_else(|| self.device.clone());
        self.parent_in(zones).map_or(own.clone(), |parent| format!("{}/{own}", parent.label(zones)))
    }

    /// The package that the zone belongs to. `None`: unknown.
    fn package(&self, zones: &[Self]) -> Option<u32> {
        match self.domain() {
            Domain::Package { package, .. } => Some(package),
            _ => {
                self.parent_in(zones).and_then(|parent| parent.package(zones)).or_else(|| only_package(zones))
            }
        }
    }

    /// Whether both zones measure the same package, or the memory of the same package.
    fn is_twin_of(&self, other: &Self, zones: &[Self]) -> bool {
        match (self.domain(), other.domain()) {
            (Domain::Package { package: a, .. }, Domain::Package { package: b, .. }) => a == b,
            (Domain::Dram, Domain::Dram) => self.package(zones) == other.package(zones),
            _ => false,
        }
    }
}

fn only_package(zones: &[Zone]) -> Option<u32> {
    let mut ids = zones.iter().filter_map(|zone| match zone.domain() {
        Domain::Package { package, .. } => Some(package),
        _ => None,
    });
    let first = ids.next()?;
    ids.all(|id| id == first).then_some(first)
}

/// Package and die of CPUs, or of the zone that covers them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CpuLocation {
    /// `None`: all packages.
    pub(crate) package: Option<u32>,
    /// `None`: the whole package.
    pub(crate) die: Option<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Part of the machine's total.
    Counted(CpuLocation),
    /// Overlaps with counted zones: displayed, but in no total.
    DisplayOnly,
    /// Not read, for this reason.
    Excluded(&'static str),
}

/// The role of each zone. The counted zones cover the machine without overlap.
pub(crate) fn assign_roles(zones: &[Zone]) -> Vec<Role> {
    zones.iter().enumerate().map(|(index, zone)| role(index, zone, zones)).collect()
}

fn role(index: usize, zone: &Zone, zones: &[Zone]) -> Role {
    let domain = zone.domain();
    let die = match domain {
        Domain::Package { die, .. } => die,
        Domain::Dram => None,
        Domain::Overlapping => return Role::DisplayOnly,
        Domain::Unnamed if zone.parent_in(zones).is_none() => None,
        Domain::Unnamed => return Role::Excluded("inside another zone"),
        Domain::Other => return Role::Excluded("its name is unknown"),
    };
    let twin = |other: &&Zone| zone.is_twin_of(other, zones);
    if zone.backend == Backend::Mmio && zones.iter().filter(twin).any(|other| other.backend != Backend::Mmio)
    {
        return Role::Excluded("another backend reads the same counter");
    }
    let same_backend = |other: &&Zone| other.backend == zone.backend;
    let whole = Domain::Package { package: zone.package(zones).unwrap_or_default(), die: None };
    if die.is_some() && zones.iter().filter(same_backend).any(|other| other.domain() == whole) {
        return Role::Excluded("inside its package");
    }
    let named_before =
        zones[..index].iter().filter(same_backend).filter(twin).any(|other| other.domain() == domain);
    if named_before {
        return Role::Excluded("another zone has this name");
    }
    Role::Counted(CpuLocation { package: zone.package(zones), die })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zone(device: &str, name: &str) -> Zone {
        let parent = device.match_indices(':').nth(1).map(|(at, _)| device[..at].to_owned());
        let backend = if device.contains("mmio") { Backend::Mmio } else { Backend::Powercap };
        Zone { device: device.into(), parent, name: Some(name.into()), backend, max: None, limit: None }
    }

    #[test]
    fn a_name_with_an_unknown_suffix_is_unknown() {
        assert_eq!(Domain::parse(Some("package-10")), Domain::Package { package: 10, die: None });
        assert_eq!(Domain::parse(Some("package-1-die-0")), Domain::Package { package: 1, die: Some(0) });
        for odd in ["package-", "package-x", "package-0-die-", "package", "battery", ""] {
            assert_eq!(Domain::parse(Some(odd)), Domain::Other, "{odd}");
        }
        assert_eq!(Domain::parse(None), Domain::Unnamed);
        assert_eq!(Domain::parse(Some("psys-1")), Domain::Overlapping);
    }

    #[test]
    fn memory_belongs_to_the_enclosing_package() {
        let zones = [
            zone("intel-rapl:0", "package-3"),
            zone("intel-rapl:0:0", "dram"),
            zone("intel-rapl:1", "package-0"),
        ];
        let roles = assign_roles(&zones);
        assert_eq!(roles[1], Role::Counted(CpuLocation { package: Some(3), die: None }));
        assert_eq!(zones[1].label(&zones), "package-3/dram");
    }

    #[test]
    fn dies_are_counted_unless_their_package_is() {
        let dies = [zone("intel-rapl:0", "package-0-die-0"), zone("intel-rapl:1", "package-0-die-1")];
        assert!(assign_roles(&dies).iter().all(|role| matches!(role, Role::Counted(_))));
        let both = [zone("intel-rapl:0", "package-0"), zone("intel-rapl:0:0", "package-0-die-0")];
        assert_eq!(assign_roles(&both)[1], Role::Excluded("inside its package"));
    }

    #[test]
    fn a_second_view_is_counted_only_without_the_first() {
        let both = [zone("intel-rapl-mmio:0", "package-0"), zone("intel-rapl:0", "package-0")];
        assert_eq!(assign_roles(&both)[0], Role::Excluded("another backend reads the same counter"));
        assert!(matches!(assign_roles(&both[..1])[0], Role::Counted(_)));
        let twice = [zone("intel-rapl:0", "package-0"), zone("intel-rapl:1", "package-0")];
        assert_eq!(assign_roles(&twice)[1], Role::Excluded("another zone has this name"));
    }
}
