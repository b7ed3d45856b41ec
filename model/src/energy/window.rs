// SPDX-License-Identifier: MIT OR Apache-2.0
//! The energy of each zone of the machine between two ticks, or why it is not known. Only data, and part of a recording: what is
//! made of it is a function of this, so that a replay charges as the live run did.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{EnergySource, LostReason};
use crate::unit::{Microjoules, Nanos};

/// CPUs of a zone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cpus {
    /// All of the machine.
    All,
    /// These, by rising number.
    These(Vec<u32>),
}

impl Cpus {
    /// Whether a CPU is one of them.
    pub fn contains(&self, cpu: u32) -> bool {
        match self {
            Self::All => true,
            Self::These(cpus) => cpus.binary_search(&cpu).is_ok(),
        }
    }

    /// How many, of a machine with this many.
    pub fn count(&self, machine: u32) -> u32 {
        match self {
            Self::All => machine,
            Self::These(cpus) => u32::try_from(cpus.len()).unwrap_or(u32::MAX),
        }
    }
}

/// A zone for the life of the agent, through vanishing and coming back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ZoneId {
    /// Place among the sampler's zones; never reused.
    pub index: usize,
    /// `package-0`, `package-0/dram`; `model`.
    pub label: String,
    /// CPUs whose work it pays for.
    pub cpus: Cpus,
    /// Where its numbers come from.
    pub source: EnergySource,
}

/// What happened to a zone in a window.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ZoneOutcome {
    /// It closed a window.
    Energy(WindowEnergy),
    /// The counter has not moved: the window stays open, and this time counts with the next.
    Pending,
    /// The energy of the window is not known.
    Lost {
        /// Why.
        reason: LostReason,
        /// How long the window was.
        elapsed: Nanos,
    },
}

/// Energy of a window, and how well it is known.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct WindowEnergy {
    /// Energy.
    pub energy: Microjoules,
    /// Length of the window: longer than the tick where ticks before it were pending.
    pub elapsed: Nanos,
    /// Part of the energy that may belong to the windows beside this one: steps of the counter and the time it takes to
    /// read it, over the length.
    pub edge: f64,
    /// Of an estimate: its own idle power, microwatts, and the factors between which the truth is expected.
    pub estimate: Option<Estimate>,
}

/// What a model knows about itself.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// Idle power, microwatts.
    pub idle: u64,
    /// The truth is expected above this many times the estimate.
    pub low: f64,
    /// And below this many times.
    pub high: f64,
}

/// A zone that counts, in one window.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ZoneWindow {
    /// Which zone.
    pub zone: Arc<ZoneId>,
    /// How often it has vanished and come back.
    pub epoch: u32,
    /// What happened.
    pub outcome: ZoneOutcome,
}

/// One window. Keep it and hand it in again: buffers are reused.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct EnergyWindow {
    /// Where the joules come from. `Absent`: there are none.
    pub source: EnergySource,
    /// Time since the window before. Zero in the first.
    pub elapsed: Nanos,
    /// How long it took to read all counters and settle the ledger.
    pub skew: Nanos,
    /// Zones that count.
    pub zones: Vec<ZoneWindow>,
    /// Zones that overlap with those, and their energy since the window before.
    pub shown: Vec<(Arc<ZoneId>, Microjoules)>,
    /// One line on how to get better numbers. `None`: they are measured.
    pub advice: Option<String>,
}
