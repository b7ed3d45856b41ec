// SPDX-License-Identifier: MIT OR Apache-2.0
//! Turns counters into windows: reads all zones before and after the CPU ledger is settled. A zone reports its energy, an open window, or
//! why its energy is unknown; lost windows are never interpolated.

use std::sync::Arc;

use mpwatch_engine::energy::ledger::Ledger;
use mpwatch_model::host::energy::window::{
    Cpus, EnergyWindow, WindowEnergy, ZoneId, ZoneOutcome, ZoneWindow,
};
use mpwatch_model::host::energy::{EnergySource, LostReason};
use mpwatch_model::unit::Nanos;

use super::discovery::{Hardware, Note, discover};
use super::zone::Role;
use super::zone_reader::{WindowTimes, ZoneReader, ZoneReport, find_mirrors};
use crate::system::clock::ClockPair;

/// Maximum time between the first and the last reading of a window.
const MAX_SKEW: Nanos = Nanos(1_000_000);
/// Maximum number of attempts to read a window within [`MAX_SKEW`].
const MAX_ATTEMPTS: u32 = 3;
/// Minimum advance of the boot clock over the monotonic clock after a suspension, nanoseconds.
const MIN_SUSPENSION_NS: u64 = 10_000_000;
/// Number of windows between two searches for missing zones.
const RESCAN_WINDOWS: u64 = 5;

pub(crate) type Clock = Box<dyn FnMut() -> ClockPair + Send>;

/// Reads the machine's energy, window by window.
pub(crate) struct Sampler {
    hardware: Hardware,
    clock: Clock,
    source: EnergySource,
    zones: Vec<ZoneReader>,
    model: Arc<ZoneId>,
    /// Reasons why a more accurate source than `source` is not used.
    pub(crate) notes: Vec<Note>,
    last: Option<ClockPair>,
    /// Number of windows so far.
    windows: u64,
}

impl Sampler {
    /// Finds counters. Without any, the model is used.
    pub(crate) fn new(hardware: Hardware, clock: Clock) -> Self {
        // The model has index 0; zones, which may vanish and return, have the indices from 1 on.
        let (label, source) = ("model".to_owned(), EnergySource::Model);
        let model = ZoneId { index: 0, label, cpus: Cpus::All, source };
        let mut sampler = Self {
            hardware,
            clock,
            source: EnergySource::Model,
            zones: Vec::new(),
            model: Arc::new(model),
            notes: Vec::new(),
            last: None,
            windows: 0,
        };
        sampler.discover();
        sampler
    }

    /// How to get measured figures, in one line. `None`: the figures are measured, or there is no advice.
    pub(crate) fn advice(&self) -> Option<String> {
        let advice = |note: &Note| Some(format!("{}; {}", note.what, note.fix.as_ref()?));
        self.notes.iter().find_map(advice).filter(|_| !self.source.is_measured())
    }

    pub(crate) fn source(&self) -> EnergySource {
        if self.zones.iter().any(ZoneReader::is_live) { self.source } else { EnergySource::Model }
    }

    pub(crate) fn zones(&self) -> Vec<ZoneReport> {
        self.zones.iter().map(ZoneReader::report).collect()
    }

    /// Finds zones, and adds zones that are new or have returned.
    fn discover(&mut self) {
        let discovery = discover(&self.hardware);
        self.notes = discovery.notes;
        if discovery.source != EnergySource::Model {
            self.source = discovery.source;
        }
        let zones: Vec<_> = discovery.zones.iter().map(|(found, _)| found.zone.clone()).collect();
        for (found, role) in discovery.zones {
            let label = found.zone.label(&zones);
            if let Some(known) = self.zones.iter_mut().find(|known| known.is(&label, &found.zone)) {
                known.attach(found.read, role);
                continue;
            }
            let cpus = match role {
                Role::Counted(location) => discovery.topology.cpus(location),
                Role::DisplayOnly | Role::Excluded(_) => Cpus::All,
            };
            let id = ZoneId { index: self.zones.len() + 1, label, cpus, source: self.source };
            self.zones.push(ZoneReader::new(id, found, role));
        }
    }

