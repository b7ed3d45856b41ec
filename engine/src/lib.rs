// SPDX-License-Identifier: MIT OR Apache-2.0
//! Computations on kernel events: connections ([`tracker`]), failed paths and outages (`progress`), shared bottlenecks ([`bottleneck`]) and
//! the energy of each flow ([`energy`]). No code here does I/O or reads a clock, so a replay gives the same results as the live run.

pub mod bottleneck;
pub mod energy;
mod progress;
pub mod tracker;
pub mod why;
