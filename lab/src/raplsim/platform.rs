// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tables of the powercap zones of different machines. Names, ranges and first values come from real machines, through
//! fixtures and bug reports of other tools, from which only values were copied.

use super::counter::EnergyUnit;

/// The RAPL domain that a zone counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Domain {
    /// A package.
    Package(u32),
    /// One of two dies of a package, with 9/16 or 7/16 of the package's energy.
    Die(u32, u32),
    /// The cores of a package, with 5/8 of the package's energy.
    Core(u32),
    /// The graphics unit of a package, with 1/16 of the package's energy.
    Uncore(u32),
    /// The memory of a package.
    Dram(u32),
    /// The whole platform: all packages and the board.
    Psys,
    /// No domain: the counter never advances, as with some hypervisors.
    Dead,
}

/// One zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZoneSpec {
    /// Device, for example `intel-rapl:0:1`. Its numbers give the nesting of zones, not the socket.
    pub device: &'static str,
    /// Content of the file `name`. `None`: the file does not exist.
    pub name: Option<&'static str>,
    /// Energy of one count.
    pub unit: EnergyUnit,
    /// Whether the file `max_energy_range_uj` exists.
    pub has_range: bool,
    /// First value, microjoules.
    pub start: u64,
    /// The domain that the zone counts.
    pub domain: Domain,
    /// Whether a correct reader includes the zone in the sum.
    pub counted: bool,
}

/// A kind of machine, described by its powercap zones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Platform {
    /// One Intel socket with subzones for cores and graphics.
    Intel1,
    /// Two sockets without subzones.
    Intel2,
    /// Four sockets with memory. The order of devices is the reverse of the order of packages.
    Intel4,
    /// Two packages of two dies each.
    Dies,
    /// One socket, and a zone for the whole platform.
    Psys,
    /// One package, reported twice: through MSR and through MMIO.
    Mmio,
    /// One package, reported only through MMIO.
    MmioOnly,
    /// AMD: a package with its cores, a smaller counter range, and no memory zone.
    Amd,
    /// Two sockets with memory zones.
    Dram,
    /// Memory as a top-level zone, not as a subzone of the package.
    DramOnTop,
    /// A virtual machine with the files that Scaphandre provides: only `energy_uj`.
    VmShare,
    /// A package with a two-digit id and a letter in the device name.
    Package10,
    /// Two dies whose zones show the same counter (Threadripper 1950X).
    MirroredDies,
    /// A package, and a second zone of a hypervisor whose counter never advances.
    DeadZone,
    /// No zones.
    Empty,
}

impl Platform {
    /// All platforms.
    pub const ALL: [Self; 15] = [
        Self::Intel1,
        Self::Intel2,
        Self::Intel4,
        Self::Dies,
        Self::Psys,
        Self::Mmio,
        Self::MmioOnly,
        Self::Amd,
        Self::Dram,
        Self::DramOnTop,
        Self::VmShare,
        Self::Package10,
        Self::MirroredDies,
        Self::DeadZone,
        Self::Empty,
    ];

    /// Number of packages of the machine.
    pub fn packages(self) -> u32 {
        match self {
            Self::Intel2 | Self::Dies | Self::Dram => 2,
            Self::Intel4 => 4,
            _ => 1,
        }
    }

