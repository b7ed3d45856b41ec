// SPDX-License-Identifier: MIT OR Apache-2.0
//! One zone's part of the split: the time that its accounts have piled up, and what they get when a window closes. Pure.

use std::collections::HashMap;
use std::sync::Arc;

use mpwatch_model::energy::{EnergySource, IdleSource, ZoneEnergy};
use mpwatch_model::unit::{Microjoules, Nanos};

use super::apportion::{Purse, divide};
use super::attribute::Charge;
use super::baseline::Baseline;
use super::calibration::ZonePower;
use super::ledger::Account;
use mpwatch_model::energy::window::{WindowEnergy, ZoneId};

/// The sums of a window did not come out even.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Broken;

/// Between which bounds an account's part lies, microjoules: sums over windows.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Bounds {
    lo: f64,
    hi: f64,
}

/// One zone.
pub(crate) struct ZoneSplit {
    zone: Arc<ZoneId>,
    cpus: u32,
    known: Option<ZonePower>,
    baseline: Baseline,
    index: HashMap<Account, usize>,
    free: Vec<usize>,
    // One element an account, in the same order.
    accounts: Vec<Option<Account>>,
    times: Vec<u64>,
    active: Vec<Purse>,
    rest: Vec<Purse>,
    bounds: Vec<Bounds>,
    /// Weakest baseline that it was charged with. `None`: it never was charged.
    idles: Vec<Option<IdleSource>>,
    /// Totals.
    pub(crate) totals: ZoneEnergy,
    /// Whether any window has closed with energy. Until then the totals are not known, and not 0.
    pub(crate) is_known: bool,
}

/// How a window's energy falls into parts.
struct Parts {
    idle: u64,
    active: u64,
    sigma: f64,
    label: IdleSource,
}

impl ZoneSplit {
    /// A zone on a machine with `machine` CPUs, with what calibration knows of it.
    pub(crate) fn new(zone: &Arc<ZoneId>, machine: u32, known: Option<&ZonePower>) -> Self {
        Self {
            zone: Arc::clone(zone),
            cpus: zone.cpus.count(machine).max(1),
            known: known.cloned(),
            baseline: Baseline::default(),
            index: HashMap::new(),
            free: Vec::new(),
            accounts: Vec::new(),
            times: Vec::new(),
            active: Vec::new(),
            rest: Vec::new(),
            bounds: Vec::new(),
            idles: Vec::new(),
            totals: ZoneEnergy { zone: zone.label.clone(), ..ZoneEnergy::default() },
            is_known: false,
        }
    }

    /// Piles up time until the window closes.
    pub(crate) fn work(&mut self, account: Account, time: u64) {
        if time > 0 {
            let slot = self.slot(account);
            self.times[slot] += time;
        }
    }

    fn slot(&mut self, account: Account) -> usize {
        if let Some(slot) = self.index.get(&account) {
            return *slot;
        }
        let slot = self.free.pop().unwrap_or_else(|| {
            self.accounts.push(None);
            self.times.push(0);
            self.active.push(Purse::default());
            self.rest.push(Purse::default());
            self.bounds.push(Bounds::default());
            self.idles.push(None);
            self.accounts.len() - 1
        });
        self.accounts[slot] = Some(account);
        self.index.insert(account, slot);
        slot
    }

    /// Closes a window: its energy goes to those whose time has piled up.
    pub(crate) fn close(&mut self, now: Nanos, spent: &WindowEnergy) -> Result<(), Broken> {
        let all: u64 = self.times.iter().sum();
        let available = u64::from(self.cpus).saturating_mul(spent.elapsed.0).max(1);
        let busy = all as f64 / available as f64;
        let parts = self.parts(spent);
        self.widen(spent, &parts, all, available);
        let outcome = self.hand_out(&parts, all);
        self.book(spent.energy, &parts, outcome.as_ref().ok());
        self.times.fill(0);
        self.is_known = true;
        self.totals.power_uw = None;
        if spent.elapsed.0 > 0 {
            let power = u128::from(spent.energy.0) * 1_000_000_000 / u128::from(spent.elapsed.0);
            self.totals.power_uw = u64::try_from(power).ok();
            if spent.estimate.is_none() {
                self.baseline.observe(now, busy, power as f64);
            }
        }
        outcome.map(|_| ())
    }

    /// Idle and active part. The idle power is the one that was known before this window.
    fn parts(&self, spent: &WindowEnergy) -> Parts {
        let rest = match (&spent.estimate, &self.known) {
            (Some(estimate), _) => Some((estimate.idle, 0, IdleSource::Unknown)),
            (None, Some(known)) => Some((known.idle_uw, known.sigma_uw, IdleSource::Calibrated)),
            (None, None) => self.baseline.rest().map(|rest| (rest.power, rest.sigma, IdleSource::Observed)),
        };
        let (power, sigma, label) = rest.unwrap_or((0, 0, IdleSource::Unknown));
        let of = |power: u64| (u128::from(power) * u128::from(spent.elapsed.0) + 500_000_000) / 1_000_000_000;
        let idle = u64::try_from(of(power)).unwrap_or(u64::MAX).min(spent.energy.0);
        Parts { idle, active: spent.energy.0 - idle, sigma: of(sigma) as f64, label }
    }

