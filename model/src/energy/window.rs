// SPDX-License-Identifier: MIT OR Apache-2.0
//! The energy of each zone between two ticks, or why it is unknown. Recorded, so that a replay charges the same energy as the live run.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::source::{EnergySource, LostReason};
use crate::unit::{Microjoules, Nanos};

/// The CPUs of a zone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cpus {
    /// All CPUs of the machine.
    All,
    /// These CPUs, ascending.
    These(Vec<u32>),
}

impl Cpus {
    /// Whether it includes this CPU.
    pub fn contains(&self, cpu: u32) -> bool {
        match self {
            Self::All => true,
            Self::These(cpus) => cpus.binary_search(&cpu).is_ok(),
        }
    }

    /// Number of CPUs, on a machine with `machine` CPUs.
    pub fn count(&self, machine: u32) -> u32 {
        match self {
            Self::All => machine,
            Self::These(cpus) => u32::try_from(cpus.len()).unwrap_or(u32::MAX),
        }
    }
}

/// Identity of a zone for the life of the agent, also when it disappears and comes back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ZoneId {
    /// Index among the sampler's zones; never reused.
    pub index: usize,
    /// `package-0`, `package-0/dram`; `model`.
    pub label: String,
    /// CPUs whose energy it includes.
    pub cpus: Cpus,
    /// Where its energy comes from.
    pub source: EnergySource,
}

/// Result of one window of a zone.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ZoneOutcome {
    /// The window is complete.
    Energy(WindowEnergy),
    /// The counter has not advanced; the window stays open and includes the next tick.
    Pending,
    /// The energy of the window is unknown.
    Lost {
        /// Why.
        reason: LostReason,
        /// Length of the window.
        elapsed: Nanos,
    },
}

/// Energy of a window and its uncertainty.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct WindowEnergy {
    /// Energy.
    pub energy: Microjoules,
    /// Length of the window; more than one tick if ticks before it were pending.
    pub elapsed: Nanos,
    /// Fraction of the energy that may belong to the neighbouring windows: counter step and reading time relative to the length.
    pub edge: f64,
    /// Set if the energy is an estimate of a model.
    pub estimate: Option<Estimate>,
}

/// Idle power and error bounds of a power model.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// Idle power, microwatts.
    pub idle: u64,
    /// Lower bound of the true energy, as a factor of the estimate.
    pub low: f64,
    /// Upper bound, as a factor of the estimate.
    pub high: f64,
}

/// One zone in one window.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ZoneWindow {
    /// The zone.
    pub zone: Arc<ZoneId>,
    /// How often it has disappeared and come back.
    pub epoch: u32,
    /// Its energy, or why it is unknown.
    pub outcome: ZoneOutcome,
}

/// All zones between two ticks. Callers keep it and pass it again, so that its buffers are reused.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct EnergyWindow {
    /// Where the energy comes from. `Absent`: none is available.
    pub source: EnergySource,
    /// Time since the previous window; zero in the first.
    pub elapsed: Nanos,
    /// Time taken to read all counters and the CPU ledger.
    pub skew: Nanos,
    /// Zones that do not overlap.
    pub zones: Vec<ZoneWindow>,
    /// Zones that overlap with those, and their energy since the previous window.
    pub shown: Vec<(Arc<ZoneId>, Microjoules)>,
    /// One line on how to get better numbers. `None`: the energy is measured.
    pub advice: Option<String>,
}
