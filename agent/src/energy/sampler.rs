// SPDX-License-Identifier: MIT OR Apache-2.0
//! Turns counters into windows: reads all zones around the settling of the ledger, and tells of each what it spent, that its
//! window is still open, or why its energy is not known. Lost windows are told, never filled in.

use std::sync::Arc;

use mpwatch_engine::energy::ledger::Ledger;
use mpwatch_model::energy::window::{Cpus, EnergyWindow, WindowEnergy, ZoneId, ZoneOutcome, ZoneWindow};
use mpwatch_model::energy::{EnergySource, LostReason};
use mpwatch_model::unit::Nanos;

use super::slot::{Readout, Slot};
use super::source::{Hardware, Note, discover};
use super::zone::Role;

/// Longest time that reading and settling may take.
const MOST_SKEW: Nanos = Nanos(1_000_000);
/// How often a window is tried again to keep to that.
const TRIES: u32 = 3;
/// A boot clock that runs ahead of the monotonic clock by more than this: the machine slept.
const SLEPT: u64 = 10_000_000;
/// Windows between two looks for zones that are missing.
const RESCAN: u64 = 5;
/// Label of the zone of the model.
const MODEL: &str = "model";

/// The two clocks of the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Times {
    /// `CLOCK_MONOTONIC`: stands still while the machine sleeps.
    pub(crate) monotonic: Nanos,
    /// `CLOCK_BOOTTIME`: does not.
    pub(crate) boot: Nanos,
}

/// Reads both clocks.
pub(crate) type Clock = Box<dyn FnMut() -> Times + Send>;

/// What is known of a zone, for `doctor`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ZoneReport {
    /// Name.
    pub(crate) label: String,
    /// Device.
    pub(crate) device: String,
    /// Whether it is part of the total.
    pub(crate) counted: bool,
    /// Why not, or what is wrong with it.
    pub(crate) why: Option<String>,
}

/// Reads the machine's energy, window by window.
pub(crate) struct Sampler {
    hardware: Hardware,
    clock: Clock,
    source: EnergySource,
    slots: Vec<Slot>,
    model: Arc<ZoneId>,
    notes: Vec<Note>,
    last: Option<Times>,
    windows: u64,
}

impl Sampler {
    /// Looks for counters; without any, the model stands in.
    pub(crate) fn new(hardware: Hardware, clock: Clock) -> Self {
        // Zones come and go, the model's place is beyond them all.
        let model =
            ZoneId { index: 0, label: MODEL.to_owned(), cpus: Cpus::All, source: EnergySource::Model };
        let mut sampler = Self {
            hardware,
            clock,
            source: EnergySource::Model,
            slots: Vec::new(),
            model: Arc::new(model),
            notes: Vec::new(),
            last: None,
            windows: 0,
        };
        sampler.look();
        sampler
    }

    /// What there is to tell: why no better source is used, and what to do.
    pub(crate) fn notes(&self) -> &[Note] {
        &self.notes
    }

    /// One line on how to get better numbers. `None`: they are measured.
    pub(crate) fn advice(&self) -> Option<String> {
        let note =
            self.notes.iter().find(|note| note.fix.is_some()).filter(|_| !self.source.is_measured())?;
        Some(format!("{}; {}", note.what, note.fix.as_deref().unwrap_or_default()))
    }

    /// Where joules come from now.
    pub(crate) fn source(&self) -> EnergySource {
        if self.slots.iter().any(Slot::is_live) { self.source } else { EnergySource::Model }
    }

    /// All zones, for `doctor`.
    pub(crate) fn zones(&self) -> Vec<ZoneReport> {
        self.slots.iter().map(Slot::report).collect()
    }

