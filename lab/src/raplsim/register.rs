// SPDX-License-Identifier: MIT OR Apache-2.0
//! An energy counter as hardware has it and powercap shows it: 32 bits of a unit that is no round number of microjoules,
//! truncated twice.

use super::machine::Picojoules;

/// What one count is worth, in nanojoules: powercap keeps the unit so, truncated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lsb(pub u64);

impl Lsb {
    /// Intel packages: 2^-14 J.
    pub const INTEL: Self = Self(61_035);
    /// AMD: 2^-16 J.
    pub const AMD: Self = Self(15_258);
    /// DRAM of Haswell and Skylake servers: 15.3 uJ, fixed by the kernel.
    pub const DRAM: Self = Self(15_300);

    /// `max_energy_range_uj` as the kernel computes it.
    pub fn max_range(self) -> u64 {
        u64::from(u32::MAX) * self.0 / 1000
    }
}

/// One counter.
#[derive(Clone, Debug)]
pub struct Register {
    lsb: Lsb,
    /// Counts at the start.
    start: u32,
    energy: Picojoules,
}

impl Register {
    /// Shows about `start` microjoules now.
    pub fn starting_at(lsb: Lsb, start: u64) -> Self {
        let counts = u128::from(start) * 1000 / u128::from(lsb.0);
        Self { lsb, start: (counts % (1 << 32)) as u32, energy: 0 }
    }

    /// Adds energy.
    pub fn add(&mut self, energy: Picojoules) {
        self.energy += energy;
    }

    /// What `energy_uj` shows.
    pub fn shown(&self) -> u64 {
        let counts = self.energy / (u128::from(self.lsb.0) * 1000) + u128::from(self.start);
        u64::from(counts as u32) * self.lsb.0 / 1000
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_those_of_real_machines() {
        assert_eq!(Lsb::INTEL.max_range(), 262_143_328_850);
        assert_eq!(Lsb::AMD.max_range(), 65_532_610_987);
        assert_eq!(Lsb::DRAM.max_range(), 65_712_999_613);
    }

    #[test]
    fn it_wraps_one_count_beyond_its_range() {
        let mut register = Register::starting_at(Lsb::INTEL, Lsb::INTEL.max_range());
        let before = register.shown();
        register.add(2 * 61_035_000);
        assert!(before > 262_143_000_000 && register.shown() <= 61, "{before} {}", register.shown());
    }
}
