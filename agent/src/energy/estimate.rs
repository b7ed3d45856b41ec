// SPDX-License-Identifier: MIT OR Apache-2.0
//! Energy where nothing measures it: typical watts of such a CPU times its busy time. An estimate of the whole server at the
//! wall, good to half of itself at best, and labelled so everywhere. Pure.
//!
//! Watts per virtual CPU, idle and full, from SPECpower results as Cloud Carbon Footprint and GreenKube list them. The best
//! straight line through real recordings of load and power misses them by 9 to 46 % in the mean; hence the wide bounds.

use std::ops::RangeInclusive;

use mpwatch_model::unit::{Microjoules, Nanos};

use mpwatch_model::energy::window::Estimate;

/// Power of one CPU, microwatts, and how far off it may be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct CpuPower {
    /// What was recognised.
    pub(crate) name: &'static str,
    idle: u64,
    full: u64,
    low: f64,
    high: f64,
}

struct Row {
    name: &'static str,
    vendor: &'static str,
    family: u32,
    models: &'static [u32],
    steppings: RangeInclusive<u32>,
    idle: u64,
    full: u64,
}

const ANY: RangeInclusive<u32> = 0..=u32::MAX;
const TABLE: &[Row] = &[
    row("Haswell", INTEL, (6, &[0x3f], ANY), (1_900_000, 5_990_000)),
    row("Broadwell", INTEL, (6, &[0x4f, 0x56], ANY), (710_000, 3_540_000)),
    row("Skylake", INTEL, (6, &[0x55], 0..=4), (640_000, 4_050_000)),
    row("Cascade Lake", INTEL, (6, &[0x55], 5..=7), (640_000, 3_800_000)),
    row("EPYC Rome", AMD, (0x17, &[0x31], ANY), (470_000, 1_640_000)),
    row("EPYC Milan", AMD, (0x19, &[0x01], ANY), (450_000, 1_870_000)),
];
const INTEL: &str = "GenuineIntel";
const AMD: &str = "AuthenticAMD";
/// The median of the table for a CPU that is not in it.
const UNKNOWN: CpuPower =
    CpuPower { name: "a CPU that is not in its table", idle: 640_000, full: 3_670_000, low: 0.25, high: 2.5 };

const fn row(
    name: &'static str,
    vendor: &'static str,
    (family, models, steppings): (u32, &'static [u32], RangeInclusive<u32>),
    (idle, full): (u64, u64),
) -> Row {
    Row { name, vendor, family, models, steppings, idle, full }
}

impl CpuPower {
    /// By the first CPU in `/proc/cpuinfo`.
    pub(crate) fn of(cpuinfo: &str) -> Self {
        let field = |name: &str| {
            let mut lines = cpuinfo.lines().filter_map(|line| line.split_once(':'));
            lines.find(|(key, _)| key.trim() == name).map(|(_, value)| value.trim())
        };
        let number = |name: &str| field(name).and_then(|value| value.parse::<u32>().ok());
        let (vendor, family, model) = (field("vendor_id"), number("cpu family"), number("model"));
        let is_this = |row: &&Row| {
            Some(row.vendor) == vendor
                && Some(row.family) == family
                && model.is_some_and(|model| row.models.contains(&model))
                && number("stepping").is_some_and(|stepping| row.steppings.contains(&stepping))
        };
        TABLE.iter().find(is_this).map_or(UNKNOWN, |row| Self {
            name: row.name,
            idle: row.idle,
            full: row.full,
            low: 0.5,
            high: 1.5,
        })
    }

    /// Energy of `cpus` CPUs that were busy for `busy` nanoseconds together.
    pub(crate) fn energy(&self, cpus: u32, busy: u64, elapsed: Nanos) -> Microjoules {
        let idle = u128::from(self.idle) * u128::from(cpus) * u128::from(elapsed.0);
        let active = u128::from(self.full - self.idle) * u128::from(busy);
        Microjoules(u64::try_from((idle + active) / 1_000_000_000).unwrap_or(u64::MAX))
    }

    /// What it knows about itself.
    pub(crate) fn estimate(&self, cpus: u32) -> Estimate {
        Estimate { idle: self.idle * u64::from(cpus), low: self.low, high: self.high }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cpuinfo(vendor: &str, family: u32, model: u32, stepping: u32) -> String {
        format!(
            "processor\t: 0\nvendor_id\t: {vendor}\ncpu family\t: {family}\nmodel\t\t: {model}\n\
             model name\t: x\nstepping\t: {stepping}\n"
        )
    }

    #[test]
    fn cpus_are_known_by_their_numbers() {
        for (info, name) in [
            (cpuinfo(INTEL, 6, 0x55, 4), "Skylake"),
            (cpuinfo(INTEL, 6, 0x55, 7), "Cascade Lake"),
            (cpuinfo(AMD, 0x17, 0x31, 0), "EPYC Rome"),
            (cpuinfo(AMD, 6, 0x55, 4), UNKNOWN.name),
            (String::new(), UNKNOWN.name),
        ] {
            assert_eq!(CpuPower::of(&info).name, name);
        }
    }

    #[test]
    fn idle_and_full_are_the_ends_of_the_line() {
        let rome = CpuPower::of(&cpuinfo(AMD, 0x17, 0x31, 0));
        let second = Nanos(1_000_000_000);
        assert_eq!(rome.energy(2, 0, second), Microjoules(940_000));
        assert_eq!(rome.energy(2, 2_000_000_000, second), Microjoules(3_280_000));
        assert_eq!(rome.estimate(2).idle, 940_000);
    }

    #[test]
    fn the_error_is_never_said_to_be_below_half() {
        for power in [UNKNOWN, CpuPower::of(&cpuinfo(AMD, 0x17, 0x31, 0))] {
            assert!(power.low <= 0.5 && power.high >= 1.5);
        }
    }
}
