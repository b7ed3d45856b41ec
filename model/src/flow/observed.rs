// SPDX-License-Identifier: MIT OR Apache-2.0
//! The observed part of a flow's life. CPU time and energy are known only for this part, so ratios divide by its payload.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::unit::{BitsPerSecond, Bytes, Nanos};

/// The part of a flow's life in which mpwatch traced it: its whole life, unless it was opened before mpwatch started, or mpwatch was restarted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Observed {
    /// Payload sent and received while observed, each byte once (for a subflow: once on this subflow), without FIN and DATA_FIN. If the flow was
    /// already open when tracing began, sent payload counts once it is acknowledged, so payload that was in flight at that time is included.
    pub bytes: Bytes,
    /// The part of `bytes` that was sent.
    pub bytes_sent: Bytes,
    /// Observed time in nanoseconds: from the opening (if not traced: from when the flow was first seen) to this snapshot, or to the end of the
    /// connection, without times in which mpwatch was not running.
    #[serde(rename = "duration_ns")]
    pub duration: Nanos,
    /// Total length of the intervals between two snapshots in which the flow carried payload, nanoseconds.
    #[serde(rename = "active_ns")]
    pub active: Nanos,
    /// Estimated bytes on the wire while observed, in both directions, headers included; for a connection, the sum over all its subflows.
    pub wire_bytes_estimate: Bytes,
}

impl Observed {
    /// Goodput: payload over time. `None`: no time was observed.
    pub fn goodput(&self) -> Option<BitsPerSecond> {
        (self.duration.0 > 0).then(|| self.bytes.per(self.duration))
    }

    /// Goodput without the intervals in which the flow carried no payload. `None`: it carried no payload at all.
    pub fn active_goodput(&self) -> Option<BitsPerSecond> {
        (self.active.0 > 0).then(|| self.bytes.per(self.active))
    }

    /// The sum of two parts of a flow, or of two flows.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            bytes: self.bytes + other.bytes,
            bytes_sent: self.bytes_sent + other.bytes_sent,
            duration: self.duration + other.duration,
            active: self.active + other.active,
            wire_bytes_estimate: self.wire_bytes_estimate + other.wire_bytes_estimate,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goodput_is_payload_over_observed_time() {
        let half_idle = Observed {
            bytes: Bytes(1_000_000),
            bytes_sent: Bytes(1_000_000),
            duration: Nanos(2_000_000_000),
            active: Nanos(1_000_000_000),
            wire_bytes_estimate: Bytes(0),
        };
        assert_eq!(half_idle.goodput(), Some(BitsPerSecond(4_000_000)));
        assert_eq!(half_idle.active_goodput(), Some(BitsPerSecond(8_000_000)));
        assert_eq!(half_idle.plus(half_idle).goodput(), half_idle.goodput());
        assert_eq!(Observed::default().goodput(), None);
        assert_eq!(Observed::default().active_goodput(), None);
    }
}
