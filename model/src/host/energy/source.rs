// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sources of energy figures, and reasons for which a figure is missing.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::words::json_words;

json_words! {
    /// Source of the energy figures. The two `rapl` sources are measurements. All other sources are estimates, and outputs mark them as such.
    #[derive(Default, PartialOrd, Ord)]
    pub enum EnergySource {
        /// RAPL counters, read through the kernel's `power` PMU (`perf_event_open`).
        RaplPerf = "rapl-perf",
        /// RAPL counters, read from `/sys/class/powercap`.
        RaplPowercap = "rapl-powercap",
        /// The share of this virtual machine in the energy of its host, as the host estimates it.
        VmShare = "vm-share",
        /// Simulated counters, for demonstrations and tests.
        Simulated = "simulated",
        /// CPU time multiplied by the typical power of this CPU model; no counter was read.
        Model = "model",
        /// No energy figures are available.
        #[default]
        Absent = "absent",
    }
}

impl EnergySource {
    /// Whether the numbers come from hardware counters of this machine.
    pub fn is_measured(self) -> bool {
        matches!(self, Self::RaplPerf | Self::RaplPowercap)
    }

    /// The mark before a figure: `~` for estimates, empty otherwise.
    pub fn mark(self) -> &'static str {
        if self.is_measured() { "" } else { "~" }
    }
}

json_words! {
    /// How energy that several causes share is divided. Any division is a convention, so `lo_uj` and `hi_uj` give the bounds.
    #[derive(Default)]
    pub enum Convention {
        /// Energy above idle, in proportion to exclusive CPU time.
        #[default]
        CpuTime = "cpu-time",
        /// As `cpu-time`, but CPU time is measured only in windows, and is estimated between windows from packets and payload. The bounds include
        /// the error of the estimate.
        SampledCpuTime = "sampled-cpu-time",
    }
}

json_words! {
    /// Source of the idle power, which is subtracted from the power of the machine.
    #[derive(Default, PartialOrd, Ord)]
    pub enum IdleSource {
        /// Measured by `mpwatch calibrate` on this machine in this configuration.
        Calibrated = "calibrated",
        /// Measured in those periods of the last minutes in which the CPUs were less than 3 % busy.
        Observed = "observed",
        /// Read from a line fitted to power and load in the windows of the last hour, for machines that are never idle.
        Fitted = "fitted",
        /// Unknown. `active_uj` is then `null`, unless the source is `model`, whose estimate includes the idle power.
        #[default]
        Unknown = "unknown",
    }
}

/// Why the energy of a window is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LostReason {
    /// The window was so long that the counter may have wrapped more than once.
    Ambiguous,
    /// The counter went backwards, or advanced by more than any possible power explains.
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
