// SPDX-License-Identifier: MIT OR Apache-2.0
//! The machine: counters and losses, energy zones, names, mpwatch's own CPU time, and settings of a run.

pub mod energy;
pub mod machine;
pub mod names;
pub mod overhead;
pub mod setup;