    /// The zones of the machine, parents before children.
    pub fn zones(self) -> Vec<ZoneSpec> {
        use Domain::{Core, Dram, Psys, Uncore};
        match self {
            Self::Intel1 => vec![
                package("intel-rapl:0", "package-0", 124_599_532_281, 0),
                zone("intel-rapl:0:0", "core", 23_893_449_269, Core(0)),
                zone("intel-rapl:0:1", "uncore", 23_992_349_269, Uncore(0)),
            ],
            Self::Intel2 => vec![
                package("intel-rapl:0", "package-0", 240_422_366_267, 0),
                package("intel-rapl:1", "package-1", 101_000_000_000, 1),
            ],
            Self::Intel4 => vec![
                package("intel-rapl:0", "package-3", 226_618_687_799, 3),
                zone("intel-rapl:0:0", "dram", 60_279_115_781, Dram(3)),
                package("intel-rapl:1", "package-2", 181_795_825_861, 2),
                zone("intel-rapl:1:0", "dram", 41_000_000_000, Dram(2)),
                package("intel-rapl:2", "package-1", 35_231_629_289, 1),
                zone("intel-rapl:2:0", "dram", 9_000_000_000, Dram(1)),
                package("intel-rapl:3", "package-0", 143_013_545_932, 0),
                zone("intel-rapl:3:0", "dram", 30_000_000_000, Dram(0)),
            ],
            Self::Psys => vec![
                package("intel-rapl:0", "package-0", 124_599_532_281, 0),
                zone("intel-rapl:0:0", "core", 23_893_449_269, Core(0)),
                zone("intel-rapl:0:1", "uncore", 23_992_349_269, Uncore(0)),
                zone("intel-rapl:1", "psys", 154_571_208_422, Psys),
            ],
            Self::Dram => vec![
                package("intel-rapl:0", "package-0", 1_000_000_000, 0),
                zone("intel-rapl:0:0", "dram", 2_000_000_000, Dram(0)),
                package("intel-rapl:1", "package-1", 3_000_000_000, 1),
                zone("intel-rapl:1:0", "core", 3_500_000_000, Core(1)),
                zone("intel-rapl:1:1", "dram", 4_000_000_000, Dram(1)),
            ],
            _ => self.uncommon_zones(),
        }
    }

    fn uncommon_zones(self) -> Vec<ZoneSpec> {
        use Domain::{Core, Dead, Die, Dram, Package, Psys};
        match self {
            Self::Dies => vec![
                zone("intel-rapl:0", "package-0-die-0", 10_360_237_493, Die(0, 0)),
                zone("intel-rapl:1", "package-0-die-1", 20_111_000_000, Die(0, 1)),
                zone("intel-rapl:2", "package-1-die-0", 30_222_000_000, Die(1, 0)),
                zone("intel-rapl:3", "package-1-die-1", 40_333_000_000, Die(1, 1)),
            ],
            Self::Mmio => vec![
                package("intel-rapl:0", "package-0", 118_821_284_256, 0),
                ZoneSpec { counted: false, ..package("intel-rapl-mmio:0", "package-0", 118_821_284_256, 0) },
            ],
            Self::MmioOnly => vec![package("intel-rapl-mmio:0", "package-0", 118_821_284_256, 0)],
            Self::Amd => {
                vec![amd("intel-rapl:0", "package-0", Package(0)), amd("intel-rapl:0:0", "core", Core(0))]
            }
            Self::DramOnTop => vec![
                package("intel-rapl:0", "package-0", 124_599_532_281, 0),
                zone("intel-rapl:1", "psys", 154_571_208_422, Psys),
                zone("intel-rapl:2", "dram", 7_000_000_000, Dram(0)),
            ],
            Self::VmShare => vec![ZoneSpec {
                name: None,
                has_range: false,
                ..package("intel-rapl:0", "package-0", 5_000_000, 0)
            }],
            Self::Package10 => vec![package("intel-rapl:a", "package-10", 240_422_366_267, 0)],
            Self::MirroredDies => vec![
                zone("intel-rapl:0", "package-0-die-0", 50_000_000_000, Package(0)),
                ZoneSpec {
                    counted: false,
                    ..zone("intel-rapl:1", "package-0-die-1", 50_000_000_000, Package(0))
                },
            ],
            Self::DeadZone => vec![
                package("intel-rapl:0", "package-0", 77_000_000_000, 0),
                ZoneSpec { counted: false, ..zone("intel-rapl:1", "package-15", 0, Dead) },
            ],
            _ => Vec::new(),
        }
    }
}

fn package(device: &'static str, name: &'static str, start: u64, id: u32) -> ZoneSpec {
    zone(device, name, start, Domain::Package(id))
}

fn zone(device: &'static str, name: &'static str, start: u64, domain: Domain) -> ZoneSpec {
    let unit = if matches!(domain, Domain::Dram(_)) { EnergyUnit::DRAM } else { EnergyUnit::INTEL };
    let counted = matches!(domain, Domain::Package(_) | Domain::Die(..) | Domain::Dram(_));
    ZoneSpec { device, name: Some(name), unit, has_range: true, start, domain, counted }
}

fn amd(device: &'static str, name: &'static str, domain: Domain) -> ZoneSpec {
    ZoneSpec { unit: EnergyUnit::AMD, ..zone(device, name, 10_360_237_493, domain) }
}
