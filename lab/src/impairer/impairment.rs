// SPDX-License-Identifier: MIT OR Apache-2.0
//! Parameters and counters of an impairer, per direction: plain values.

use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The direction of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the first interface to the second; in a topology, from client to server.
    Forward,
    /// From the second interface to the first.
    Backward,
}

impl Direction {
    pub(crate) const BOTH: [Self; 2] = [Self::Forward, Self::Backward];
}

/// Delay, jitter, loss and corruption of the packets of a direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Impairment {
    /// Base delay, one-way.
    pub delay: Duration,
    /// Maximum additional delay. It never reorders packets. The relay's jitter changes smoothly. `netem` chooses each packet's delay
    /// independently; a packet that would overtake its predecessor leaves directly after it, so most packets of a dense stream have a
    /// long delay.
    pub jitter: Duration,
    /// Probability 0 to 1 that a packet is lost. The relay drops TCP packets only; `netem` also drops neighbour discovery.
    pub loss: f64,
    /// The relay changes the payload of this TCP segment and corrects TCP's checksum; 0: none. Segments with payload are counted from 1. A
    /// topology with this uses the relay on every kernel, because netem cannot do it.
    #[serde(default)]
    pub corrupt_nth: u32,
    /// Seed of the relay's random numbers: the same seed gives the same losses and jitter. The `tc` of Debian 12 cannot set
    /// the seed of `netem`.
    pub seed: u64,
}

impl Impairment {
    /// An impairment that only delays.
    #[must_use]
    pub fn delay(delay: Duration) -> Self {
        Self { delay, ..Self::default() }
    }
}

/// Counters of one direction since the start of the impairer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ImpairerCounters {
    /// Packets forwarded.
    pub forwarded: u64,
    /// Bytes forwarded, including Ethernet headers.
    pub forwarded_bytes: u64,
    /// Packets dropped on purpose.
    pub lost: u64,
    /// Packets with changed payload.
    pub corrupted: u64,
    /// Packets dropped by the full queue of the outgoing interface: the drops of the bottleneck.
    pub queue_drops: u64,
    /// Packets dropped because too many were delayed; 0 unless the relay is far too slow for the load. `netem` counts them as
    /// lost; it has room for 100 000.
    pub overflowed: u64,
}
