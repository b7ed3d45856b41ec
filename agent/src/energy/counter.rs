// SPDX-License-Identifier: MIT OR Apache-2.0
//! From the values of a counter to energy: wraps, jumps, and when nobody can tell. Pure.

use mpwatch_model::energy::LostReason;
use mpwatch_model::unit::{Microjoules, Nanos};

/// No package of a server draws more in the long run, microwatts.
const MOST_POWER: u64 = 500_000_000;
/// Short peaks above the long-run limit, in tenths of it.
const PEAK_TENTHS: u64 = 12;

/// What a new value tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Nothing to compare with yet.
    First,
    /// Energy since the value before.
    Energy(Microjoules),
    /// The energy is not known.
    Lost(LostReason),
}

/// One counter's past.
#[derive(Clone, Debug)]
pub(crate) struct Counter {
    /// Number of values it runs through, microjoules. `None`: not known.
    modulus: Option<u64>,
    /// Most power that is believed, microwatts.
    peak: u64,
    last: Option<u64>,
}

impl Counter {
    /// By `max_energy_range_uj` and the package's power limit in microwatts, where they are known.
    pub(crate) fn new(max: Option<u64>, limit: Option<u64>) -> Self {
        let limit = limit.map_or(MOST_POWER, |limit| MOST_POWER.max(limit.saturating_mul(2)));
        let peak = limit / 10 * PEAK_TENTHS;
        Self { modulus: max.filter(|max| *max > 0).map(modulus), peak, last: None }
    }

    /// Begins anew: the next value is the first.
    pub(crate) fn forget(&mut self) {
        self.last = None;
    }

    /// Value before.
    pub(crate) fn last(&self) -> Option<u64> {
        self.last
    }

    /// Between two values that were read shortly one after the other.
    pub(crate) fn between(before: u64, after: u64) -> u64 {
        // Where it wrapped between them, the later one is as good.
        if after >= before { before + (after - before) / 2 } else { after }
    }

    /// Takes in a value, `elapsed` after the one before.
    pub(crate) fn step(&mut self, value: u64, elapsed: Nanos) -> Step {
        let Some(last) = self.last.replace(value) else { return Step::First };
        let most = u128::from(self.peak) * u128::from(elapsed.0) / 1_000_000_000;
        if self.modulus.is_some_and(|modulus| most > u128::from(modulus)) {
            return Step::Lost(LostReason::Ambiguous);
        }
        let energy = match self.modulus {
            _ if value >= last => value - last,
            Some(modulus) if last < modulus => modulus - last + value,
            _ => return Step::Lost(LostReason::Backwards),
        };
        // What a counter holds in its last instant may come a moment late: a joule is not looked at.
        if u128::from(energy) > most + 1_000_000 {
            return Step::Lost(LostReason::Backwards);
        }
        Step::Energy(Microjoules(energy))
    }
}

/// The range and one count: registers have 32 bits, so a count is the range over 2^32 - 1.
fn modulus(max: u64) -> u64 {
    let counts = u64::from(u32::MAX);
    max.saturating_add((max + counts / 2) / counts)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Nanos = Nanos(1_000_000_000);

    fn steps(max: Option<u64>, values: &[u64]) -> Vec<Step> {
        let mut counter = Counter::new(max, None);
        values.iter().map(|value| counter.step(*value, SECOND)).collect()
    }

    #[test]
    fn ranges_of_real_machines_give_their_count() {
        assert_eq!(modulus(262_143_328_850), 262_143_328_911);
        assert_eq!(modulus(65_532_610_987), 65_532_611_002);
        assert_eq!(modulus(65_712_999_613), 65_712_999_628);
        assert_eq!(modulus(262_143_999_938), 262_143_999_999);
    }

    #[test]
    fn a_wrap_costs_nothing() {
        let found = steps(Some(262_143_328_850), &[262_143_328_850, 61 * 3]);
        assert_eq!(found, [Step::First, Step::Energy(Microjoules(61 + 61 * 3))]);
    }

    #[test]
    fn a_step_back_without_a_range_is_lost_and_the_next_is_known_again() {
        let back = Step::Lost(LostReason::Backwards);
        assert_eq!(steps(None, &[500, 400, 450]), [Step::First, back, Step::Energy(Microjoules(50))]);
    }

    #[test]
    fn a_jump_that_no_power_explains_is_lost() {
        // A counter that was set back a little looks as if it had run through its whole range: 262 kW.
        let found = steps(Some(262_143_328_850), &[100_000_000_000, 99_000_000_000, 99_010_000_000]);
        assert_eq!(found[1], Step::Lost(LostReason::Backwards));
        assert_eq!(found[2], Step::Energy(Microjoules(10_000_000)));
    }

    #[test]
    fn a_window_in_which_it_may_have_wrapped_twice_is_lost() {
        let mut counter = Counter::new(Some(65_532_610_987), None);
        counter.step(0, SECOND);
        assert_eq!(counter.step(1_000_000, Nanos(200 * SECOND.0)), Step::Lost(LostReason::Ambiguous));
        assert_eq!(counter.step(2_000_000, Nanos(60 * SECOND.0)), Step::Energy(Microjoules(1_000_000)));
    }

    #[test]
    fn between_two_readings_is_their_middle() {
        assert_eq!((Counter::between(10, 20), Counter::between(100, 3)), (15, 3));
    }
}
