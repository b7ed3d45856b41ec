// SPDX-License-Identifier: MIT OR Apache-2.0
//! One zone through its life: its values, its open window, and whether it can be believed. It may vanish and come back, stand
//! still although the machine works, or turn out to be the mirror of another.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use mpwatch_model::energy::{EnergySource, LostReason};
use mpwatch_model::unit::Nanos;

use super::counter::{Counter, Step};
use super::powercap::{Found, Read};
use super::sampler::ZoneReport;
use super::source::{Note, unreadable};
use super::zone::{Domain, Role, Zone};
use mpwatch_model::energy::window::{WindowEnergy, ZoneId, ZoneOutcome};

/// Hardware updates its counters about so often; a host updates its guest's about once a second.
const STEP: Nanos = Nanos(1_000_000);
const GUEST_STEP: Nanos = Nanos(1_000_000_000);
/// Shortest window of a guest: its counter moves in steps of a second.
const GUEST_WINDOW: Nanos = Nanos(5_000_000_000);
/// A counter that stands still for so long while the machine is busy is dead.
const STILL: Nanos = Nanos(5_000_000_000);
/// Busy part of the machine above which a counter must move.
const BUSY: f64 = 0.01;
/// Windows in which two dies must spend exactly the same to be one.
const SAME: u32 = 5;

/// What all zones of a window share.
pub(crate) struct Readout {
    /// Time since the window before. Zero in the first.
    pub(crate) elapsed: Nanos,
    /// Time that reading took.
    pub(crate) skew: Nanos,
    /// Whether the machine slept.
    pub(crate) slept: bool,
    /// Busy part of the machine.
    pub(crate) busy: f64,
}

/// Whether a zone can be believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Live,
    /// Stood still while the machine worked.
    Dead,
    /// Shows what the zone at this index of its slot shows.
    Mirror,
}

/// One zone.
pub(crate) struct Slot {
    id: Arc<ZoneId>,
    zone: Zone,
    path: PathBuf,
    role: Role,
    read: Option<Read>,
    denied: Option<String>,
    counter: Counter,
    state: State,
    epoch: u32,
    /// Length of the open window.
    open: Nanos,
    /// How long it has stood still while the machine was busy.
    still: Nanos,
    before: Option<io::Result<u64>>,
    value: Option<io::Result<u64>>,
    /// Energy of the last window and the value at its end, to compare with other dies.
    last: Option<(u64, u64)>,
    /// Windows in which it spent the same as another die.
    same: u32,
}

impl Slot {
    pub(crate) fn new(id: ZoneId, found: Found, role: Role) -> Self {
        let counter = Counter::new(found.zone.max, found.zone.limit);
        let mut slot = Self {
            id: Arc::new(id),
            zone: found.zone,
            path: found.path,
            role,
            read: None,
            denied: None,
            counter,
            state: State::Live,
            epoch: 0,
            open: Nanos(0),
            still: Nanos(0),
            before: None,
            value: None,
            last: None,
            same: 0,
        };
        slot.attach(found.read, role);
        slot
    }

    /// Takes in what a look found: a zone that is back begins anew.
    pub(crate) fn attach(&mut self, read: io::Result<Read>, role: Role) {
        self.role = role;
        if self.read.is_some() {
            return;
        }
        match read {
            Ok(read) => {
                self.read = Some(read);
                self.denied = None;
                self.begin();
            }
            Err(error) => self.denied = Some(unreadable(&self.path, &error).what),
        }
    }

    fn begin(&mut self) {
        self.counter.forget();
        self.open = Nanos(0);
        self.still = Nanos(0);
        self.last = None;
        self.same = 0;
    }

    pub(crate) fn is(&self, label: &str, zone: &Zone) -> bool {
        self.id.label == label && self.zone.way == zone.way && self.zone.device == zone.device
    }

    pub(crate) fn id(&self) -> Arc<ZoneId> {
        Arc::clone(&self.id)
    }

    pub(crate) fn role(&self) -> Role {
        self.role
    }

    pub(crate) fn epoch(&self) -> u32 {
        self.epoch
    }

    /// Whether its energy is part of the machine's.
    pub(crate) fn is_live(&self) -> bool {
        matches!(self.role, Role::Counted(_)) && self.state == State::Live && self.read.is_some()
    }

    pub(crate) fn is_mirror(&self) -> bool {
        self.state == State::Mirror
    }

    /// Whether it should be there and is not.
    pub(crate) fn is_gone(&self) -> bool {
        self.read.is_none() && matches!(self.role, Role::Counted(_))
    }

    pub(crate) fn report(&self) -> ZoneReport {
        let why = match (self.role, self.state) {
            (Role::Excluded(why), _) => Some(why.to_owned()),
            (Role::Shown, _) => Some("overlaps with what is counted".to_owned()),
            (Role::Counted(_), State::Dead) => Some("does not move although the machine works".to_owned()),
            (Role::Counted(_), State::Mirror) => Some("shows the same as another die".to_owned()),
            (Role::Counted(_), State::Live) if self.read.is_none() => {
                Some(self.denied.clone().unwrap_or_else(|| "vanished".to_owned()))
            }
            (Role::Counted(_), State::Live) => None,
        };
        let counted = self.is_live();
        ZoneReport { label: self.id.label.clone(), device: self.zone.device.clone(), counted, why }
    }

    pub(crate) fn read_before(&mut self) {
        self.before = self.take();
    }

