// SPDX-License-Identifier: MIT OR Apache-2.0
//! Energy of real traffic with simulated energy counters: scenarios, true CPU time and energy, and the charges of mpwatch. Used by the
//! bench `ledger` and by tests of energy.

pub mod processes;
pub mod run;
pub mod scenario;
pub mod simulated_counters;
pub mod stacks;
