// SPDX-License-Identifier: MIT OR Apache-2.0
//! Units of metrics.

/// Base unit of a metric's value. The name of the metric ends with the unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Bytes.
    Bytes,
    /// Seconds.
    Seconds,
    /// Bits per second.
    BitsPerSecond,
    /// A fraction of one.
    Ratio,
    /// TCP segments.
    Segments,
    /// Joules.
    Joules,
    /// Watts.
    Watts,
    /// Joules per gigabyte (10^9) of payload.
    JoulesPerGigabyte,
    /// A plain number.
    Count,
}

impl Unit {
    /// Whether all counters in this unit start with tracing, because mpwatch counts them. The kernel counts most others from the start of the flow.
    pub fn starts_with_tracing(self) -> bool {
        matches!(self, Self::Joules | Self::Seconds)
    }

    /// Whether values in this unit may be estimates.
    pub fn is_energy(self) -> bool {
        matches!(self, Self::Joules | Self::JoulesPerGigabyte)
    }
}
