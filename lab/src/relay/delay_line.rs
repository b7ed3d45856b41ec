// SPDX-License-Identifier: MIT OR Apache-2.0
//! When a packet leaves, or whether it is lost: the arithmetic of the relay, without sockets or clocks.
//! Jitter wanders smoothly, so packets never overtake one another (a reordering network is not modelled).

use crate::impairer::Impairment;
use crate::random::{Random, unit_at};
use std::time::Duration;

/// Jitter takes a new random value this often, or every two jitters if that is longer; it moves linearly
/// between, so it never falls faster than time passes.
const KNOT: u64 = 20_000_000;

/// Decides for one direction. Times are nanoseconds of any steady clock.
#[derive(Debug)]
pub(super) struct DelayLine {
    pub(super) rule: Impairment,
    losses: Random,
    start: u64,
    latest: u64,
}

impl DelayLine {
    pub(super) fn new(rule: Impairment, start: u64) -> Self {
        Self { rule, losses: Random::new(rule.seed), start, latest: 0 }
    }

    /// Whether the next TCP packet is lost.
    pub(super) fn loses(&mut self) -> bool {
        self.rule.loss > 0.0 && self.losses.unit() < self.rule.loss
    }

    /// When a packet that arrived at `arrival` leaves.
    pub(super) fn release(&mut self, arrival: u64) -> u64 {
        let due = arrival + nanos(self.rule.delay) + self.jitter_at(arrival);
        // Only a rule that was changed on the way can make this bite.
        self.latest = self.latest.max(due);
        self.latest
    }

    fn jitter_at(&self, now: u64) -> u64 {
        let jitter = nanos(self.rule.jitter);
        if jitter == 0 {
            return 0;
        }
        let knot = KNOT.max(2 * jitter);
        let since = now.saturating_sub(self.start);
        let (position, within) = (since / knot, (since % knot) as f64 / knot as f64);
        let (from, to) = (unit_at(self.rule.seed, position), unit_at(self.rule.seed, position + 1));
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
        let rule = Impairment {
            delay: Duration::from_millis(10),
            jitter: Duration::from_millis(jitter_ms),
            loss,
            seed,
        };
        DelayLine::new(rule, 0)
    }

    #[test]
    fn without_jitter_every_packet_waits_the_same() {
        let mut line = line(0, 0.0, 1);
        assert_eq!(line.release(5), 10_000_005);
        assert_eq!(line.release(6), 10_000_006);
    }

    #[test]
    fn jitter_stays_in_its_range_uses_it_and_keeps_the_order() {
        let mut line = line(50, 0.0, 7);
        let waits: Vec<u64> = (0..100_000)
            .map(|step| step * 100_000)
            .map(|at| (at, line.release(at)))
            .scan(0, |latest, (at, due)| {
                assert!(due >= *latest);
                *latest = due;
                Some(due - at)
            })
            .collect();
        let (least, most) = (waits.iter().min().unwrap(), waits.iter().max().unwrap());
        assert!((10_000_000..15_000_000).contains(least), "{least}");
        assert!((55_000_000..=60_000_000).contains(most), "{most}");
    }

    #[test]
    fn losses_repeat_with_the_seed_and_hit_the_rate() {
        let pattern = |seed| -> Vec<bool> {
            let mut line = line(0, 0.02, seed);
            (0..50_000).map(|_| line.loses()).collect()
        };
        assert_eq!(pattern(3), pattern(3));
        assert_ne!(pattern(3), pattern(4));
        let lost = pattern(3).iter().filter(|lost| **lost).count();
        assert!((900..1100).contains(&lost), "{lost}");
    }
}
