// SPDX-License-Identifier: MIT OR Apache-2.0
//! Energy of real traffic with simulated energy counters: scenarios, their true CPU time and energy, and the charges of mpwatch. For the
//! bench `ledger` and the tests of energy.

pub mod processes;
pub mod run;
pub mod scenario;
pub mod simulated_counters;
pub mod stacks;
