// SPDX-License-Identifier: MIT OR Apache-2.0
//! Divides microjoules in proportion to time, as integers, so that no energy is lost or invented. Pure. An account keeps its fraction of a
//! microjoule for the next window: over a run it gets at most what is due, at least that minus 2 uJ. What remains of a window is returned.

/// Fractional bits of a remainder.
const FRACTION: u32 = 32;

/// What an account got of one kind of energy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Share {
    /// Whole microjoules so far.
    pub(crate) given: u64,
    /// Due but not given: microjoules in 2^-32.
    remainder: u64,
    /// Given in the current window.
    step: u64,
}

/// Divides `total` in proportion to `times`, whose sum is `all`; returns what remains. `None`: the sums do not match (a bug).
pub(crate) fn divide(total: u64, all: u64, times: &[u64], shares: &mut [Share]) -> Option<u64> {
    if all == 0 {
        return Some(total);
    }
    let due = add_due(total, all, times, shares);
    if due > total {
        withhold(due - total, shares);
    }
    let given: u64 = shares.iter().map(|share| share.step).sum();
    let is_exact = given <= total && times.len() == shares.len();
    for share in shares {
        let step = std::mem::take(&mut share.step);
        if is_exact {
            share.given += step;
        }
    }
    is_exact.then(|| total - given)
}

/// Adds what is due to each account and takes out whole microjoules; returns their sum.
fn add_due(total: u64, all: u64, times: &[u64], shares: &mut [Share]) -> u64 {
    let scaled = u128::from(total) << FRACTION;
    let (mut passed, mut before, mut sum) = (0_u128, 0_u128, 0);
    for (time, share) in times.iter().zip(shares) {
        // Nothing is due to an account without time: its remainder waits.
        if *time == 0 {
            continue;
        }
        passed += u128::from(*time);
        // Rounding the running sum, not the part, makes the fractions add up.
        let until = scaled * passed / u128::from(all);
        let due = u128::from(share.remainder) + (until - before);
        before = until;
        share.step = u64::try_from(due >> FRACTION).unwrap_or(u64::MAX);
        share.remainder = (due & ((1 << FRACTION) - 1)) as u64;
        sum = share.step.saturating_add(sum);
    }
    sum
}

/// If the remainders of several accounts exceed the window, defers a microjoule each to the next window.
fn withhold(mut excess: u64, shares: &mut [Share]) {
    while excess > 0 {
        let before = excess;
        for share in shares.iter_mut().filter(|share| share.step > 0) {
            if excess == 0 {
                return;
            }
            share.step -= 1;
            share.remainder += 1 << FRACTION;
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
    fn no_account_is_short_of_two_microjoules_in_the_long_run() {
        let mut shares = [Share::default(); 3];
        let mut left = 0;
        for _ in 0..1_000_000 {
            left += divide(100, 7, &[1, 2, 4], &mut shares).unwrap();
        }
        let given: Vec<u64> = shares.iter().map(|share| share.given).collect();
        assert_eq!(given.iter().sum::<u64>() + left, 100_000_000);
        for (given, weight) in given.iter().zip([1.0, 2.0, 4.0]) {
            let short = 1e8 * weight / 7.0 - *given as f64;
            assert!((-0.001..2.0).contains(&short), "short of {short}");
        }
        assert!(left <= 6);
    }

    #[test]
    fn without_time_no_account_gets_anything() {
        let mut shares = [Share::default(); 2];
        assert_eq!(divide(50, 0, &[0, 0], &mut shares), Some(50));
        assert_eq!(shares, [Share::default(); 2]);
    }

    #[test]
    fn an_account_that_ran_alone_gets_all() {
        let mut shares = [Share::default(); 2];
        assert_eq!(divide(50, 9, &[9, 0], &mut shares), Some(0));
        assert_eq!((shares[0].given, shares[1].given), (50, 0));
    }

    #[test]
    fn the_largest_numbers_fit() {
        let mut shares = [Share::default(); 2];
        // A megajoule over a minute on 4096 CPUs.
        let (total, all) = (1_000_000_000_000, 4096 * 60_000_000_000);
        assert!(divide(total, all, &[all / 3, all - all / 3], &mut shares).unwrap() <= 1);
        assert!(shares[0].given.abs_diff(total / 3) <= 1);
    }
}
