// SPDX-License-Identifier: MIT OR Apache-2.0
//! Attributes the energy of zones to accounts in proportion to exclusive CPU time. It uses only windows and ledgers, so a replay charges
//! the same energy as the live run. If the parts of a window do not sum to its energy, no account is charged.

use std::collections::VecDeque;

use mpwatch_model::host::energy::window::{EnergyWindow, ZoneOutcome};
use mpwatch_model::host::energy::{
    Convention, EnergySource, FlowEnergy, LostReason, LostWindow, OverlappingZone, SnapshotEnergy,
};
use mpwatch_model::id::SubflowId;
use mpwatch_model::unit::Nanos;

use super::calibration::Calibration;
use super::ledger::{Account, Ledger};
use super::zone::ZoneSplit;

/// Maximum number of lost windows that are listed; older lost windows are removed from the list.
const MAX_LISTED: usize = 32;

/// Divides the energy of windows and keeps the sums.
#[derive(Default)]
pub struct Split {
    cpus: u32,
    calibration: Calibration,
    zones: Vec<Option<ZoneSplit>>,
    shown: Vec<OverlappingZone>,
    lost: VecDeque<LostWindow>,
    now: Nanos,
    source: EnergySource,
    advice: Option<String>,
    broken: u64,
}

impl Split {
    /// Creates a split for a machine with this many CPUs. `calibration` is empty if none matches the machine.
    pub fn new(cpus: u32, calibration: Calibration) -> Self {
        Self { cpus, calibration, ..Self::default() }
    }

    /// Charges one window.
    pub fn charge(&mut self, window: &EnergyWindow, ledger: &Ledger) {
        self.now += window.elapsed;
        self.source = window.source;
        self.advice.clone_from(&window.advice);
        for (zone, energy) in &window.shown {
            match self.shown.iter_mut().find(|shown| shown.zone == zone.label) {
                Some(shown) => shown.zone_uj += *energy,
                None => self.shown.push(OverlappingZone { zone: zone.label.clone(), zone_uj: *energy }),
            }
        }
        for zone in &window.zones {
            let index = zone.zone.index;
            if self.zones.len() <= index {
                self.zones.resize_with(index + 1, || None);
            }
            let split = self.zones[index].get_or_insert_with(|| {
                ZoneSplit::new(&zone.zone, self.cpus, self.calibration.zone(&zone.zone.label))
            });
            split.totals.epoch = zone.epoch;
            ledger.on(&zone.zone.cpus, |account, time| split.accounts.add_time(account, time));
            match &zone.outcome {
                ZoneOutcome::Energy(spent) => self.broken += u64::from(!split.close(self.now, spent)),
                ZoneOutcome::Pending => {}
                ZoneOutcome::Lost { reason, elapsed } => {
                    split.lose(*elapsed);
                    note_lost(&mut self.lost, &zone.zone.label, *reason, *elapsed);
                }
            }
        }
    }

    /// Energy charged to a subflow so far; `cpu` is not set. `None`: no window with CPU time of the subflow was closed with known energy.
    pub fn flow(&self, id: SubflowId) -> Option<FlowEnergy> {
        let zones = self.zones.iter().flatten();
        zones
            .filter_map(|zone| zone.charge(Account::Flow(id)))
            .reduce(|sum, zone| FlowEnergy::sum([&sum, &zone]))
    }

    /// Whether all CPU time of a subflow is charged. While the window of a zone is pending, the latest CPU time is not.
    pub fn is_settled(&self, id: SubflowId) -> bool {
        let mut accounts =
            self.zones.iter().flatten().filter_map(|zone| zone.accounts.get(Account::Flow(id)));
        accounts.all(|account| account.time == 0)
    }

    /// Number of zones whose idle power is known.
    pub fn zones_with_idle_power(&self) -> usize {
        self.zones.iter().flatten().filter(|zone| zone.is_idle_known).count()
    }

    /// Removes a closed subflow. The totals of the zones keep its energy.
    pub fn forget(&mut self, id: SubflowId) {
        self.zones.iter_mut().flatten().for_each(|zone| zone.accounts.remove(Account::Flow(id)));
    }

    /// Number of windows that were not charged, because the parts did not sum to the zone's energy. Such a window is a bug in mpwatch.
    pub fn broken(&self) -> u64 {
        self.broken
    }

    /// Totals since tracing began.
    pub fn snapshot(&self) -> SnapshotEnergy {
        let zones = self.zones.iter().flatten().filter(|zone| zone.is_known);
        SnapshotEnergy {
            source: self.source,
            convention: Convention::CpuTime,
            idle: zones.clone().map(ZoneSplit::idle_source).max().unwrap_or_default(),
            zones: zones.map(|zone| zone.totals.clone()).collect(),
            shown: self.shown.clone(),
            lost: self.lost.iter().cloned().collect(),
            advice: self.advice.clone(),
        }
    }
}

fn note_lost(lost: &mut VecDeque<LostWindow>, zone: &str, reason: LostReason, duration: Nanos) {
    // Consecutive windows of a vanished zone are listed as one lost window.
    let latest = lost.iter_mut().rev().find(|window| window.zone == zone);
    let continues = reason == LostReason::Vanished;
    if let Some(window) = latest.filter(|window| continues && window.reason == reason) {
        window.duration += duration;
        return;
    }
    if lost.len() == MAX_LISTED {
        lost.pop_front();
    }
    lost.push_back(LostWindow { zone: zone.to_string(), duration, reason });
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use mpwatch_model::host::energy::window::{Cpus, WindowEnergy, ZoneId, ZoneWindow};
    use mpwatch_model::unit::Microjoules;

    use super::*;

    /// A counter that a hypervisor provides may never advance. The energy of its zone is then unknown, not 0 J.
    #[test]
    fn a_zone_without_any_known_window_is_not_reported() {
        let mut split = Split::new(1, Calibration::default());
        let zone = ZoneId {
            index: 0,
            label: "package-0".to_owned(),
            cpus: Cpus::All,
            source: EnergySource::RaplPowercap,
        };
        let zone = Arc::new(zone);
        let mut close = |outcome| {
            let zones = vec![ZoneWindow { zone: Arc::clone(&zone), epoch: 0, outcome }];
            split.charge(
                &EnergyWindow { elapsed: Nanos(1), zones, ..EnergyWindow::default() },
                &Ledger::default(),
            );
            split.snapshot()
        };
        assert!(close(ZoneOutcome::Pending).zones.is_empty());
        let lost = close(ZoneOutcome::Lost { reason: LostReason::Stuck, elapsed: Nanos(2) });
        assert!(lost.zones.is_empty() && lost.lost[0].reason == LostReason::Stuck);
        let spent = WindowEnergy { energy: Microjoules(7), elapsed: Nanos(3), edge: 0.0, estimate: None };
        assert_eq!(close(ZoneOutcome::Energy(spent)).zones[0].zone_uj, Microjoules(7));
    }
}