    /// Finds zones, and takes in those that are new or back.
    fn look(&mut self) {
        let discovery = discover(&self.hardware);
        self.notes = discovery.notes;
        if discovery.source != EnergySource::Model {
            self.source = discovery.source;
        }
        let zones: Vec<_> = discovery.found.iter().map(|found| found.zone.clone()).collect();
        for (found, role) in discovery.found.into_iter().zip(discovery.roles) {
            let label = found.zone.label(&zones);
            let known = self.slots.iter_mut().find(|slot| slot.is(&label, &found.zone));
            if let Some(slot) = known {
                slot.attach(found.read, role);
                continue;
            }
            let cpus = match role {
                Role::Counted(place) => discovery.topology.cpus(place),
                Role::Shown | Role::Excluded(_) => Cpus::All,
            };
            // Index 0 is the model's.
            let id = ZoneId { index: self.slots.len() + 1, label, cpus, source: self.source };
            self.slots.push(Slot::new(id, found, role));
        }
    }

    /// Closes a window. `settle` adds to the ledger what was counted since its last call; it is called once, or up to three
    /// times where the machine is too busy to read everything at once.
    pub(crate) fn window(
        &mut self,
        window: &mut EnergyWindow,
        ledger: &mut Ledger,
        mut settle: impl FnMut(&mut Ledger),
    ) {
        ledger.clear();
        window.zones.clear();
        window.shown.clear();
        let mut tries = TRIES;
        let (before, after) = loop {
            let before = (self.clock)();
            self.slots.iter_mut().for_each(Slot::read_before);
            settle(ledger);
            self.slots.iter_mut().for_each(Slot::read_after);
            let after = (self.clock)();
            tries -= 1;
            if tries == 0 || after.monotonic.since(before.monotonic) <= MOST_SKEW {
                break (before, after);
            }
        };
        window.skew = after.monotonic.since(before.monotonic);
        let now = Times {
            monotonic: before.monotonic + Nanos(window.skew.0 / 2),
            boot: before.boot + Nanos(after.boot.since(before.boot).0 / 2),
        };
        let elapsed = self.last.map(|last| now.monotonic.since(last.monotonic));
        let slept = self.last.is_some_and(|last| {
            now.boot.since(last.boot).0.saturating_sub(now.monotonic.since(last.monotonic).0) > SLEPT
        });
        self.last = Some(now);
        window.elapsed = elapsed.unwrap_or_default();
        self.step(window, ledger, slept);
        self.mend(window);
    }

    fn step(&mut self, window: &mut EnergyWindow, ledger: &Ledger, slept: bool) {
        let busy = ledger.busy();
        let available = u64::from(self.hardware.cpus).saturating_mul(window.elapsed.0).max(1);
        let readout = Readout {
            elapsed: window.elapsed,
            skew: window.skew,
            slept,
            busy: busy as f64 / available as f64,
        };
        for slot in &mut self.slots {
            let Some(outcome) = slot.step(&readout) else { continue };
            match (slot.role(), &outcome) {
                (Role::Counted(_), _) => {
                    window.zones.push(ZoneWindow { zone: slot.id(), epoch: slot.epoch(), outcome });
                }
                (Role::Shown, ZoneOutcome::Energy(spent)) => window.shown.push((slot.id(), spent.energy)),
                (Role::Shown | Role::Excluded(_), _) => {}
            }
        }
        super::slot::find_mirrors(&mut self.slots, &mut self.notes);
        window.zones.retain(|zone| !self.slots.iter().any(|slot| slot.is_mirror() && slot.id() == zone.zone));
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

    /// Looks again for what is missing, now and then.
    fn mend(&mut self, window: &EnergyWindow) {
        let vanished = |zone: &ZoneWindow| {
            matches!(zone.outcome, ZoneOutcome::Lost { reason: LostReason::Vanished, .. })
        };
        let is_missing = self.slots.iter().any(Slot::is_gone) || self.slots.is_empty();
        let is_new = window.zones.iter().any(vanished);
        self.windows += 1;
        if is_missing && (is_new || self.windows.is_multiple_of(RESCAN)) {
            self.look();
        }
    }
}
