// SPDX-License-Identifier: MIT OR Apache-2.0
//! The energy that an account was charged with.

use mpwatch_model::host::energy::{Convention, EnergySource, FlowEnergy, IdleSource};
use mpwatch_model::unit::{Microjoules, Nanos, sum_if_all_known};

/// Energy of a flow over all zones, and its quality.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Charge {
    /// Energy above idle. `None`: the idle power is unknown.
    pub active: Option<Microjoules>,
    /// Lower bound of the energy above idle.
    pub lo: Microjoules,
    /// Upper bound of the energy above idle.
    pub hi: Microjoules,
    /// Energy above idle and a share of the idle energy.
    pub full: Microjoules,
    /// The least reliable source of the energy.
    pub source: EnergySource,
    /// The least reliable idle power that was subtracted.
    pub idle: IdleSource,
}

impl Charge {
    /// As reported, with the CPU time of the flow.
    pub fn energy(&self, cpu: Nanos) -> FlowEnergy {
        FlowEnergy {
            active: self.active,
            lo: Some(self.lo),
            hi: Some(self.hi),
            full: Some(self.full),
            j_per_gb: None,
            cpu,
            source: self.source,
            convention: Convention::CpuTime,
            idle: self.idle,
        }
    }

    /// The charges of two zones together.
    pub(super) fn plus(self, other: Self) -> Self {
        Self {
            active: sum_if_all_known([self.active, other.active]),
            lo: self.lo + other.lo,
            hi: self.hi + other.hi,
            full: self.full + other.full,
            source: self.source.max(other.source),
            idle: self.idle.max(other.idle),
        }
    }
}