    /// Closes a window. `settle` adds to the ledger the CPU time since its last call; it is called up to three times if readings are delayed.
    pub(crate) fn window(
        &mut self,
        window: &mut EnergyWindow,
        ledger: &mut Ledger,
        mut settle: impl FnMut(&mut Ledger),
    ) {
        ledger.clear();
        window.zones.clear();
        window.shown.clear();
        let mut attempts = MAX_ATTEMPTS;
        let (before, after) = loop {
            let before = (self.clock)();
            self.zones.iter_mut().for_each(ZoneReader::read_before);
            settle(ledger);
            self.zones.iter_mut().for_each(ZoneReader::read_after);
            let after = (self.clock)();
            attempts -= 1;
            if attempts == 0 || after.monotonic.since(before.monotonic) <= MAX_SKEW {
                break (before, after);
            }
        };
        window.skew = after.monotonic.since(before.monotonic);
        let now = ClockPair {
            monotonic: before.monotonic + Nanos(window.skew.0 / 2),
            boot: before.boot + Nanos(after.boot.since(before.boot).0 / 2),
        };
        let elapsed = self.last.map(|last| now.monotonic.since(last.monotonic));
        let was_suspended = self.last.is_some_and(|last| now.suspended_since(last).0 > MIN_SUSPENSION_NS);
        self.last = Some(now);
        window.elapsed = elapsed.unwrap_or_default();
        self.step(window, ledger, was_suspended);
        self.rescan(window);
    }

    fn step(&mut self, window: &mut EnergyWindow, ledger: &Ledger, was_suspended: bool) {
        let busy = ledger.busy();
        let available = u64::from(self.hardware.cpus).saturating_mul(window.elapsed.0).max(1);
        let times = WindowTimes {
            elapsed: window.elapsed,
            skew: window.skew,
            was_suspended,
            busy: busy as f64 / available as f64,
        };
        for zone in &mut self.zones {
            let Some(outcome) = zone.step(&times) else { continue };
            match (zone.role, &outcome) {
                (Role::Counted(_), _) => {
                    let id = Arc::clone(&zone.id);
                    window.zones.push(ZoneWindow { zone: id, epoch: zone.epoch, outcome });
                }
                (Role::DisplayOnly, ZoneOutcome::Energy(spent)) => {
                    window.shown.push((Arc::clone(&zone.id), spent.energy));
                }
                (Role::DisplayOnly | Role::Excluded(_), _) => {}
            }
        }
        find_mirrors(&mut self.zones, &mut self.notes);
        let is_mirror = |id: &Arc<ZoneId>| self.zones.iter().any(|zone| zone.is_mirror() && zone.id == *id);
        window.zones.retain(|window| !is_mirror(&window.zone));
        window.source = self.source();
        window.advice = self.advice();
        if window.source == EnergySource::Model && window.elapsed.0 > 0 {
            window.zones.push(self.modelled(window.elapsed, busy));
        }
    }

    fn modelled(&self, elapsed: Nanos, busy: u64) -> ZoneWindow {
        let (model, cpus) = (&self.hardware.model, self.hardware.cpus);
        let energy = model.energy(cpus, busy, elapsed);
        let spent = WindowEnergy { energy, elapsed, edge: 0.0, estimate: Some(model.estimate(cpus)) };
        ZoneWindow { zone: Arc::clone(&self.model), epoch: 0, outcome: ZoneOutcome::Energy(spent) }
    }

    /// Searches for missing zones when one has just vanished, and every [`RESCAN_WINDOWS`] windows.
    fn rescan(&mut self, window: &EnergyWindow) {
        let vanished = |zone: &ZoneWindow| {
            matches!(zone.outcome, ZoneOutcome::Lost { reason: LostReason::Vanished, .. })
        };
        let is_missing = self.zones.iter().any(ZoneReader::is_missing) || self.zones.is_empty();
        let has_vanished = window.zones.iter().any(vanished);
        self.windows += 1;
        if is_missing && (has_vanished || self.windows.is_multiple_of(RESCAN_WINDOWS)) {
            self.discover();
        }
    }
}
