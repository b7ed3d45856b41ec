// SPDX-License-Identifier: MIT OR Apache-2.0
//! CPU time that mpwatch itself uses.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// CPU time that mpwatch itself uses, and the limit that is set for it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Overhead {
    /// Share of the CPU time of all CPUs, 0 to 1, smoothed over about four snapshots. It includes the process of mpwatch (counted by the kernel,
    /// without serving clients) and its BPF programs (number of runs, times the estimated time per run).
    pub ratio: f64,
    /// Maximum of `ratio` (`trace.budget`). `null`: there is no limit.
    pub budget: Option<f64>,
    /// Number of reductions in force to keep the budget, 0 to 5. `host.missing` lists the values that are less precise.
    pub reductions: u8,
}
