// SPDX-License-Identifier: MIT OR Apache-2.0
//! An energy counter as in powercap. The hardware counts with 32 bits in a unit that is not a whole number of microjoules. powercap
//! truncates both the unit and the value.

use super::machine::Picojoules;

/// Energy of one count in nanojoules, truncated as in powercap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EnergyUnit(pub u64);

impl EnergyUnit {
    /// Intel packages: 2^-14 J.
    pub const INTEL: Self = Self(61_035);
    /// AMD: 2^-16 J.
    pub const AMD: Self = Self(15_258);
    /// DRAM of Haswell and Skylake servers: 15.3 uJ, a constant in the kernel.
    pub const DRAM: Self = Self(15_300);

    /// `max_energy_range_uj` as the kernel computes it.
    pub fn max_range(self) -> u64 {
        u64::from(u32::MAX) * self.0 / 1000
    }
}

/// One energy counter.
#[derive(Clone, Debug)]
pub struct EnergyCounter {
    unit: EnergyUnit,
    /// Value of the hardware counter at the start, in counts.
    start: u32,
    energy: Picojoules,
}

impl EnergyCounter {
    /// A counter whose first value is about `start` microjoules.
    pub fn starting_at(unit: EnergyUnit, start: u64) -> Self {
        let counts = u128::from(start) * 1000 / u128::from(unit.0);
        Self { unit, start: (counts % (1 << 32)) as u32, energy: 0 }
    }

    /// Adds energy.
    pub fn add(&mut self, energy: Picojoules) {
        self.energy += energy;
    }

    /// The content of the file `energy_uj`, in microjoules.
    pub fn energy_uj(&self) -> u64 {
        let counts = self.energy / (u128::from(self.unit.0) * 1000) + u128::from(self.start);
        u64::from(counts as u32) * self.unit.0 / 1000
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_as_on_real_machines() {
        assert_eq!(EnergyUnit::INTEL.max_range(), 262_143_328_850);
        assert_eq!(EnergyUnit::AMD.max_range(), 65_532_610_987);
        assert_eq!(EnergyUnit::DRAM.max_range(), 65_712_999_613);
    }

    #[test]
    fn a_counter_wraps_one_count_beyond_its_range() {
        let mut counter = EnergyCounter::starting_at(EnergyUnit::INTEL, EnergyUnit::INTEL.max_range());
        let before = counter.energy_uj();
        counter.add(2 * 61_035_000);
        assert!(before > 262_143_000_000 && counter.energy_uj() <= 61, "{before} {}", counter.energy_uj());
    }
}
