// SPDX-License-Identifier: MIT OR Apache-2.0
//! Zones of energy counters, and which of them together make up the machine without counting anything twice. Pure.
//!
//! Sockets are known by the `name` of a zone only: the index in `intel-rapl:0` says nothing (on a real machine with four
//! sockets it is package 3). `psys` contains packages, `core` and `uncore` lie inside them, an MMIO zone is the same
//! package once more.

/// What a zone measures, by its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Domain {
    /// A package, or one die of it.
    Package { package: u32, die: Option<u32> },
    /// Memory.
    Dram,
    /// The cores of a package.
    Core,
    /// The graphics of a package.
    Uncore,
    /// The whole platform.
    Psys,
    /// There is no name: what a host shares with its guest.
    Unnamed,
    /// A name that is not known here.
    Other,
}

impl Domain {
    /// From the content of `name`; `None`: there is none.
    pub(crate) fn parse(name: Option<&str>) -> Self {
        let Some(name) = name else { return Self::Unnamed };
        let package = |text: &str| text.parse().ok();
        match name {
            "dram" => Self::Dram,
            "core" => Self::Core,
            "uncore" => Self::Uncore,
            "psys" => Self::Psys,
            _ => name
                .strip_prefix("package-")
                .and_then(|rest| match rest.split_once("-die-") {
                    Some((id, die)) => {
                        Some(Self::Package { package: package(id)?, die: Some(die.parse().ok()?) })
                    }
                    None => Some(Self::Package { package: package(rest)?, die: None }),
                })
                .unwrap_or(Self::Other),
        }
    }
}

/// By which way a zone is read; several ways may lead to one counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// The kernel's `power` PMU.
    Perf,
    /// powercap, by model-specific registers (or TPMI).
    Powercap,
    /// powercap, by memory-mapped registers: a second view of a package.
    Mmio,
}

/// A counter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Zone {
    /// Device, as `intel-rapl:0:1`; for a perf event `energy-pkg@0` with the CPU on which it is counted.
    pub(crate) device: String,
    /// Device of the zone around it.
    pub(crate) parent: Option<String>,
    /// Content of `name`.
    pub(crate) name: Option<String>,
    /// How it is read.
    pub(crate) way: Way,
    /// `max_energy_range_uj`, microjoules. `None`: not said, or it does not wrap.
    pub(crate) max: Option<u64>,
    /// The most that the package may draw in the long run, microwatts. `None`: not said.
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

    /// Name that is unique on the machine: `package-0`, `package-0/dram`; the device where there is no name.
    pub(crate) fn label(&self, zones: &[Self]) -> String {
        let own = self.name.clone().unwrap_or_else(|| self.device.clone());
        self.parent_in(zones).map_or(own.clone(), |parent| format!("{}/{own}", parent.label(zones)))
    }

    /// The package that it belongs to. `None`: not said.
    fn package(&self, zones: &[Self]) -> Option<u32> {
        match self.domain() {
            Domain::Package { package, .. } => Some(package),
            _ => {
                self.parent_in(zones).and_then(|parent| parent.package(zones)).or_else(|| only_package(zones))
            }
        }
    }

    /// Whether the two ways measure one thing.
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

/// Where the CPUs of a zone are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// Package. `None`: all.
    pub(crate) package: Option<u32>,
    /// Die. `None`: the whole package.
    pub(crate) die: Option<u32>,
}

/// What a zone is good for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Part of the machine's total.
    Counted(Place),
    /// Overlaps with what is counted: to look at.
    Shown,
    /// Not read, and why.
    Excluded(&'static str),
}

/// The role of each zone. The counted ones do not overlap and leave nothing out.
pub(crate) fn cover(zones: &[Zone]) -> Vec<Role> {
    zones.iter().enumerate().map(|(index, zone)| role(index, zone, zones)).collect()
}

fn role(index: usize, zone: &Zone, zones: &[Zone]) -> Role {
    let domain = zone.domain();
    let die = match domain {
        Domain::Package { die, .. } => die,
        Domain::Dram => None,
        Domain::Core | Domain::Uncore | Domain::Psys => return Role::Shown,
        Domain::Unnamed if zone.parent_in(zones).is_none() => None,
        Domain::Unnamed => return Role::Excluded("inside another zone"),
        Domain::Other => return Role::Excluded("a name that mpwatch does not know"),
    };
    let twin = |other: &&Zone| zone.is_twin_of(other, zones);
    if zone.way == Way::Mmio && zones.iter().filter(twin).any(|other| other.way != Way::Mmio) {
        return Role::Excluded("the same counter as by MSR");
    }
    let same_way = |other: &&Zone| other.way == zone.way;
    let whole = Domain::Package { package: zone.package(zones).unwrap_or_default(), die: None };
    if die.is_some() && zones.iter().filter(same_way).any(|other| other.domain() == whole) {
        return Role::Excluded("inside its package");
    }
    let named_before =
        zones[..index].iter().filter(same_way).filter(twin).any(|other| other.domain() == domain);
    if named_before {
        return Role::Excluded("a second zone of this name");
    }
    Role::Counted(Place { package: zone.package(zones), die })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zone(device: &str, name: &str) -> Zone {
        let parent = device.match_indices(':').nth(1).map(|(at, _)| device[..at].to_owned());
        let way = if device.contains("mmio") { Way::Mmio } else { Way::Powercap };
        Zone { device: device.into(), parent, name: Some(name.into()), way, max: None, limit: None }
    }

    #[test]
    fn names_are_parsed_to_the_end() {
        assert_eq!(Domain::parse(Some("package-10")), Domain::Package { package: 10, die: None });
        assert_eq!(Domain::parse(Some("package-1-die-0")), Domain::Package { package: 1, die: Some(0) });
        for odd in ["package-", "package-x", "package-0-die-", "package", "battery", ""] {
            assert_eq!(Domain::parse(Some(odd)), Domain::Other, "{odd}");
        }
        assert_eq!(Domain::parse(None), Domain::Unnamed);
    }

    #[test]
    fn memory_belongs_to_the_package_around_it_not_to_its_index() {
        let zones = [
            zone("intel-rapl:0", "package-3"),
            zone("intel-rapl:0:0", "dram"),
            zone("intel-rapl:1", "package-0"),
        ];
        let roles = cover(&zones);
        assert_eq!(roles[1], Role::Counted(Place { package: Some(3), die: None }));
        assert_eq!(zones[1].label(&zones), "package-3/dram");
    }

    #[test]
    fn dies_count_unless_their_package_does() {
        let dies = [zone("intel-rapl:0", "package-0-die-0"), zone("intel-rapl:1", "package-0-die-1")];
        assert!(cover(&dies).iter().all(|role| matches!(role, Role::Counted(_))));
        let both = [zone("intel-rapl:0", "package-0"), zone("intel-rapl:0:0", "package-0-die-0")];
        assert_eq!(cover(&both)[1], Role::Excluded("inside its package"));
    }

    #[test]
    fn a_second_view_counts_only_where_the_first_is_missing() {
        let both = [zone("intel-rapl-mmio:0", "package-0"), zone("intel-rapl:0", "package-0")];
        assert_eq!(cover(&both)[0], Role::Excluded("the same counter as by MSR"));
        assert!(matches!(cover(&both[..1])[0], Role::Counted(_)));
        let twice = [zone("intel-rapl:0", "package-0"), zone("intel-rapl:1", "package-0")];
        assert_eq!(cover(&twice)[1], Role::Excluded("a second zone of this name"));
    }
}
