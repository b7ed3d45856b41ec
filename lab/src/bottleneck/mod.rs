// SPDX-License-Identifier: MIT OR Apache-2.0
//! Scenarios with known shared bottlenecks, on which `./dev bench bottleneck` and `mpwatch study run detection` measure methods.

pub mod cell;
pub mod grid;
pub mod network;
