// SPDX-License-Identifier: MIT OR Apache-2.0
//! Computes when the relay sends a packet, and whether the relay drops the packet. Uses no sockets and no clocks.
//! Jitter changes smoothly, so packets are never reordered.

use crate::impairer::impairment::Impairment;
use crate::random::{Random, unit_at};
use std::time::Duration;

/// Nanoseconds between two random values of the jitter (twice the maximum jitter if that is longer). In between, the jitter is
/// interpolated linearly, so the delay never decreases faster than time passes.
const KNOT_INTERVAL: u64 = 20_000_000;

/// Delay and losses of one direction. All times are in nanoseconds of the same monotonic clock.
#[derive(Debug)]
pub(super) struct DelayLine {
    pub(super) impairment: Impairment,
    losses: Random,
    start: u64,
    latest: u64,
}

impl DelayLine {
    pub(super) fn new(impairment: Impairment, start: u64) -> Self {
        Self { impairment, losses: Random::new(impairment.seed), start, latest: 0 }
    }

    /// Whether to drop the next TCP packet.
    pub(super) fn drops_next(&mut self) -> bool {
        self.impairment.loss > 0.0 && self.losses.unit() < self.impairment.loss
    }

    /// The time at which to send a packet that arrived at `arrival`.
    pub(super) fn send_time(&mut self, arrival: u64) -> u64 {
        let due = arrival + nanos(self.impairment.delay) + self.jitter_at(arrival);
        // Keeps the order of packets after a change of the impairment.
        self.latest = self.latest.max(due);
        self.latest
    }

    fn jitter_at(&self, now: u64) -> u64 {
        let jitter = nanos(self.impairment.jitter);
        if jitter == 0 {
            return 0;
        }
        let knot = KNOT_INTERVAL.max(2 * jitter);
        let since = now.saturating_sub(self.start);
        let (position, within) = (since / knot, (since % knot) as f64 / knot as f64);
        let (from, to) =
            (unit_at(self.impairment.seed, position), unit_at(self.impairment.seed, position + 1));
        (jitter as f64 * (from + (to - from) * within)) as u64
    }
}

pub(super) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Whether an Ethernet frame carries TCP (over IPv4, or over IPv6 without extension headers).
pub(super) fn is_tcp(frame: &[u8]) -> bool {
    const TCP: u8 = 6;
    match frame.get(12..14) {
        Some([0x08, 0x00]) => frame.get(23) == Some(&TCP),
        Some([0x86, 0xdd]) => frame.get(20) == Some(&TCP),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(jitter_ms: u64, loss: f64, seed: u64) -> DelayLine {
        let impairment = Impairment {
            delay: Duration::from_millis(10),
            jitter: Duration::from_millis(jitter_ms),
            loss,
            seed,
            ..Impairment::default()
        };
        DelayLine::new(impairment, 0)
    }

    #[test]
    fn without_jitter_every_packet_has_the_same_delay() {
        let mut line = line(0, 0.0, 1);
        assert_eq!(line.send_time(5), 10_000_005);
        assert_eq!(line.send_time(6), 10_000_006);
    }

    #[test]
    fn jitter_covers_its_range_and_keeps_the_order() {
        let mut line = line(50, 0.0, 7);
        let delays: Vec<u64> = (0..100_000)
            .map(|step| step * 100_000)
            .map(|at| (at, line.send_time(at)))
            .scan(0, |latest, (at, due)| {
                assert!(due >= *latest);
                *latest = due;
                Some(due - at)
            })
            .collect();
        let (min, max) = (delays.iter().min().unwrap(), delays.iter().max().unwrap());
        assert!((10_000_000..15_000_000).contains(min), "{min}");
        assert!((55_000_000..=60_000_000).contains(max), "{max}");
    }

    #[test]
    fn losses_are_reproducible_and_have_the_configured_rate() {
        let pattern = |seed| -> Vec<bool> {
            let mut line = line(0, 0.02, seed);
            (0..50_000).map(|_| line.drops_next()).collect()
        };
        assert_eq!(pattern(3), pattern(3));
        assert_ne!(pattern(3), pattern(4));
        let lost = pattern(3).iter().filter(|lost| **lost).count();
        assert!((900..1100).contains(&lost), "{lost}");
    }
}
