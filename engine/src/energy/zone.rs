// SPDX-License-Identifier: MIT OR Apache-2.0
//! The attribution within one zone: CPU time of its accounts accumulates until a window closes, whose energy is then divided. Pure.

use std::collections::HashMap;
use std::sync::Arc;

use mpwatch_model::host::energy::window::{WindowEnergy, ZoneId};
use mpwatch_model::host::energy::{EnergySource, IdleSource, ZoneEnergy};
use mpwatch_model::unit::{Microjoules, Nanos};

use super::apportion::{Share, divide};
use super::baseline::IdlePower;
use super::calibration::ZonePower;
use super::charge::Charge;
use super::deferred::Deferred;
use super::idle::Idle;
use super::ledger::Account;

/// The sums of a window do not match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Broken;

/// Bounds of an account's energy, in microjoules: sums over windows.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Bounds {
    lo: f64,
    hi: f64,
}

/// One zone.
pub(crate) struct ZoneSplit {
    zone: Arc<ZoneId>,
    cpus: u32,
    calibrated: Option<ZonePower>,
    idle: Idle,
    /// Whether the idle power is known; it stays known.
    is_idle_known: bool,
    index: HashMap<Account, usize>,
    free: Vec<usize>,
    // One element per account, all in the same order.
    accounts: Vec<Option<Account>>,
    times: Vec<u64>,
    active: Vec<Share>,
    idle_share: Vec<Share>,
    bounds: Vec<Bounds>,
    deferred: Vec<Deferred>,
    /// Weakest idle baseline of its charges. `None`: it was never charged.
    idle_sources: Vec<Option<IdleSource>>,
    /// Totals of the zone.
    pub(crate) totals: ZoneEnergy,
    /// Whether any window was closed with energy. Until then the totals are unknown, not 0.
    pub(crate) is_known: bool,
}

/// The energy of a window, in microjoules.
struct Parts {
    idle: u64,
    active: u64,
    /// How much higher and lower the idle energy may be.
    above: f64,
    below: f64,
    source: IdleSource,
    /// Lower bound of the idle power, microwatts.
    idle_lo: u64,
    /// Whether the idle energy is known: measured, or estimated by the model.
    is_known: bool,
}

impl ZoneSplit {
    /// A zone on a machine with `machine` CPUs, with its calibration if there is one.
    pub(crate) fn new(zone: &Arc<ZoneId>, machine: u32, calibrated: Option<&ZonePower>) -> Self {
        Self {
            zone: Arc::clone(zone),
            cpus: zone.cpus.count(machine).max(1),
            calibrated: calibrated.cloned(),
            idle: Idle::new(calibrated),
            is_idle_known: false,
            index: HashMap::new(),
            free: Vec::new(),
            accounts: Vec::new(),
            times: Vec::new(),
            active: Vec::new(),
            idle_share: Vec::new(),
            bounds: Vec::new(),
            deferred: Vec::new(),
            idle_sources: Vec::new(),
            totals: ZoneEnergy { zone: zone.label.clone(), ..ZoneEnergy::default() },
            is_known: false,
        }
    }

    /// Adds CPU time of an account to the window.
    pub(crate) fn add(&mut self, account: Account, time: u64) {
        if time > 0 {
            let index = self.index_of(account);
            self.times[index] += time;
        }
    }

    fn index_of(&mut self, account: Account) -> usize {
        if let Some(index) = self.index.get(&account) {
            return *index;
        }
        let index = self.free.pop().unwrap_or_else(|| {
            self.accounts.push(None);
            self.times.push(0);
            self.active.push(Share::default());
            self.idle_share.push(Share::default());
            self.bounds.push(Bounds::default());
            self.deferred.push(Deferred::default());
            self.idle_sources.push(None);
            self.accounts.len() - 1
        });
        self.accounts[index] = Some(account);
        self.index.insert(account, index);
        index
    }

    /// Closes a window: divides its energy among the accounts with CPU time in it.
    pub(crate) fn close(&mut self, now: Nanos, spent: &WindowEnergy) -> Result<(), Broken> {
        let all: u64 = self.times.iter().sum();
        let available = u64::from(self.cpus).saturating_mul(spent.elapsed.0).max(1);
        let busy = all as f64 / available as f64;
        self.settle_deferred();
        let parts = self.parts(spent);
        self.widen_bounds(spent, &parts, all, available);
        let outcome = self.divide(&parts, all);
        if outcome.is_ok() && !parts.is_known {
            self.defer(all, spent.elapsed);
        }
        self.add_to_totals(spent.energy, &parts, outcome.as_ref().ok());
        self.times.fill(0);
        self.is_known = true;
        self.totals.power_uw = None;
        if spent.elapsed.0 > 0 {
            let power = u128::from(spent.energy.0) * 1_000_000_000 / u128::from(spent.elapsed.0);
            self.totals.power_uw = u64::try_from(power).ok();
            if spent.estimate.is_none() {
                self.idle.observe(now, spent.elapsed, busy, power as f64);
            }
        }
        outcome.map(|_| ())
    }

