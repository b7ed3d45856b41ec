// SPDX-License-Identifier: MIT OR Apache-2.0
//! The machine: counters and losses, zones of energy, names, and how a run was made.

pub mod energy;
pub mod machine;
pub mod names;
pub mod overhead;
pub mod setup;
