// SPDX-License-Identifier: MIT OR Apache-2.0
//! Computations on kernel events: connections ([`tracker`]), failed paths and outages (`progress`), shared bottlenecks ([`bottleneck`]) and
//! the energy of each flow ([`energy`]). No I/O and no clock, so a replay ends with the numbers of the live run.

pub mod bottleneck;
pub mod energy;
mod progress;
pub mod tracker;
