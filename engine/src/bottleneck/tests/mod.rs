// SPDX-License-Identifier: MIT OR Apache-2.0
//! Verdicts on simulated traffic, robustness, and properties that hold for any samples.

mod backoff;
mod caps;
pub(crate) mod detection;
mod invariants;
mod published;
mod robustness;
pub(crate) mod simulator;
mod verdicts;
