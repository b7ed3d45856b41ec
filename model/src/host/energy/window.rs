// SPDX-License-Identifier: MIT OR Apache-2.0
//! The energy of each zone between two ticks, or why it is unknown. It is recorded, so that a replay charges the same energy as the live run.

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
    /// Whether the zone includes this CPU.
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

/// Identity of a zone for the life of the agent. A zone that disappears and comes back keeps it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ZoneId {
    /// Index among the sampler's zones; never reused.
    pub index: usize,
    /// Name of the zone, such as `package-0`, `package-0/dram` or `model`.
    pub label: String,
    /// CPUs whose energy the zone includes.
    pub cpus: Cpus,
    /// Source of the energy.
    pub source: EnergySource,
}

/// Result of one window of a zone.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ZoneOutcome {
    /// The window is complete.
    Energy(WindowEnergy),
    /// The counter has not advanced. The window stays open until the next tick.
    Pending,
    /// The energy of the window is unknown.
    Lost {
        /// Why the energy is unknown.
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
    /// Length of the window. It is longer than one interval if the outcome was pending at earlier ticks.
    pub elapsed: Nanos,
    /// Fraction of the energy that may belong to neighbouring windows: counter step and reading time, relative to the length of the window.
    pub edge: f64,
    /// Error bounds if the energy is an estimate of a model. `None`: the energy was measured.
    pub estimate: Option<Estimate>,
}

/// Idle power and error bounds of a power model.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// Idle power, microwatts.
    pub idle: u64,
    /// Lower bound of the true energy, as a factor of the estimate.
    pub low: f64,
    /// Upper bound of the true energy, as a factor of the estimate.
    pub high: f64,
}

/// One zone in one window.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ZoneWindow {
    /// The zone.
    pub zone: Arc<ZoneId>,
    /// How often the zone has disappeared and come back.
    pub epoch: u32,
    /// The energy of the zone, or why it is unknown.
    pub outcome: ZoneOutcome,
}

/// All zones between two ticks. The same value is filled at every tick, so that its buffers are reused.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct EnergyWindow {
    /// Source of the energy. `Absent`: no energy figures are available.
    pub source: EnergySource,
    /// Time since the previous window. Zero in the first window.
    pub elapsed: Nanos,
    /// Time taken to read all counters and the CPU ledger.
    pub skew: Nanos,
    /// Zones that do not overlap.
    pub zones: Vec<ZoneWindow>,
    /// Zones that overlap with `zones`, and their energy since the previous window.
    pub shown: Vec<(Arc<ZoneId>, Microjoules)>,
    /// One line on how to get better numbers. `None`: the energy is measured.
    pub advice: Option<String>,
}

impl EnergyWindow {
    /// Whether the energy of any zone is known.
    pub fn has_energy(&self) -> bool {
        self.zones.iter().any(|zone| matches!(zone.outcome, ZoneOutcome::Energy(_)))
    }

    /// Appends the next window, so that both are charged together. Both must have the same zones, and each zone must be pending in the first
    /// window or have energy in both windows. Otherwise returns `false` and changes nothing.
    pub fn join(&mut self, next: &Self) -> bool {
        let joined = self.zones.iter().zip(&next.zones).map(|(zone, next)| zone.joined(next));
        let zones: Option<Vec<ZoneWindow>> = joined.collect();
        let Some(zones) = zones.filter(|_| self.zones.len() == next.zones.len()) else { return false };
        self.zones = zones;
        self.source = next.source;
        self.elapsed += next.elapsed;
        self.skew = self.skew.max(next.skew);
        self.shown.extend_from_slice(&next.shown);
        self.advice.clone_from(&next.advice);
        true
    }
}

impl ZoneWindow {
    fn joined(&self, next: &Self) -> Option<Self> {
        let outcome = match (&self.outcome, &next.outcome) {
            (ZoneOutcome::Pending, next) => *next,
            (ZoneOutcome::Energy(first), ZoneOutcome::Energy(second)) => {
                ZoneOutcome::Energy(first.joined(second)?)
            }
            _ => return None,
        };
        (self.zone == next.zone && self.epoch == next.epoch).then(|| Self { outcome, ..next.clone() })
    }
}

impl WindowEnergy {
    fn joined(&self, next: &Self) -> Option<Self> {
        let energy = self.energy + next.energy;
        let edges = self.edge * self.energy.0 as f64 + next.edge * next.energy.0 as f64;
        (self.estimate == next.estimate).then_some(Self {
            energy,
            elapsed: self.elapsed + next.elapsed,
            edge: if energy.0 > 0 { edges / energy.0 as f64 } else { 0.0 },
            estimate: next.estimate,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(outcomes: &[ZoneOutcome]) -> EnergyWindow {
        let zone = |(index, outcome): (usize, &ZoneOutcome)| {
            let source = EnergySource::RaplPerf;
            let zone = Arc::new(ZoneId { index, label: index.to_string(), cpus: Cpus::All, source });
            ZoneWindow { zone, epoch: 0, outcome: *outcome }
        };
        let zones = outcomes.iter().enumerate().map(zone).collect();
        EnergyWindow { elapsed: Nanos(5), zones, ..EnergyWindow::default() }
    }

    #[test]
    fn windows_are_joined_if_the_energy_of_all_zones_is_known() {
        let energy = |energy, edge| {
            let energy = Microjoules(energy);
            ZoneOutcome::Energy(WindowEnergy { energy, elapsed: Nanos(5), edge, estimate: None })
        };
        let mut joined = window(&[energy(10, 0.2), ZoneOutcome::Pending]);
        assert!(joined.join(&window(&[energy(30, 0.4), energy(7, 0.0)])));
        assert_eq!(joined.elapsed, Nanos(10));
        let ZoneOutcome::Energy(first) = joined.zones[0].outcome else { panic!("{joined:?}") };
        assert_eq!((first.energy, first.elapsed), (Microjoules(40), Nanos(10)));
        assert!((first.edge - 0.35).abs() < 1e-9);
        assert_eq!(joined.zones[1].outcome, energy(7, 0.0));
        let lost = ZoneOutcome::Lost { reason: LostReason::Stuck, elapsed: Nanos(5) };
        for next in [&[energy(1, 0.0), ZoneOutcome::Pending][..], &[lost, energy(1, 0.0)], &[energy(1, 0.0)]]
        {
            let before = joined.clone();
            assert!(!joined.join(&window(next)), "{next:?}");
            assert_eq!(joined, before);
        }
    }
}
