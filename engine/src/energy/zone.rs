// SPDX-License-Identifier: MIT OR Apache-2.0
//! The attribution within one zone: CPU time of its accounts accumulates until a window closes; then the energy of the window is divided.

use std::sync::Arc;

use mpwatch_model::host::energy::window::{WindowEnergy, ZoneId};
use mpwatch_model::host::energy::{EnergySource, FlowEnergy, IdleSource, ZoneEnergy};
use mpwatch_model::unit::{Microjoules, Nanos};

use super::accounts::{AccountState, Accounts};
use super::apportion::divide;
use super::baseline::IdlePower;
use super::calibration::ZonePower;
use super::idle::Idle;
use super::ledger::Account;

/// The state of one zone.
pub(crate) struct ZoneSplit {
    zone: Arc<ZoneId>,
    cpus: u32,
    calibrated: Option<ZonePower>,
    idle: Idle,
    /// Whether the idle power is known and was subtracted from earlier charges. Never becomes `false` again.
    pub(crate) is_idle_known: bool,
    pub(crate) accounts: Accounts,
    /// Totals of the zone.
    pub(crate) totals: ZoneEnergy,
    /// Whether any window was closed with a known energy. Until then the totals are unknown, not 0.
    pub(crate) is_known: bool,
}

/// The energy of a window, split by the idle power, in microjoules.
struct Parts {
    idle: u64,
    active: u64,
    /// The amounts by which the true idle energy may be above and below `idle`.
    above: f64,
    below: f64,
    source: IdleSource,
    /// Lower bound of the idle power, microwatts.
    idle_lo: u64,
    /// Whether the idle energy is known: measured, or estimated by the model.
    is_known: bool,
}

/// A window that closes.
struct Window<'a> {
    spent: &'a WindowEnergy,
    parts: Parts,
    /// CPU time of all accounts, nanoseconds.
    time: u64,
    /// `time` as a fraction of the CPU time that was available.
    busy: f64,
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
            accounts: Accounts::default(),
            totals: ZoneEnergy { zone: zone.label.clone(), ..ZoneEnergy::default() },
            is_known: false,
        }
    }

    /// Closes a window: divides its energy among the accounts with CPU time in it. Returns `false` if the parts do not sum to its energy.
    pub(crate) fn close(&mut self, now: Nanos, spent: &WindowEnergy) -> bool {
        self.settle_deferred();
        let parts = self.parts(spent);
        let mut accounts: Vec<&mut AccountState> =
            self.accounts.all_mut().filter(|state| state.time > 0).collect();
        let time: u64 = accounts.iter().map(|account| account.time).sum();
        let available = u64::from(self.cpus).saturating_mul(spent.elapsed.0).max(1);
        let window = Window { spent, parts, time, busy: time as f64 / available as f64 };
        window.widen_bounds(&self.idle, self.calibrated.as_ref(), &mut accounts);
        let unexplained = window.divide(&mut accounts);
        window.add_to_totals(&mut self.totals, &accounts, unexplained);
        for account in accounts {
            account.time = 0;
        }
        self.is_known = true;
        self.totals.power_uw = None;
        if spent.elapsed.0 > 0 {
            let power = u128::from(spent.energy.0) * 1_000_000_000 / u128::from(spent.elapsed.0);
            self.totals.power_uw = u64::try_from(power).ok();
            if spent.estimate.is_none() {
                self.idle.observe(now, spent.elapsed, window.busy, power as f64);
            }
        }
        unexplained.is_some()
    }

    /// Splits the energy of a window by the idle power that was known before the window.
    fn parts(&self, spent: &WindowEnergy) -> Parts {
        let known = match &spent.estimate {
            Some(estimate) => Some((IdlePower::spread(estimate.idle, 0), IdleSource::Unknown)),
            None => self.idle.known(),
        };
        let (power, source) = known.unwrap_or_default();
        let energy =
            |power: u64| (u128::from(power) * u128::from(spent.elapsed.0) + 500_000_000) / 1_000_000_000;
        let idle = u64::try_from(energy(power.power)).unwrap_or(u64::MAX).min(spent.energy.0);
        Parts {
            idle,
            active: spent.energy.0 - idle,
            above: energy(power.hi - power.power) as f64,
            below: energy(power.power - power.lo) as f64,
            source,
            idle_lo: power.lo,
            is_known: known.is_some(),
        }
    }

    /// Once the idle power is known, subtracts it from the energy that the accounts were given before.
    fn settle_deferred(&mut self) {
        let Some((idle, source)) = self.idle.known().filter(|_| !self.is_idle_known) else { return };
        self.is_idle_known = true;
        for account in self.accounts.all_mut() {
            let (part, less) = std::mem::take(&mut account.deferred).settle(idle);
            let part = part.min(account.active.given);
            account.active.given -= part;
            account.idle.given += part;
            account.hi = (account.hi - less).max(0.0);
            account.idle_source = account.idle_source.map(|_| source);
        }
    }

    /// Closes a window of unknown energy: its CPU time is discarded.
    pub(crate) fn lose(&mut self, elapsed: Nanos) {
        self.accounts.all_mut().for_each(|state| state.time = 0);
        self.totals.power_uw = None;
        self.totals.windows_lost += 1;
        self.totals.lost_ns += elapsed;
    }

    /// The energy charged to an account; `cpu` is not set. `None`: no window in which the account used a CPU of this zone was closed.
    pub(crate) fn charge(&self, account: Account) -> Option<FlowEnergy> {
        let state = self.accounts.get(account)?;
        let source = state.idle_source?;
        let (active, idle) = (state.active.given, state.idle.given);
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "sums of energies, never negative"
        )]
        let (lo, hi) = (state.lo.floor() as u64, state.hi.ceil() as u64);
        let is_known = source != IdleSource::Unknown || self.zone.source == EnergySource::Model;
        Some(FlowEnergy {
            active: is_known.then_some(Microjoules(active)),
            lo: Some(Microjoules(lo.min(active))),
            hi: Some(Microjoules(hi.max(active))),
            full: Some(Microjoules(active + idle)),
            source: self.zone.source,
            idle: source,
            ..FlowEnergy::default()
        })
    }

    /// Source of the idle power of the next window.
    pub(crate) fn idle_source(&self) -> IdleSource {
        let known = self.idle.known().filter(|_| self.zone.source != EnergySource::Model);
        known.map(|(_, source)| source).unwrap_or_default()
    }
}

