// SPDX-License-Identifier: MIT OR Apache-2.0
//! Dividing microjoules in proportion to time, as integers, window after window, so that nothing is lost or made up. Pure.
//!
//! What an account is due but has not got, a fraction of a microjoule, stays with it and counts in the next window. So over
//! a whole run it has got what it was due, short of less than two microjoules and never more. What all of them are short
//! of together is handed to whoever keeps the rest: the sum of a window is exact.

/// Bits behind the point of a carry.
const FRACTION: u32 = 32;

/// What an account has got of one kind of energy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Purse {
    /// Whole microjoules so far.
    pub(crate) given: u64,
    /// Due, but not given: microjoules in 2^-32.
    carry: u64,
    /// Given in the window that is being divided.
    step: u64,
}

/// Divides `total` in proportion to `times`, whose sum is `all`, and returns what is left over. `None`: the sums did not come
/// out even, and nobody has got anything; that would be a bug, which must not become a wrong number.
pub(crate) fn divide(total: u64, all: u64, times: &[u64], purses: &mut [Purse]) -> Option<u64> {
    if all == 0 {
        return Some(total);
    }
    let asked = earn(total, all, times, purses);
    if asked > total {
        withhold(asked - total, purses);
    }
    let given: u64 = purses.iter().map(|purse| purse.step).sum();
    let is_even = given <= total && times.len() == purses.len();
    for purse in purses {
        let step = std::mem::take(&mut purse.step);
        if is_even {
            purse.given += step;
        }
    }
    is_even.then(|| total - given)
}

/// Adds to each what it is due and takes the whole microjoules out; returns their sum.
fn earn(total: u64, all: u64, times: &[u64], purses: &mut [Purse]) -> u64 {
    let scaled = u128::from(total) << FRACTION;
    let (mut passed, mut before, mut asked) = (0_u128, 0_u128, 0);
    for (time, purse) in times.iter().zip(purses) {
        // An account without time is due nothing: what it was short of waits.
        if *time == 0 {
            continue;
        }
        passed += u128::from(*time);
        // Rounding the running sum, not the part, makes the fractions add up.
        let until = scaled * passed / u128::from(all);
        let due = u128::from(purse.carry) + (until - before);
        before = until;
        purse.step = u64::try_from(due >> FRACTION).unwrap_or(u64::MAX);
        purse.carry = (due & ((1 << FRACTION) - 1)) as u64;
        asked = purse.step.saturating_add(asked);
    }
    asked
}

/// More carries came due at once than the window has: some wait one more window, a microjoule each.
fn withhold(mut excess: u64, purses: &mut [Purse]) {
    while excess > 0 {
        let before = excess;
        for purse in purses.iter_mut().filter(|purse| purse.step > 0) {
            if excess == 0 {
                return;
            }
            purse.step -= 1;
            purse.carry += 1 << FRACTION;
            excess -= 1;
        }
        if excess == before {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_short_of_two_microjoules_in_the_long_run() {
        let mut purses = [Purse::default(); 3];
        let mut rest = 0;
        for _ in 0..1_000_000 {
            rest += divide(100, 7, &[1, 2, 4], &mut purses).unwrap();
        }
        let given: Vec<u64> = purses.iter().map(|purse| purse.given).collect();
        assert_eq!(given.iter().sum::<u64>() + rest, 100_000_000);
        for (given, weight) in given.iter().zip([1.0, 2.0, 4.0]) {
            let short = 1e8 * weight / 7.0 - *given as f64;
            assert!((-0.001..2.0).contains(&short), "short of {short}");
        }
        assert!(rest <= 6);
    }

    #[test]
    fn without_time_nobody_gets_anything() {
        let mut purses = [Purse::default(); 2];
        assert_eq!(divide(50, 0, &[0, 0], &mut purses), Some(50));
        assert_eq!(purses, [Purse::default(); 2]);
    }

    #[test]
    fn who_ran_alone_gets_all() {
        let mut purses = [Purse::default(); 2];
        assert_eq!(divide(50, 9, &[9, 0], &mut purses), Some(0));
        assert_eq!((purses[0].given, purses[1].given), (50, 0));
    }

    #[test]
    fn the_largest_numbers_fit() {
        let mut purses = [Purse::default(); 2];
        // A megajoule over a minute on 4096 CPUs.
        let (total, all) = (1_000_000_000_000, 4096 * 60_000_000_000);
        assert!(divide(total, all, &[all / 3, all - all / 3], &mut purses).unwrap() <= 1);
        assert!(purses[0].given.abs_diff(total / 3) <= 1);
    }
}
