// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads the counter of one zone, keeps its open window, and detects a counter that vanished, is stuck, or mirrors another counter.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use mpwatch_model::host::energy::window::{WindowEnergy, ZoneId, ZoneOutcome};
use mpwatch_model::host::energy::{EnergySource, LostReason};
use mpwatch_model::unit::Nanos;

use super::counter::Counter;
use super::discovery::{Note, unreadable};
use super::powercap::{FoundZone, ReadCounter};
use super::zone::{Domain, Role, Zone};

/// Time between two updates of a hardware counter.
const UPDATE_INTERVAL: Nanos = Nanos(1_000_000);
/// Time between two updates of a counter that a host exports to its guest.
const GUEST_UPDATE_INTERVAL: Nanos = Nanos(1_000_000_000);
/// Minimum window of a guest: a multiple of its update interval.
const MIN_GUEST_WINDOW: Nanos = Nanos(5_000_000_000);
/// A counter that does not advance for this long while the machine is busy is stuck.
const STUCK_AFTER: Nanos = Nanos(5_000_000_000);
/// Busy fraction of the machine above which every counter must advance.
const MIN_BUSY: f64 = 0.01;
/// Two dies whose energy is equal in this many consecutive windows share one counter.
const MIRROR_WINDOWS: u32 = 5;

/// Values of a window that all zones share.
pub(crate) struct WindowTimes {
    /// Time since the previous window. Zero in the first window.
    pub(crate) elapsed: Nanos,
    /// Time between the first and the last reading of the window.
    pub(crate) skew: Nanos,
    pub(crate) was_suspended: bool,
    /// Busy fraction of the machine.
    pub(crate) busy: f64,
}

/// The state of a zone, for `doctor`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ZoneReport {
    pub(crate) label: String,
    pub(crate) device: String,
    /// Whether the zone is part of the total.
    pub(crate) counted: bool,
    /// Why the zone is not part of the total. `None`: it is.
    pub(crate) reason: Option<String>,
}

/// Whether a counter can be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Live,
    /// The counter did not advance while the machine was busy.
    Stuck,
    /// The counter equals the counter of another die of the package.
    Mirror,
}

pub(crate) struct ZoneReader {
    pub(crate) id: Arc<ZoneId>,
    zone: Zone,
    path: PathBuf,
    pub(crate) role: Role,
    read: Option<ReadCounter>,
    /// Why the counter cannot be opened.
    denied: Option<String>,
    counter: Counter,
    state: State,
    /// Counts the times that the zone vanished or became live again.
    pub(crate) epoch: u32,
    /// Length of the open window.
    open: Nanos,
    /// How long the counter has not advanced while the machine was busy.
    unchanged: Nanos,
    before: Option<io::Result<u64>>,
    value: Option<io::Result<u64>>,
    /// Energy of the last window (0 before the first) and the value at its end, microjoules, to compare dies. `None`: there is no reading.
    last: Option<(u64, u64)>,
    /// Consecutive windows whose energy equals the energy of another die.
    equal_windows: u32,
}

impl ZoneReader {
    pub(crate) fn new(id: ZoneId, found: FoundZone, role: Role) -> Self {
        let counter = Counter::new(found.zone.max, found.zone.limit);
        let mut reader = Self {
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
            unchanged: Nanos(0),
            before: None,
            value: None,
            last: None,
            equal_windows: 0,
        };
        reader.attach(found.read, role);
        reader
    }

    /// Applies the result of a search. A zone that has come back starts a new window.
    pub(crate) fn attach(&mut self, read: io::Result<ReadCounter>, role: Role) {
        self.role = role;
        if self.read.is_some() {
            return;
        }
        match read {
            Ok(read) => {
                self.read = Some(read);
                self.denied = None;
                self.reset();
            }
            Err(error) => self.denied = Some(unreadable(&self.path, &error).what),
        }
    }

    fn reset(&mut self) {
        self.counter.last = None;
        self.open = Nanos(0);
        self.unchanged = Nanos(0);
        self.last = None;
        self.equal_windows = 0;
    }

    pub(crate) fn is(&self, label: &str, zone: &Zone) -> bool {
        self.id.label == label && self.zone.backend == zone.backend && self.zone.device == zone.device
    }

    /// Whether the energy of the zone is part of the total.
    pub(crate) fn is_live(&self) -> bool {
        matches!(self.role, Role::Counted(_)) && self.state == State::Live && self.read.is_some()
    }

    pub(crate) fn is_mirror(&self) -> bool {
        self.state == State::Mirror
    }

    /// Whether the zone is counted but cannot be read.
    pub(crate) fn is_missing(&self) -> bool {
        self.read.is_none() && matches!(self.role, Role::Counted(_))
    }

    pub(crate) fn report(&self) -> ZoneReport {
        let reason = match (self.role, self.state) {
            (Role::Excluded(reason), _) => Some(reason),
            (Role::DisplayOnly, _) => Some("measures the platform or a part of a package"),
            (_, State::Stuck) => Some("does not advance although the machine is busy"),
            (_, State::Mirror) => Some("shares the counter of another die"),
            (_, State::Live) if self.read.is_some() => None,
            (_, State::Live) => Some(self.denied.as_deref().unwrap_or("vanished")),
        };
        let reason = reason.map(str::to_owned);
        let (label, device) = (self.id.label.clone(), self.zone.device.clone());
        ZoneReport { label, device, counted: self.is_live(), reason }
    }

    pub(crate) fn read_before(&mut self) {
        self.before = self.read_counter();
    }

    pub(crate) fn read_after(&mut self) {
        let after = self.read_counter();
        self.value = match (self.before.take(), after) {
            (Some(Ok(before)), Some(Ok(after))) => Some(Ok(Counter::midpoint(before, after))),
            (_, after) => after,
        };
    }