impl Window<'_> {
    /// Divides the energy among the accounts. Returns the active energy that no account was given. `None`: the parts do not sum to the energy.
    fn divide(&self, accounts: &mut [&mut AccountState]) -> Option<u64> {
        let sum =
            |accounts: &[&mut AccountState]| accounts.iter().map(|account| account.active.given).sum::<u64>();
        let before = sum(accounts);
        let mut active: Vec<_> = accounts.iter_mut().map(|state| (state.time, &mut state.active)).collect();
        let unexplained = divide(self.parts.active, self.time, &mut active)?;
        let mut idle: Vec<_> = accounts.iter_mut().map(|state| (state.time, &mut state.idle)).collect();
        divide(self.parts.idle, self.time, &mut idle)?;
        if sum(accounts) - before + unexplained != self.parts.active {
            return None;
        }
        for account in accounts {
            account.idle_source = account.idle_source.max(Some(self.parts.source));
            if !self.parts.is_known {
                let share = account.time as f64 / self.time as f64;
                account.deferred.add(share, self.spent.elapsed.0 as f64 / 1e9);
            }
        }
        Some(unexplained)
    }

    /// Adds the window to the totals of its zone. If the division failed (`unexplained` is `None`), all its energy is unexplained.
    fn add_to_totals(
        &self,
        totals: &mut ZoneEnergy,
        accounts: &[&mut AccountState],
        unexplained: Option<u64>,
    ) {
        totals.zone_uj += self.spent.energy;
        let Some(unexplained) = unexplained else {
            totals.unexplained_uj += self.spent.energy;
            return;
        };
        totals.idle_uj += Microjoules(self.parts.idle);
        totals.unexplained_uj += Microjoules(unexplained);
        for state in accounts {
            let total = match state.account {
                Account::Flow(_) => &mut totals.flows_uj,
                Account::App => &mut totals.app_uj,
                Account::Other => &mut totals.other_uj,
                Account::NetShared => &mut totals.net_shared_uj,
                Account::Irq => &mut totals.irq_uj,
                Account::Own => &mut totals.self_uj,
            };
            *total += Microjoules(state.active.step);
        }
    }

    /// Adds the bounds of this window to the accounts. The order in which loads started, the energy at the edges of the window and the idle
    /// power are uncertain.
    fn widen_bounds(&self, idle: &Idle, calibrated: Option<&ZonePower>, accounts: &mut [&mut AccountState]) {
        let Self { spent, parts, time, busy } = self;
        let active = parts.active as f64;
        let edge = spent.energy.0 as f64 * spent.edge;
        let (surely, at_most) = ((active - edge - parts.above).max(0.0), active + edge + parts.below);
        let line = idle.line().filter(|_| spent.estimate.is_none());
        let seconds = spent.elapsed.0 as f64 / 1e9;
        let curve = calibrated.and_then(|zone| zone.curve.as_ref());
        let dynamic = curve.map(|curve| curve.dynamic(*busy)).filter(|dynamic| *dynamic > 0.0);
        for account in accounts {
            let share = account.time as f64 / *time as f64;
            let (low, high) = match (curve, dynamic, spent.estimate) {
                (_, _, Some(estimate)) => (share * estimate.low, share * estimate.high),
                (Some(curve), Some(dynamic), None) => {
                    let (least, most) = curve.marginal(share * busy, *busy);
                    ((least / dynamic).clamp(0.0, share), (most / dynamic).max(share))
                }
                // The whole energy of the window may be idle energy.
                _ if !parts.is_known => (0.0, 1.0),
                // Without a power curve, an account that did not run alone may have caused all active energy or none.
                _ if account.time == *time => (share, share),
                _ => (0.0, 1.0),
            };
            let (mut least, mut most) = (low * surely, high * at_most);
            if let Some(line) = line {
                let (added_last, added_first) = line.marginal(share * busy, *busy, parts.idle_lo);
                least = least.max(added_last * seconds - edge);
                most = most.min(added_first * seconds + edge);
            }
            account.lo += least;
            account.hi += most;
        }
    }
}
