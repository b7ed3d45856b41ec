// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where energy figures come from, and why one is missing.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Where joules come from. All sources but the two `rapl` ones are estimates, and outputs mark them as such.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum EnergySource {
    /// RAPL counters, read through the kernel's `power` PMU (`perf_event_open`).
    RaplPerf,
    /// RAPL counters, read from `/sys/class/powercap`.
    RaplPowercap,
    /// A virtual machine's share as its host estimates it.
    VmShare,
    /// Simulated counters, for demonstrations and tests.
    Simulated,
    /// CPU time multiplied by the typical power of this CPU model; no counter was read.
    Model,
    /// No energy figures are available.
    #[default]
    Absent,
}

impl EnergySource {
    /// Whether the numbers come from hardware counters of this machine.
    pub fn is_measured(self) -> bool {
        matches!(self, Self::RaplPerf | Self::RaplPowercap)
    }

    /// Its name in JSON and on screens.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::RaplPerf => "rapl-perf",
            Self::RaplPowercap => "rapl-powercap",
            Self::VmShare => "vm-share",
            Self::Simulated => "simulated",
            Self::Model => "model",
            Self::Absent => "absent",
        }
    }
}

/// How energy that several causes share is divided. No division is the only right one, so `lo_uj` and `hi_uj` give the bounds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Convention {
    /// Energy above idle, in proportion to exclusive CPU time.
    #[default]
    CpuTime,
}

impl Convention {
    /// Its name in JSON and in the store.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::CpuTime => "cpu-time",
        }
    }
}

/// Where the subtracted idle power comes from.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum IdleSource {
    /// From `mpwatch calibrate` on this machine in this configuration.
    Calibrated,
    /// From periods of the last minutes in which the CPUs were less than 3 % busy.
    Observed,
    /// Not measured. With counters, `active_uj` is then an upper bound that includes all idle energy; with the source `model` it is the
    /// model's estimate.
    #[default]
    Unknown,
}

impl IdleSource {
    /// Its name in JSON and as a label.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Calibrated => "calibrated",
            Self::Observed => "observed",
            Self::Unknown => "unknown",
        }
    }
}

/// Why the energy of a window is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LostReason {
    /// The window was so long that the counter may have wrapped more than once.
    Ambiguous,
    /// The counter went backwards, or jumped further than any power explains.
    Backwards,
    /// The zone disappeared (package offline, module unloaded).
    Vanished,
    /// The machine was suspended.
    Suspended,
    /// The counter did not advance while the machine was busy.
    Stuck,
    /// The counter could not be read.
    Unreadable,
}