    pub(crate) fn read_after(&mut self) {
        let after = self.take();
        self.value = match (self.before.take(), after) {
            (Some(Ok(before)), Some(Ok(after))) => Some(Ok(Counter::between(before, after))),
            (_, after) => after,
        };
    }

    fn take(&mut self) -> Option<io::Result<u64>> {
        if matches!(self.role, Role::Excluded(_)) {
            return None;
        }
        self.read.as_mut().map(|read| read())
    }

    /// What its value tells. `None`: nothing that concerns a window.
    pub(crate) fn step(&mut self, readout: &Readout) -> Option<ZoneOutcome> {
        let elapsed = readout.elapsed;
        match self.value.take() {
            None if self.epoch > 0 && self.is_gone() => {
                Some(ZoneOutcome::Lost { reason: LostReason::Vanished, elapsed })
            }
            None => None,
            Some(Ok(value)) => self.take_value(value, readout),
            Some(Err(error)) => Some(self.fail(&error, elapsed)),
        }
    }

    fn fail(&mut self, error: &io::Error, elapsed: Nanos) -> ZoneOutcome {
        let elapsed = self.open + elapsed;
        self.begin();
        if error.kind() == io::ErrorKind::PermissionDenied {
            self.denied = Some(unreadable(&self.path, error).what);
            return ZoneOutcome::Lost { reason: LostReason::Unreadable, elapsed };
        }
        // The device is gone (ENODEV, EIO, or a file without content): its file must be opened anew.
        self.read = None;
        self.denied = None;
        self.epoch += 1;
        ZoneOutcome::Lost { reason: LostReason::Vanished, elapsed }
    }

    fn take_value(&mut self, value: u64, readout: &Readout) -> Option<ZoneOutcome> {
        let last = self.counter.last();
        if self.state == State::Dead {
            // It moves after all.
            if last.is_some_and(|last| last != value) {
                self.state = State::Live;
                self.epoch += 1;
                self.begin();
            }
            self.counter.step(value, readout.elapsed);
            return None;
        }
        if last.is_none() {
            self.counter.step(value, readout.elapsed);
            self.last = Some((0, value));
            return None;
        }
        self.open += readout.elapsed;
        let elapsed = self.open;
        if readout.slept {
            self.begin();
            self.counter.step(value, elapsed);
            return Some(ZoneOutcome::Lost { reason: LostReason::Suspended, elapsed });
        }
        let is_guest = self.id.source == EnergySource::VmShare;
        if last == Some(value) || (is_guest && elapsed < GUEST_WINDOW) {
            return Some(self.wait(last == Some(value), readout));
        }
        let outcome = self.counter.step(value, elapsed);
        (self.open, self.still) = (Nanos(0), Nanos(0));
        match outcome {
            Step::First => None,
            Step::Lost(reason) => Some(ZoneOutcome::Lost { reason, elapsed }),
            Step::Energy(energy) => {
                self.last = Some((energy.0, value));
                let step = if is_guest { GUEST_STEP } else { STEP };
                let unsure = (2 * step.0 + readout.skew.0) as f64;
                let edge = (unsure / elapsed.0.max(1) as f64).min(1.0);
                Some(ZoneOutcome::Energy(WindowEnergy { energy, elapsed, edge, estimate: None }))
            }
        }
    }

    /// The window stays open, unless the counter has stood still for too long.
    fn wait(&mut self, is_still: bool, readout: &Readout) -> ZoneOutcome {
        self.still = match (is_still, readout.busy > BUSY) {
            (true, true) => self.still + readout.elapsed,
            (true, false) => self.still,
            (false, _) => Nanos(0),
        };
        if self.still < STILL {
            return ZoneOutcome::Pending;
        }
        let elapsed = self.open;
        let value = self.counter.last();
        self.begin();
        self.state = State::Dead;
        if let Some(value) = value {
            self.counter.step(value, Nanos(0));
        }
        ZoneOutcome::Lost { reason: LostReason::Stuck, elapsed }
    }

    /// Package of a zone that is a die.
    fn package_of_die(&self) -> Option<u32> {
        match (self.zone.domain(), self.role) {
            (Domain::Package { package, die: Some(_) }, Role::Counted(_)) => Some(package),
            _ => None,
        }
    }
}

/// Two dies of a package that show the same are one counter: the second must not be added. Equal values at first sight are
/// taken for that until they differ; equal energy in five windows is taken for that then.
pub(crate) fn find_mirrors(slots: &mut [Slot], notes: &mut Vec<Note>) {
    for index in 1..slots.len() {
        let (earlier, rest) = slots.split_at_mut(index);
        let slot = &mut rest[0];
        let Some(package) = slot.package_of_die() else { continue };
        let Some((energy, value)) = slot.last else { continue };
        let others =
            earlier.iter().filter(|other| other.package_of_die() == Some(package) && !other.is_mirror());
        let mut others = others.filter_map(|other| other.last);
        let Some((other_energy, other_value)) = others.next() else { continue };
        let is_first = energy == 0 && other_energy == 0;
        let is_same = if is_first { value == other_value } else { energy == other_energy };
        match slot.state {
            State::Mirror if !is_same => {
                slot.state = State::Live;
                slot.epoch += 1;
            }
            State::Live if is_same => {
                slot.same += 1;
                if is_first || slot.same >= SAME {
                    slot.state = State::Mirror;
                    let what = format!(
                        "{} shows the same as another die of its package: counted once",
                        slot.id.label
                    );
                    notes.push(Note { what, fix: None });
                }
            }
            State::Live => slot.same = 0,
            State::Mirror | State::Dead => {}
        }
    }
}
