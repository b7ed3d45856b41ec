// SPDX-License-Identifier: MIT OR Apache-2.0
//! What one direction of a stretch of network does to packets: a plain value. Who does it is `impairer.rs`.

use serde::{Deserialize, Serialize};
use std::time::Duration;

/// What one direction does to packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Impairment {
    /// Base delay, one way.
    pub delay: Duration,
    /// Extra delay between 0 and this, never reordering packets. The relay's wanders smoothly; `netem` draws each packet's
    /// anew, and a packet whose turn would come before its predecessor's leaves right behind it, so that in a dense stream
    /// most wait long.
    pub jitter: Duration,
    /// Probability 0 to 1 that a packet is lost. The relay loses TCP packets only; `netem` also what neighbour discovery
    /// sends.
    pub loss: f64,
    /// Where the relay's random sequences start: equal seeds lose the same packets and jitter alike. The `tc`
    /// of Debian 12 cannot set that of `netem`.
    pub seed: u64,
}

impl Impairment {
    /// Delay only.
    #[must_use]
    pub fn delay(delay: Duration) -> Self {
        Self { delay, ..Self::default() }
    }
}