    /// Splits the energy of a window by the idle power that was known before it.
    fn parts(&self, spent: &WindowEnergy) -> Parts {
        let known = match &spent.estimate {
            Some(estimate) => Some((IdlePower::spread(estimate.idle, 0), IdleSource::Unknown)),
            None => self.idle.known(),
        };
        let (power, source) = known.unwrap_or_default();
        let of = |power: u64| (u128::from(power) * u128::from(spent.elapsed.0) + 500_000_000) / 1_000_000_000;
        let idle = u64::try_from(of(power.power)).unwrap_or(u64::MAX).min(spent.energy.0);
        Parts {
            idle,
            active: spent.energy.0 - idle,
            above: of(power.hi - power.power) as f64,
            below: of(power.power - power.lo) as f64,
            source,
            idle_lo: power.lo,
            is_known: known.is_some(),
        }
    }

    /// Once the idle power is known, takes it out of what the accounts got before.
    fn settle_deferred(&mut self) {
        let Some((idle, source)) = self.idle.known().filter(|_| !self.is_idle_known) else { return };
        self.is_idle_known = true;
        for index in 0..self.accounts.len() {
            let (part, less) = std::mem::take(&mut self.deferred[index]).settle(idle);
            let part = part.min(self.active[index].given);
            self.active[index].given -= part;
            self.idle_share[index].given += part;
            self.bounds[index].hi = (self.bounds[index].hi - less).max(0.0);
            self.idle_sources[index] = self.idle_sources[index].map(|_| source);
        }
    }

    /// Notes the accounts of a window with unknown idle power.
    fn defer(&mut self, all: u64, length: Nanos) {
        for (time, deferred) in self.times.iter().zip(&mut self.deferred).filter(|(time, _)| **time > 0) {
            deferred.add(*time as f64 / all as f64, length.0 as f64 / 1e9);
        }
    }

    /// Divides the energy among the accounts; returns what each column of the totals gained. The sum is checked before it counts.
    fn divide(&mut self, parts: &Parts, all: u64) -> Result<Columns, Broken> {
        let before = self.columns();
        let unexplained = divide(parts.active, all, &self.times, &mut self.active).ok_or(Broken)?;
        divide(parts.idle, all, &self.times, &mut self.idle_share).ok_or(Broken)?;
        let mut gained = self.columns();
        gained.iter_mut().zip(before).for_each(|(after, before)| *after -= before);
        gained[UNEXPLAINED] = unexplained;
        if gained.iter().sum::<u64>() != parts.active {
            return Err(Broken);
        }
        for (_, idle) in self.times.iter().zip(&mut self.idle_sources).filter(|(time, _)| **time > 0) {
            *idle = (*idle).max(Some(parts.source));
        }
        Ok(gained)
    }

    /// Adds a window to the totals. Without columns its sums did not match, and its energy is unexplained.
    fn add_to_totals(&mut self, energy: Microjoules, parts: &Parts, gained: Option<&Columns>) {
        let totals = &mut self.totals;
        totals.zone_uj += energy;
        let Some(gained) = gained else {
            totals.unexplained_uj += energy;
            return;
        };
        totals.idle_uj += Microjoules(parts.idle);
        let columns = [
            &mut totals.flows_uj,
            &mut totals.app_uj,
            &mut totals.other_uj,
            &mut totals.net_shared_uj,
            &mut totals.irq_uj,
            &mut totals.self_uj,
            &mut totals.unexplained_uj,
        ];
        for (column, gained) in columns.into_iter().zip(gained) {
            *column += Microjoules(*gained);
        }
    }

    /// Active energy of the accounts of each column.
    fn columns(&self) -> Columns {
        let mut sums = Columns::default();
        for (account, share) in self.accounts.iter().zip(&self.active) {
            if let Some(account) = account {
                sums[column(*account)] += share.given;
            }
        }
        sums
    }