    /// Gives each account its microjoules; tells what each column of the totals got. The sum is checked before it counts.
    fn hand_out(&mut self, parts: &Parts, all: u64) -> Result<Columns, Broken> {
        let before = self.columns();
        let rest = divide(parts.active, all, &self.times, &mut self.active).ok_or(Broken)?;
        divide(parts.idle, all, &self.times, &mut self.rest).ok_or(Broken)?;
        let mut got = self.columns();
        got.iter_mut().zip(before).for_each(|(after, before)| *after -= before);
        got[UNEXPLAINED] = rest;
        if got.iter().sum::<u64>() != parts.active {
            return Err(Broken);
        }
        for (_, idle) in self.times.iter().zip(&mut self.idles).filter(|(time, _)| **time > 0) {
            *idle = (*idle).max(Some(parts.label));
        }
        Ok(got)
    }

    /// Adds a window to the totals; one whose sums did not come out even is charged to nobody.
    fn book(&mut self, energy: Microjoules, parts: &Parts, got: Option<&Columns>) {
        let totals = &mut self.totals;
        totals.zone_uj += energy;
        let Some(got) = got else {
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
        for (column, got) in columns.into_iter().zip(got) {
            *column += Microjoules(*got);
        }
    }

    /// What the accounts of each column have got.
    fn columns(&self) -> Columns {
        let mut sums = Columns::default();
        for (account, purse) in self.accounts.iter().zip(&self.active) {
            if let Some(account) = account {
                sums[column(*account)] += purse.given;
            }
        }
        sums
    }

    /// Widens the bounds of each account by this window: by the order in which loads may be thought to have come, by
    /// the energy at the window's edges, and by how well the idle power is known.
    fn widen(&mut self, spent: &WindowEnergy, parts: &Parts, all: u64, available: u64) {
        if all == 0 {
            return;
        }
        let active = parts.active as f64;
        let doubt = spent.energy.0 as f64 * spent.edge + parts.sigma;
        let whole = all as f64 / available as f64;
        let curve = self.known.as_ref().and_then(|known| known.curve.as_ref());
        let dynamic = curve.map(|curve| curve.dynamic(whole)).filter(|dynamic| *dynamic > 0.0);
        for (time, bounds) in self.times.iter().zip(&mut self.bounds).filter(|(time, _)| **time > 0) {
            let share = *time as f64 / all as f64;
            let (low, high) = match (curve, dynamic, spent.estimate) {
                (_, _, Some(estimate)) => (share * estimate.low, share * estimate.high),
                (Some(curve), Some(dynamic), None) => {
                    let (least, most) = curve.marginal(share * whole, whole);
                    ((least / dynamic).clamp(0.0, share), (most / dynamic).max(share))
                }
                // Nobody has measured how power follows load: who did not run alone may have caused nothing, or all.
                _ if *time == all => (share, share),
                _ => (0.0, 1.0),
            };
            bounds.lo += low * (active - doubt).max(0.0);
            bounds.hi += high * (active + doubt);
        }
    }

    /// The energy of the window is not known: its time is charged with nothing.
    pub(crate) fn lose(&mut self, elapsed: Nanos) {
        self.times.fill(0);
        self.totals.power_uw = None;
        self.totals.windows_lost += 1;
        self.totals.lost_ns += elapsed;
    }

    /// What an account has got. `None`: none of the windows in which it did something here has closed.
    pub(crate) fn charge(&self, account: Account) -> Option<Charge> {
        let slot = *self.index.get(&account)?;
        let idle = self.idles[slot]?;
        let (active, rest, bounds) = (self.active[slot].given, self.rest[slot].given, self.bounds[slot]);
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "sums of energies, never negative"
        )]
        let (lo, hi) = (bounds.lo.floor() as u64, bounds.hi.ceil() as u64);
        Some(Charge {
            active: Microjoules(active),
            lo: Microjoules(lo.min(active)),
            hi: Microjoules(hi.max(active)),
            full: Microjoules(active + rest),
            source: self.zone.source,
            idle,
        })
    }

    /// The idle baseline that a window would have now.
    pub(crate) fn idle(&self) -> IdleSource {
        match (&self.known, self.baseline.rest()) {
            _ if self.zone.source == EnergySource::Model => IdleSource::Unknown,
            (Some(_), _) => IdleSource::Calibrated,
            (None, Some(_)) => IdleSource::Observed,
            (None, None) => IdleSource::Unknown,
        }
    }

    /// Whether no time of the account waits to be charged.
    pub(crate) fn is_settled(&self, account: Account) -> bool {
        self.index.get(&account).is_none_or(|slot| self.times[*slot] == 0)
    }

    /// Forgets an account; its place is used again.
    pub(crate) fn forget(&mut self, account: Account) {
        if let Some(slot) = self.index.remove(&account) {
            self.accounts[slot] = None;
            self.times[slot] = 0;
            self.active[slot] = Purse::default();
            self.rest[slot] = Purse::default();
            self.bounds[slot] = Bounds::default();
            self.idles[slot] = None;
            self.free.push(slot);
        }
    }
}

/// Microjoules of each column of the totals but the idle one, in the order of [`ZoneEnergy`].
type Columns = [u64; 7];
/// The last of them.
const UNEXPLAINED: usize = 6;

/// Column of the totals that an account belongs to.
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
