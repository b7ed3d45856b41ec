// SPDX-License-Identifier: MIT OR Apache-2.0
//! Estimates energy without counters, from busy time and the typical power of servers with this CPU model, measured at the wall socket.
//! The error is 50 % at best, so all outputs mark the energy as an estimate. Watts per virtual CPU, idle and at full load, are SPECpower
//! results as listed by Cloud Carbon Footprint and GreenKube. Even the best linear fit to real recordings has a mean error of 9 to 46 %.

use mpwatch_model::host::energy::window::Estimate;
use mpwatch_model::host::setup::cpuinfo_field;
use mpwatch_model::unit::{Microjoules, Nanos};

/// Idle and full power of one CPU in microwatts, and bounds of its error as factors.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct CpuPower {
    idle: u64,
    full: u64,
    low: f64,
    high: f64,
}

/// Power of a CPU that is not in the table: the medians of the table.
const UNKNOWN: CpuPower = CpuPower { idle: 640_000, full: 3_670_000, low: 0.25, high: 2.5 };

/// Idle and full power in microwatts by vendor, family, model and stepping. `None`: not in the table.
fn table(vendor: &str, family: u32, model: u32, stepping: u32) -> Option<(u64, u64)> {
    Some(match (vendor, family, model, stepping) {
        ("GenuineIntel", 6, 0x3f, _) => (1_900_000, 5_990_000), // Haswell
        ("GenuineIntel", 6, 0x4f | 0x56, _) => (710_000, 3_540_000), // Broadwell
        ("GenuineIntel", 6, 0x55, 0..=4) => (640_000, 4_050_000), // Skylake
        ("GenuineIntel", 6, 0x55, 5..=7) => (640_000, 3_800_000), // Cascade Lake
        ("AuthenticAMD", 0x17, 0x31, _) => (470_000, 1_640_000), // EPYC Rome
        ("AuthenticAMD", 0x19, 0x01, _) => (450_000, 1_870_000), // EPYC Milan
        _ => return None,
    })
}

impl CpuPower {
    /// The power of the first CPU in the text of `/proc/cpuinfo`.
    pub(crate) fn from_cpuinfo(cpuinfo: &str) -> Self {
        Self::known(cpuinfo).unwrap_or(UNKNOWN)
    }

    fn known(cpuinfo: &str) -> Option<Self> {
        let number = |name: &str| cpuinfo_field(cpuinfo, name)?.parse().ok();
        let vendor = cpuinfo_field(cpuinfo, "vendor_id")?;
        let (idle, full) = table(vendor, number("cpu family")?, number("model")?, number("stepping")?)?;
        Some(Self { idle, full, low: 0.5, high: 1.5 })
    }

    /// Energy of `cpus` CPUs whose busy times add up to `busy` nanoseconds.
    pub(crate) fn energy(&self, cpus: u32, busy: u64, elapsed: Nanos) -> Microjoules {
        let idle = u128::from(self.idle) * u128::from(cpus) * u128::from(elapsed.0);
        let active = u128::from(self.full - self.idle) * u128::from(busy);
        Microjoules(u64::try_from((idle + active) / 1_000_000_000).unwrap_or(u64::MAX))
    }

    /// Idle power and error bounds of `cpus` CPUs.
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
    fn cpus_are_identified_by_family_model_and_stepping() {
        for (info, full) in [
            (cpuinfo("GenuineIntel", 6, 0x55, 4), 4_050_000),
            (cpuinfo("GenuineIntel", 6, 0x55, 7), 3_800_000),
            (cpuinfo("AuthenticAMD", 0x17, 0x31, 0), 1_640_000),
            (cpuinfo("AuthenticAMD", 6, 0x55, 4), UNKNOWN.full),
            (String::new(), UNKNOWN.full),
        ] {
            assert_eq!(CpuPower::from_cpuinfo(&info).full, full);
        }
    }

    #[test]
    fn energy_is_linear_between_idle_and_full_load() {
        let rome = CpuPower::from_cpuinfo(&cpuinfo("AuthenticAMD", 0x17, 0x31, 0));
        let second = Nanos(1_000_000_000);
        assert_eq!(rome.energy(2, 0, second), Microjoules(940_000));
        assert_eq!(rome.energy(2, 2_000_000_000, second), Microjoules(3_280_000));
        assert_eq!(rome.estimate(2).idle, 940_000);
    }

    #[test]
    fn the_error_bounds_are_at_least_fifty_percent() {
        for power in [UNKNOWN, CpuPower::from_cpuinfo(&cpuinfo("AuthenticAMD", 0x17, 0x31, 0))] {
            assert!(power.low <= 0.5 && power.high >= 1.5);
        }
    }
}
