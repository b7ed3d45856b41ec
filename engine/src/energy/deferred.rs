// SPDX-License-Identifier: MIT OR Apache-2.0
//! Energy of windows in which the idle power was unknown. An account gets its share of the whole energy; when the idle power becomes known, the
//! idle part is moved from its energy above idle to its idle energy. The zone's totals do not change, because counters must not decrease.

use super::baseline::IdlePower;

/// Share of an account in windows with unknown idle power.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Deferred {
    /// Sum of the lengths of the windows, each multiplied by the account's share, in seconds.
    share: f64,
    /// Sum of the lengths of the windows, seconds.
    length: f64,
}

impl Deferred {
    /// Adds a window of `length` seconds.
    pub(crate) fn add(&mut self, share: f64, length: f64) {
        self.share += share * length;
        self.length += length;
    }

    /// The idle energy in the account's share, and the amount by which its upper bound decreases, in microjoules.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "energies, never negative")]
    pub(crate) fn settle(self, idle: IdlePower) -> (u64, f64) {
        ((idle.power as f64 * self.share).round() as u64, idle.lo as f64 * self.length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_idle_part_is_taken_by_the_share_of_time() {
        let mut deferred = Deferred::default();
        deferred.add(0.25, 1.0);
        deferred.add(0.1, 2.0);
        let idle = IdlePower { power: 20_000_000, lo: 19_000_000, hi: 21_000_000 };
        let (part, less) = deferred.settle(idle);
        assert_eq!(part, 9_000_000);
        assert!((less - 57e6).abs() < 1e-3);
        assert_eq!(Deferred::default().settle(idle).0, 0);
    }
}
