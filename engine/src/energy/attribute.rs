// SPDX-License-Identifier: MIT OR Apache-2.0
//! Energy of zones and CPU time of accounts, divided: who is charged with which microjoule. Pure: a function of windows and
//! ledgers, so a replay charges as the live run did.
//!
//! In each window of each zone, what is above idle is divided by exclusive CPU time. The sum of all columns is the energy of
//! the zone, as integers, in every window: this is checked, and a window in which it failed is charged to nobody.

use std::collections::VecDeque;

use mpwatch_model::energy::power::MachinePower;
use mpwatch_model::energy::{
    Convention, EnergySource, FlowEnergy, IdleSource, LostReason, LostWindow, OverlappingZone, SnapshotEnergy,
};
use mpwatch_model::id::SubflowId;
use mpwatch_model::unit::{Microjoules, Nanos};

use super::calibration::Calibration;
use super::ledger::{Account, Ledger};
use super::share::ZoneSplit;
use mpwatch_model::energy::window::{EnergyWindow, ZoneOutcome};

/// Lost windows that are listed; older ones are only counted.
const LISTED: usize = 32;

/// Joules of a flow over all zones, and where they come from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Charge {
    /// Above idle.
    pub active: Microjoules,
    /// Lower end.
    pub lo: Microjoules,
    /// Upper end.
    pub hi: Microjoules,
    /// With a share of the idle energy.
    pub full: Microjoules,
    /// The weakest of the sources that it was charged by.
    pub source: EnergySource,
    /// The weakest idle baseline that was taken off.
    pub idle: IdleSource,
}

impl Charge {
    /// As outputs show it.
    pub fn energy(&self, cpu: Nanos) -> FlowEnergy {
        FlowEnergy {
            active: Some(self.active),
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
}

/// Divides windows and remembers.
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
    /// For a machine.
    pub fn of(machine: &MachinePower) -> Self {
        Self::new(machine.cpus, Calibration::of(&machine.calibrated))
    }

    /// For a machine with this many CPUs; `calibration` is empty where nothing matches.
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
            ledger.on(&zone.zone.cpus, |account, time| split.work(account, time));
            match &zone.outcome {
                ZoneOutcome::Energy(spent) => self.broken += u64::from(split.close(self.now, spent).is_err()),
                ZoneOutcome::Pending => {}
                ZoneOutcome::Lost { reason, elapsed } => {
                    split.lose(*elapsed);
                    note_lost(&mut self.lost, &zone.zone.label, *reason, *elapsed);
                }
            }
        }
    }

    /// What a subflow was charged with so far. `None`: not known; no window in which it did something has closed with energy.
    pub fn flow(&self, id: SubflowId) -> Option<Charge> {
        let zones = self.zones.iter().flatten();
        zones.filter_map(|zone| zone.charge(Account::Flow(id))).reduce(|sum, part| Charge {
            active: sum.active + part.active,
            lo: sum.lo + part.lo,
            hi: sum.hi + part.hi,
            full: sum.full + part.full,
            source: sum.source.max(part.source),
            idle: sum.idle.max(part.idle),
        })
    }

    /// Whether all CPU time of a subflow is charged: not so while a zone's window is still open.
    pub fn is_settled(&self, id: SubflowId) -> bool {
        self.zones.iter().flatten().all(|zone| zone.is_settled(Account::Flow(id)))
    }

    /// Forgets a closed subflow; the totals of the zones keep what it was charged with.
    pub fn forget(&mut self, id: SubflowId) {
        self.zones.iter_mut().flatten().for_each(|zone| zone.forget(Account::Flow(id)));
    }

    /// Windows whose sums did not come out even and were charged to nobody. Anything but zero is a bug of mpwatch.
    pub fn broken(&self) -> u64 {
        self.broken
    }

    /// Everything since tracing began.
    pub fn snapshot(&self) -> SnapshotEnergy {
        let zones = self.zones.iter().flatten().filter(|zone| zone.is_known);
        SnapshotEnergy {
            source: self.source,
            convention: Convention::CpuTime,
            idle: zones.clone().map(ZoneSplit::idle).max().unwrap_or_default(),
            zones: zones.map(|zone| zone.totals.clone()).collect(),
            shown: self.shown.clone(),
            lost: self.lost.iter().cloned().collect(),
            advice: self.advice.clone(),
        }
    }
}

fn note_lost(lost: &mut VecDeque<LostWindow>, zone: &str, reason: LostReason, duration: Nanos) {
    // What goes on is one window.
    let latest = lost.iter_mut().rev().find(|window| window.zone == zone);
    let goes_on = reason == LostReason::Vanished;
    if let Some(window) = latest.filter(|window| goes_on && window.reason == reason) {
        window.duration += duration;
        return;
    }
    if lost.len() == LISTED {
        lost.pop_front();
    }
    lost.push_back(LostWindow { zone: zone.to_string(), duration, reason });
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use mpwatch_model::energy::window::{Cpus, WindowEnergy, ZoneId, ZoneWindow};

    use super::*;

    /// A hypervisor's dead counter stands still for ever: its zone has no figures, and no 0 J.
    #[test]
    fn a_zone_of_which_no_window_is_known_is_not_shown() {
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
