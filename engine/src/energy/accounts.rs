// SPDX-License-Identifier: MIT OR Apache-2.0
//! The accounts of one zone. Each account keeps its slot until it is removed: the rounding of energies depends on the order of the slots.

use std::collections::HashMap;

use mpwatch_model::host::energy::IdleSource;
use slab::Slab;

use super::apportion::Share;
use super::deferred::Deferred;
use super::ledger::Account;

/// The CPU time and energy of one account.
#[derive(Default)]
pub(crate) struct AccountState {
    pub(crate) account: Account,
    /// CPU time in the open window, nanoseconds.
    pub(crate) time: u64,
    /// Energy above idle.
    pub(crate) active: Share,
    pub(crate) idle: Share,
    /// Bounds of the energy above idle, summed over windows, in microjoules.
    pub(crate) lo: f64,
    pub(crate) hi: f64,
    pub(crate) deferred: Deferred,
    /// Least reliable source of the idle power in the windows with CPU time of this account. `None`: no such window was closed.
    pub(crate) idle_source: Option<IdleSource>,
}

#[derive(Default)]
pub(crate) struct Accounts {
    slots: HashMap<Account, usize>,
    states: Slab<AccountState>,
}

impl Accounts {
    /// Adds CPU time to the open window.
    pub(crate) fn add_time(&mut self, account: Account, time: u64) {
        if time == 0 {
            return;
        }
        let new = || self.states.insert(AccountState { account, ..AccountState::default() });
        let slot = *self.slots.entry(account).or_insert_with(new);
        self.states[slot].time += time;
    }

    pub(crate) fn get(&self, account: Account) -> Option<&AccountState> {
        self.states.get(*self.slots.get(&account)?)
    }

    pub(crate) fn remove(&mut self, account: Account) {
        if let Some(slot) = self.slots.remove(&account) {
            self.states.remove(slot);
        }
    }

    pub(crate) fn all_mut(&mut self) -> impl Iterator<Item = &mut AccountState> {
        self.states.iter_mut().map(|(_, state)| state)
    }
}
