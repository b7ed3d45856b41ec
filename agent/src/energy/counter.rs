// SPDX-License-Identifier: MIT OR Apache-2.0
//! Computes energy from successive values of a counter, which may wrap or be reset.

use mpwatch_model::host::energy::LostReason;
use mpwatch_model::unit::{Microjoules, Nanos};

/// Assumed upper bound of the long-term power of a package, microwatts, unless twice its reported limit is higher.
const MAX_POWER: u64 = 500_000_000;
/// Highest short peak relative to the long-term bound, in tenths.
const PEAK_TENTHS: u64 = 12;

#[derive(Clone, Debug)]
pub(crate) struct Counter {
    /// Value at which the counter wraps, microjoules. `None`: unknown.
    modulus: Option<u64>,
    /// Highest plausible power, microwatts.
    peak: u64,
    /// The previous value, microjoules. `None`: there is none, or it was discarded.
    pub(crate) last: Option<u64>,
}

impl Counter {
    /// `max`: `max_energy_range_uj`. `limit`: the power limit of the package, microwatts. `None`: unknown.
    pub(crate) fn new(max: Option<u64>, limit: Option<u64>) -> Self {
        let limit = limit.map_or(MAX_POWER, |limit| MAX_POWER.max(limit.saturating_mul(2)));
        let peak = (limit / 10).saturating_mul(PEAK_TENTHS);
        Self { modulus: max.filter(|max| *max > 0).map(modulus), peak, last: None }
    }

    /// The midpoint of two values that were read shortly after each other.
    pub(crate) fn midpoint(before: u64, after: u64) -> u64 {
        // If the counter wrapped between the readings, the later value is close enough.
        if after >= before { before + (after - before) / 2 } else { after }
    }

    /// Energy since the previous value, which was read `elapsed` ago, or why it is unknown. `None`: there is no previous value.
    pub(crate) fn step(&mut self, value: u64, elapsed: Nanos) -> Option<Result<Microjoules, LostReason>> {
        let last = self.last.replace(value)?;
        let max_energy = u128::from(self.peak) * u128::from(elapsed.0) / 1_000_000_000;
        if self.modulus.is_some_and(|modulus| max_energy > u128::from(modulus)) {
            return Some(Err(LostReason::Ambiguous));
        }
        let energy = match self.modulus {
            _ if value >= last => value - last,
            Some(modulus) if last < modulus => modulus - last + value,
            _ => return Some(Err(LostReason::Backwards)),
        };
        // The hardware may update a counter late, so one joule more is accepted.
        if u128::from(energy) > max_energy + 1_000_000 {
            return Some(Err(LostReason::Backwards));
        }
        Some(Ok(Microjoules(energy)))
    }
}

/// The range plus one count. Registers have 32 bits, so a count is the range divided by 2^32 - 1.
fn modulus(max: u64) -> u64 {
    let counts = u64::from(u32::MAX);
    max.saturating_add(max.saturating_add(counts / 2) / counts)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Nanos = Nanos(1_000_000_000);

    fn steps(max: Option<u64>, values: &[u64]) -> Vec<Option<Result<Microjoules, LostReason>>> {
        let mut counter = Counter::new(max, None);
        values.iter().map(|value| counter.step(*value, SECOND)).collect()
    }

    #[test]
    fn the_modulus_of_real_ranges_is_one_count_more() {
        assert_eq!(modulus(262_143_328_850), 262_143_328_911);
        assert_eq!(modulus(65_532_610_987), 65_532_611_002);
        assert_eq!(modulus(65_712_999_613), 65_712_999_628);
        assert_eq!(modulus(262_143_999_938), 262_143_999_999);
    }

    #[test]
    fn the_largest_range_and_power_limit_are_accepted() {
        let mut counter = Counter::new(Some(u64::MAX), Some(u64::MAX));
        let found = [5, 9].map(|value| counter.step(value, SECOND));
        assert_eq!(found, [None, Some(Ok(Microjoules(4)))]);
    }

    #[test]
    fn a_wrap_loses_no_energy() {
        let found = steps(Some(262_143_328_850), &[262_143_328_850, 61 * 3]);
        assert_eq!(found, [None, Some(Ok(Microjoules(61 + 61 * 3)))]);
    }

    #[test]
    fn a_backwards_step_of_a_counter_with_unknown_range_is_lost() {
        let back = Some(Err(LostReason::Backwards));
        assert_eq!(steps(None, &[500, 400, 450]), [None, back, Some(Ok(Microjoules(50)))]);
    }

    #[test]
    fn a_jump_beyond_the_highest_power_is_lost() {
        // A counter that was set back by 1 kJ looks as if it had wrapped, which would mean 261 kW.
        let found = steps(Some(262_143_328_850), &[100_000_000_000, 99_000_000_000, 99_010_000_000]);
        assert_eq!(found[1], Some(Err(LostReason::Backwards)));
        assert_eq!(found[2], Some(Ok(Microjoules(10_000_000))));
    }

    #[test]
    fn a_window_that_may_include_two_wraps_is_lost() {
        let mut counter = Counter::new(Some(65_532_610_987), None);
        counter.step(0, SECOND);
        assert_eq!(counter.step(1_000_000, Nanos(200 * SECOND.0)), Some(Err(LostReason::Ambiguous)));
        assert_eq!(counter.step(2_000_000, Nanos(60 * SECOND.0)), Some(Ok(Microjoules(1_000_000))));
    }

    #[test]
    fn the_midpoint_ignores_a_reading_before_a_wrap() {
        assert_eq!((Counter::midpoint(10, 20), Counter::midpoint(100, 3)), (15, 3));
    }
}
