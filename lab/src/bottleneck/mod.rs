// SPDX-License-Identifier: MIT OR Apache-2.0
//! Scenarios with known shared bottlenecks. `./dev bench bottleneck` and `mpwatch study run detection` measure methods on them.

pub mod cell;
pub mod grid;
pub mod network;
