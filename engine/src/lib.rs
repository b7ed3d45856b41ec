// SPDX-License-Identifier: MIT OR Apache-2.0
//! All that mpwatch computes from the kernel's events: connections ([`tracker`]), shared bottlenecks ([`bottleneck`]), extra subflows
//! to remove ([`elimination`]) and the energy of each flow ([`energy`]); and the reference of the congestion control ([`congestion`]). No
//! I/O and no clock, so a replay ends with the numbers of the live run.

pub mod bottleneck;
pub mod congestion;
pub mod elimination;
pub mod energy;
pub mod tracker;