    /// Adds this window's bounds: unknown order in which loads started, energy at the window's edges, uncertainty of the idle power.
    fn widen_bounds(&mut self, spent: &WindowEnergy, parts: &Parts, all: u64, available: u64) {
        if all == 0 {
            return;
        }
        let active = parts.active as f64;
        let edge = spent.energy.0 as f64 * spent.edge;
        let (surely, at_most) = ((active - edge - parts.above).max(0.0), active + edge + parts.below);
        let whole = all as f64 / available as f64;
        let line = self.idle.line().filter(|_| spent.estimate.is_none());
        let seconds = spent.elapsed.0 as f64 / 1e9;
        let curve = self.calibrated.as_ref().and_then(|zone| zone.curve.as_ref());
        let dynamic = curve.map(|curve| curve.dynamic(whole)).filter(|dynamic| *dynamic > 0.0);
        for (time, bounds) in self.times.iter().zip(&mut self.bounds).filter(|(time, _)| **time > 0) {
            let share = *time as f64 / all as f64;
            let (low, high) = match (curve, dynamic, spent.estimate) {
                (_, _, Some(estimate)) => (share * estimate.low, share * estimate.high),
                (Some(curve), Some(dynamic), None) => {
                    let (least, most) = curve.marginal(share * whole, whole);
                    ((least / dynamic).clamp(0.0, share), (most / dynamic).max(share))
                }
                // All of it may be idle energy.
                _ if !parts.is_known => (0.0, 1.0),
                // Without a power curve, an account that did not run alone may have caused all of it or nothing.
                _ if *time == all => (share, share),
                _ => (0.0, 1.0),
            };
            let (mut least, mut most) = (low * surely, high * at_most);
            if let Some(line) = line {
                let (added_last, added_first) = line.marginal(share * whole, whole, parts.idle_lo);
                least = least.max(added_last * seconds - edge);
                most = most.min(added_first * seconds + edge);
            }
            bounds.lo += least;
            bounds.hi += most;
        }
    }

    /// Closes a window of unknown energy: its CPU time is not charged.
    pub(crate) fn lose(&mut self, elapsed: Nanos) {
        self.times.fill(0);
        self.totals.power_uw = None;
        self.totals.windows_lost += 1;
        self.totals.lost_ns += elapsed;
    }

    /// What an account was charged with. `None`: no window in which it used a CPU of this zone was closed.
    pub(crate) fn charge(&self, account: Account) -> Option<Charge> {
        let index = *self.index.get(&account)?;
        let source = self.idle_sources[index]?;
        let (active, idle) = (self.active[index].given, self.idle_share[index].given);
        let bounds = self.bounds[index];
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "sums of energies, never negative"
        )]
        let (lo, hi) = (bounds.lo.floor() as u64, bounds.hi.ceil() as u64);
        let is_known = source != IdleSource::Unknown || self.zone.source == EnergySource::Model;
        Some(Charge {
            active: is_known.then_some(Microjoules(active)),
            lo: Microjoules(lo.min(active)),
            hi: Microjoules(hi.max(active)),
            full: Microjoules(active + idle),
            source: self.zone.source,
            idle: source,
        })
    }

    /// Source of the idle power of the next window.
    pub(crate) fn idle_source(&self) -> IdleSource {
        let known = self.idle.known().filter(|_| self.zone.source != EnergySource::Model);
        known.map(|(_, source)| source).unwrap_or_default()
    }

    /// Whether the idle power is known and taken out of what was charged before.
    pub(crate) fn is_idle_known(&self) -> bool {
        self.is_idle_known
    }

    /// Whether all CPU time of the account is charged.
    pub(crate) fn is_settled(&self, account: Account) -> bool {
        self.index.get(&account).is_none_or(|index| self.times[*index] == 0)
    }

    /// Removes an account; its index is reused.
    pub(crate) fn forget(&mut self, account: Account) {
        if let Some(index) = self.index.remove(&account) {
            self.accounts[index] = None;
            self.times[index] = 0;
            self.active[index] = Share::default();
            self.idle_share[index] = Share::default();
            self.bounds[index] = Bounds::default();
            self.deferred[index] = Deferred::default();
            self.idle_sources[index] = None;
            self.free.push(index);
        }
    }
}

/// Microjoules of each column of the totals except the idle one, in the order of [`ZoneEnergy`].
type Columns = [u64; 7];
/// The last column.
const UNEXPLAINED: usize = 6;

/// The column of an account.
fn column(account: Account) -> usize {
    match account {
        Account::Flow(_) => 0,
        Account::App => 1,
        Account::Other => 2,
        Account::NetShared => 3,
        Account::Irq => 4,
        Account::Own => 5,
    }
}
