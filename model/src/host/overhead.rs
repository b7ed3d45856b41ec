// SPDX-License-Identifier: MIT OR Apache-2.0
//! What mpwatch costs the machine that it traces.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What mpwatch costs the machine that it traces, and the limit that is set for it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Overhead {
    /// Share of the CPU time of all CPUs, 0 to 1, smoothed over about four snapshots: the CPU time of its process, as the kernel counts it,
    /// and its programs in the kernel, whose runs are counted and whose time per run is an estimate.
    pub ratio: f64,
    /// Highest share that is allowed (`trace.budget`). `null`: there is no limit.
    pub budget: Option<f64>,
    /// Steps that were taken to keep the budget: 0 to 5. `host.missing` says what is less precise.
    pub reductions: u8,
}
