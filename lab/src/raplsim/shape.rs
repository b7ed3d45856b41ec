// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which zones machines have: the trees that the energy reader must get right, each as data. Names, ranges and first values
//! are those of real machines, from fixtures and reports of other tools (numbers only).

use super::register::Lsb;

/// Part of the simulated machine that drives a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Feed {
    /// A whole package.
    Package(u32),
    /// One of two dies of a package: nine sixteenths and seven sixteenths of it.
    Die(u32, u32),
    /// Its cores: five eighths of the package.
    Core(u32),
    /// Its graphics: a sixteenth.
    Uncore(u32),
    /// Its memory.
    Dram(u32),
    /// Everything, and what hangs on the board.
    Psys,
    /// Nothing: a counter that never moves, as hypervisors show them.
    Dead,
}

/// One zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZoneSpec {
    /// Device, as `intel-rapl:0:1`: the place of a zone inside others, and nothing about sockets.
    pub device: &'static str,
    /// Content of `name`. `None`: there is no such file.
    pub name: Option<&'static str>,
    /// What one count is worth.
    pub lsb: Lsb,
    /// Whether there is `max_energy_range_uj`.
    pub has_range: bool,
    /// First value, microjoules.
    pub start: u64,
    /// What drives it.
    pub feed: Feed,
    /// Whether a right reader adds it up.
    pub counted: bool,
}

/// Zone trees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// One Intel socket with cores and graphics inside.
    Intel1,
    /// Two sockets.
    Intel2,
    /// Four sockets with memory, numbered against the order of their packages.
    Intel4,
    /// Two packages of two dies each.
    Dies,
    /// One socket and the whole platform beside it.
    Psys,
    /// The package twice: by MSR and by MMIO.
    Mmio,
    /// The package by MMIO alone.
    MmioOnly,
    /// AMD: a package and its cores, a small range, no memory.
    Amd,
    /// Two sockets with memory.
    Dram,
    /// Memory beside the package instead of inside, as some platforms have it.
    DramOnTop,
    /// What Scaphandre gives to a guest: `energy_uj` and nothing else.
    VmShare,
    /// A package with a two-digit id and a device named by a letter.
    Package10,
    /// Two dies that are one counter (Threadripper 1950X).
    MirroredDies,
    /// A live package, and a dead one that a hypervisor made up.
    DeadZone,
    /// No zone at all.
    Empty,
}

impl Shape {
    /// All of them.
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

    /// Packages that the simulated machine needs.
    pub fn packages(self) -> u32 {
        match self {
            Self::Intel2 | Self::Dies | Self::Dram => 2,
            Self::Intel4 => 4,
            _ => 1,
        }
    }

    /// Its zones, parents first; none of [`Shape::Empty`].
    pub fn zones(self) -> Vec<ZoneSpec> {
        use Feed::{Core, Dram, Psys, Uncore};
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
        use Feed::{Core, Dead, Die, Dram, Package, Psys};
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
    zone(device, name, start, Feed::Package(id))
}

fn zone(device: &'static str, name: &'static str, start: u64, feed: Feed) -> ZoneSpec {
    let lsb = if matches!(feed, Feed::Dram(_)) { Lsb::DRAM } else { Lsb::INTEL };
    let counted = matches!(feed, Feed::Package(_) | Feed::Die(..) | Feed::Dram(_));
    ZoneSpec { device, name: Some(name), lsb, has_range: true, start, feed, counted }
}

fn amd(device: &'static str, name: &'static str, feed: Feed) -> ZoneSpec {
    ZoneSpec { lsb: Lsb::AMD, ..zone(device, name, 10_360_237_493, feed) }
}