    fn read_counter(&mut self) -> Option<io::Result<u64>> {
        if matches!(self.role, Role::Excluded(_)) {
            return None;
        }
        self.read.as_mut().map(|read| read())
    }

    /// Outcome of the window. `None`: no window is open.
    pub(crate) fn step(&mut self, times: &WindowTimes) -> Option<ZoneOutcome> {
        let elapsed = times.elapsed;
        match self.value.take() {
            None if self.epoch > 0 && self.is_missing() => {
                Some(ZoneOutcome::Lost { reason: LostReason::Vanished, elapsed })
            }
            None => None,
            Some(Ok(value)) => self.apply_value(value, times),
            Some(Err(error)) => Some(self.fail(&error, elapsed)),
        }
    }

    fn fail(&mut self, error: &io::Error, elapsed: Nanos) -> ZoneOutcome {
        let elapsed = self.open + elapsed;
        self.reset();
        if error.kind() == io::ErrorKind::PermissionDenied {
            self.denied = Some(unreadable(&self.path, error).what);
            return ZoneOutcome::Lost { reason: LostReason::Unreadable, elapsed };
        }
        // The device is gone (ENODEV, EIO, or an empty file), so its file must be opened again.
        self.read = None;
        self.denied = None;
        self.epoch += 1;
        ZoneOutcome::Lost { reason: LostReason::Vanished, elapsed }
    }

    fn apply_value(&mut self, value: u64, times: &WindowTimes) -> Option<ZoneOutcome> {
        let last = self.counter.last;
        if self.state == State::Stuck {
            // The counter advances again.
            if last.is_some_and(|last| last != value) {
                self.state = State::Live;
                self.epoch += 1;
                self.reset();
            }
            self.counter.step(value, times.elapsed);
            return None;
        }
        if last.is_none() {
            self.counter.step(value, times.elapsed);
            self.last = Some((0, value));
            return None;
        }
        self.open += times.elapsed;
        let elapsed = self.open;
        if times.was_suspended {
            self.reset();
            self.counter.step(value, elapsed);
            return Some(ZoneOutcome::Lost { reason: LostReason::Suspended, elapsed });
        }
        let is_guest = self.id.source == EnergySource::VmShare;
        if last == Some(value) || (is_guest && elapsed < MIN_GUEST_WINDOW) {
            return Some(self.wait(last == Some(value), times));
        }
        let outcome = self.counter.step(value, elapsed);
        (self.open, self.unchanged) = (Nanos(0), Nanos(0));
        match outcome? {
            Err(reason) => Some(ZoneOutcome::Lost { reason, elapsed }),
            Ok(energy) => {
                self.last = Some((energy.0, value));
                let update = if is_guest { GUEST_UPDATE_INTERVAL } else { UPDATE_INTERVAL };
                // Each end of the window may be off by one update.
                let uncertain = (2 * update.0 + times.skew.0) as f64;
                let edge = (uncertain / elapsed.0.max(1) as f64).min(1.0);
                Some(ZoneOutcome::Energy(WindowEnergy { energy, elapsed, edge, estimate: None }))
            }
        }
    }

    /// Keeps the window open, unless the counter is stuck.
    fn wait(&mut self, is_unchanged: bool, times: &WindowTimes) -> ZoneOutcome {
        self.unchanged = match (is_unchanged, times.busy > MIN_BUSY) {
            (true, true) => self.unchanged + times.elapsed,
            (true, false) => self.unchanged,
            (false, _) => Nanos(0),
        };
        if self.unchanged < STUCK_AFTER {
            return ZoneOutcome::Pending;
        }
        let elapsed = self.open;
        let value = self.counter.last;
        self.reset();
        self.state = State::Stuck;
        if let Some(value) = value {
            self.counter.step(value, Nanos(0));
        }
        ZoneOutcome::Lost { reason: LostReason::Stuck, elapsed }
    }

    /// Package of a counted die. `None`: the zone is not a counted die.
    fn package_of_die(&self) -> Option<u32> {
        match (self.zone.domain(), self.role) {
            (Domain::Package { package, die: Some(_) }, Role::Counted(_)) => Some(package),
            _ => None,
        }
    }
}

/// Excludes the second of two dies that share a counter: their values are equal before the first window, or later their energy is equal in
/// several consecutive windows.
pub(crate) fn find_mirrors(readers: &mut [ZoneReader], notes: &mut Vec<Note>) {
    for index in 1..readers.len() {
        let (earlier, later) = readers.split_at_mut(index);
        let reader = &mut later[0];
        let Some(package) = reader.package_of_die() else { continue };
        // While a window is open, `last` belongs to an earlier window, which was compared before.
        let ended = |reader: &ZoneReader| reader.last.filter(|_| reader.open == Nanos(0));
        let Some((energy, value)) = ended(reader) else { continue };
        let others =
            earlier.iter().filter(|other| other.package_of_die() == Some(package) && !other.is_mirror());
        let mut others = others.filter(|other| other.last.is_some()).map(ended);
        let Some(Some((other_energy, other_value))) = others.next() else { continue };
        let is_first = energy == 0 && other_energy == 0;
        let is_equal = if is_first { value == other_value } else { energy == other_energy };
        match reader.state {
            State::Mirror if !is_equal => {
                reader.state = State::Live;
                reader.epoch += 1;
            }
            State::Live if is_equal => {
                reader.equal_windows += 1;
                if is_first || reader.equal_windows >= MIRROR_WINDOWS {
                    reader.state = State::Mirror;
                    let what = format!("{} shares the counter of another die: counted once", reader.id.label);
                    notes.push(Note { what, fix: None });
                }
            }
            State::Live => reader.equal_windows = 0,
            State::Mirror | State::Stuck => {}
        }
    }
}
