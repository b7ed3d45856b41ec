// SPDX-License-Identifier: MIT OR Apache-2.0
//! Verdicts on simulated traffic, robustness, and properties that hold for any samples.

mod backoff;
mod delays;
mod detection;
mod invariants;
mod partition;
mod pool;
mod robustness;
mod verdicts;
