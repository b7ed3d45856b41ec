// SPDX-License-Identifier: MIT OR Apache-2.0
//! Parameters and counters of one direction of an impairer.

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
    /// Constant part of the one-way delay.
    pub delay: Duration,
    /// Maximum additional delay. Jitter never reorders packets. The relay changes the delay smoothly. `netem` chooses each packet's delay
    /// independently but never sends a packet before its predecessor, so most packets of a dense stream have a long delay.
    pub jitter: Duration,
    /// Probability that a packet is lost, 0 to 1. The relay drops only TCP packets; `netem` also drops neighbour discovery.
    pub loss: f64,
    /// Number of the TCP segment whose payload the relay changes; only segments with payload count, from 1. 0: none. TCP's checksum stays
    /// correct. A topology with a value above 0 uses the relay on every kernel, because netem cannot change payload.
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
    /// Packets dropped by the full queue of the outgoing interface, as in a bottleneck.
    pub queue_drops: u64,
    /// Packets that the outgoing interface refused: it is down, or the packet is longer than its MTU. 0 for `netem`.
    pub refused: u64,
    /// Packets dropped because the buffer of delayed packets was full; 0 unless the relay is too slow for the load. `netem` counts them as
    /// lost; its buffer has room for 100 000 packets.
    pub overflowed: u64,
}
