// SPDX-License-Identifier: MIT OR Apache-2.0
//! Energy of real traffic with simulated energy counters: scenarios, their true CPU time and energy, and what mpwatch charges. The bench
//! `ledger` and the tests of energy share it.

pub mod processes;
pub mod run;
pub mod scenario;
pub mod simulated_counters;
pub mod stacks;
