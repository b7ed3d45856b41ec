// SPDX-License-Identifier: MIT OR Apache-2.0
//! Computes the energy of a simulated machine from busy time. Uses only integers, so that tests can compare with `==`.

use super::curve::RecordedCurve;

/// 10^-12 J: one milliwatt for one nanosecond.
pub type Picojoules = u128;

/// How power depends on load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PowerModel {
    /// `idle + dynamic * load`. Only in this model is the energy of each consumer independent of the load of other consumers.
    Linear {
        /// Idle power, milliwatts.
        idle: u32,
        /// Additional power at full load, milliwatts.
        dynamic: u32,
    },
    /// A curve that was recorded on a real machine.
    Recorded(RecordedCurve),
}

impl PowerModel {
    /// Idle power, milliwatts.
    pub fn idle(&self) -> u32 {
        match self {
            Self::Linear { idle, .. } => *idle,
            Self::Recorded(curve) => curve.samples.first().map_or(0, |sample| sample.1),
        }
    }

    /// Energy of a package in `elapsed` nanoseconds. `busy` is the total busy time of its `cpus`, nanoseconds.
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

/// A simulated machine with equal packages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SimulatedMachine {
    /// Number of packages.
    pub packages: u32,
    /// Number of CPUs per package. The numbers of a package's CPUs are consecutive.
    pub cpus: u32,
    /// Power model of each package.
    pub power: PowerModel,
}

impl SimulatedMachine {
    /// Energy of one package; see [`PowerModel::energy`].
    pub fn energy(&self, busy: u64, elapsed: u64) -> Picojoules {
        self.power.energy(busy, self.cpus, elapsed)
    }

    /// Energy of a package's memory: an eighth of the package's energy.
    pub fn dram(package: Picojoules) -> Picojoules {
        package / 8
    }

    /// Energy of one of a package's two dies: 9/16 for die 0 and 7/16 for die 1, because real dies never have the same load.
    pub fn die(package: Picojoules, die: u32) -> Picojoules {
        let first = package * 9 / 16;
        if die == 0 { first } else { package - first }
    }

    /// True energy above idle of a consumer that was busy for `busy` nanoseconds. `None`: the power model is not linear.
    pub fn active(&self, busy: u64) -> Option<Picojoules> {
        match self.power {
            PowerModel::Linear { dynamic, .. } => {
                Some(u128::from(dynamic) * u128::from(busy) / u128::from(self.cpus))
            }
            PowerModel::Recorded(_) => None,
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
    fn in_a_linear_model_energy_above_idle_is_active_energy() {
        let power = PowerModel::Linear { idle: 40_000, dynamic: 60_000 };
        let machine = SimulatedMachine { packages: 1, cpus: 8, power };
        let idle = machine.energy(0, SECOND);
        assert_eq!(idle, 40_000 * u128::from(SECOND));
        assert_eq!(machine.energy(SECOND / 2, SECOND) - idle, machine.active(SECOND / 2).unwrap());
        assert_eq!(machine.active(SECOND / 2), Some(3_750 * u128::from(SECOND)));
    }
}
