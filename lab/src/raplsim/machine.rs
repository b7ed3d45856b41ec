// SPDX-License-Identifier: MIT OR Apache-2.0
//! From busy time to energy, exactly: what the simulated machine draws. Integers only, so that what is expected can be
//! computed apart and compared with `==`.

use super::curve::Curve;

/// 10^-12 J: a milliwatt for a nanosecond.
pub type Picojoules = u128;

/// How power follows load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Power {
    /// `idle + dynamic * load`: the law under which every joule has one true owner.
    Linear {
        /// At rest, milliwatts.
        idle: u32,
        /// What full load adds, milliwatts.
        dynamic: u32,
    },
    /// As recorded on a real machine.
    Recorded(Curve),
}

impl Power {
    /// At rest, milliwatts.
    pub fn idle(&self) -> u32 {
        match self {
            Self::Linear { idle, .. } => *idle,
            Self::Recorded(curve) => curve.points.first().map_or(0, |point| point.1),
        }
    }

    /// Energy of one package in `elapsed` nanoseconds of which its `cpus` were busy for `busy` nanoseconds together.
    pub fn energy(&self, busy: u64, cpus: u32, elapsed: u64) -> Picojoules {
        let available = u64::from(cpus.max(1)) * elapsed;
        if available == 0 {
            return 0;
        }
        let (numerator, denominator) = match self {
            Self::Linear { idle, dynamic } => {
                let all = i128::from(available);
                (i128::from(*idle) * all + i128::from(*dynamic) * i128::from(busy), all)
            }
            Self::Recorded(curve) => curve.power(busy, available),
        };
        u128::try_from(numerator * i128::from(elapsed) / denominator).unwrap_or(0)
    }
}

/// A simulated machine: packages that are alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Machine {
    /// Packages.
    pub packages: u32,
    /// CPUs of each; numbered package by package.
    pub cpus: u32,
    /// Law of each package.
    pub power: Power,
}

impl Machine {
    /// Energy of one package; see [`Power::energy`].
    pub fn energy(&self, busy: u64, elapsed: u64) -> Picojoules {
        self.power.energy(busy, self.cpus, elapsed)
    }

    /// Energy of the memory of a package that drew `package`: an eighth, so that it has a law of its own to follow.
    pub fn dram(package: Picojoules) -> Picojoules {
        package / 8
    }

    /// Energy of one of the two dies of a package that drew `package`: they are never loaded quite alike.
    pub fn die(package: Picojoules, die: u32) -> Picojoules {
        let first = package * 9 / 16;
        if die == 0 { first } else { package - first }
    }

    /// The true energy above idle of someone who was busy for `busy` nanoseconds. `None`: the law is not linear, so that
    /// there is no true owner of a joule.
    pub fn active(&self, busy: u64) -> Option<Picojoules> {
        match self.power {
            Power::Linear { dynamic, .. } => {
                Some(u128::from(dynamic) * u128::from(busy) / u128::from(self.cpus))
            }
            Power::Recorded(_) => None,
        }
    }

    /// Package of a CPU.
    pub fn package_of(&self, cpu: u32) -> u32 {
        (cpu / self.cpus.max(1)).min(self.packages.saturating_sub(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn a_linear_machine_gives_every_joule_an_owner() {
        let machine =
            Machine { packages: 1, cpus: 8, power: Power::Linear { idle: 40_000, dynamic: 60_000 } };
        let idle = machine.energy(0, SECOND);
        assert_eq!(idle, 40_000 * u128::from(SECOND));
        assert_eq!(machine.energy(SECOND / 2, SECOND) - idle, machine.active(SECOND / 2).unwrap());
        assert_eq!(machine.active(SECOND / 2), Some(3_750 * u128::from(SECOND)));
    }

    #[test]
    fn a_recorded_machine_follows_its_points() {
        for curve in super::super::RECORDED {
            let (load, power) = curve.points[3];
            let busy = u64::from(load) * u64::from(curve.cpus) * (SECOND / 1000);
            let energy = Power::Recorded(curve).energy(busy, curve.cpus, SECOND);
            assert_eq!(energy, u128::from(power) * u128::from(SECOND), "{}", curve.name);
        }
    }
}
