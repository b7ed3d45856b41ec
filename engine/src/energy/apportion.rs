// SPDX-License-Identifier: MIT OR Apache-2.0
//! Divides microjoules in proportion to CPU time, as integers, so that no energy is lost or invented. The fraction of a microjoule that is
//! due to an account is kept for the next window: over a run, an account gets its exact share or at most 2 uJ less.

/// Number of fractional bits of a remainder.
const FRACTION: u32 = 32;

/// The share of an account in one kind of energy, active or idle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Share {
    /// Whole microjoules so far.
    pub(crate) given: u64,
    /// Energy that is due but not given, in units of 2^-32 microjoules.
    remainder: u64,
    /// Microjoules given in the latest window in which the account had CPU time.
    pub(crate) step: u64,
}

/// The CPU time of an account in the window, and its share.
pub(crate) type Claim<'a> = (u64, &'a mut Share);

/// Divides `total` in proportion to time; `all` is the sum of the times. Returns the microjoules that no account was given. `None` (a bug):
/// the parts exceed `total`.
pub(crate) fn divide(total: u64, all: u64, claims: &mut [Claim<'_>]) -> Option<u64> {
    if all == 0 {
        return Some(total);
    }
    let due = add_due(total, all, claims);
    if due > total {
        withhold(due - total, claims);
    }
    let given: u64 = claims.iter().map(|(_, share)| share.step).sum();
    let remainder = total.checked_sub(given)?;
    for (_, share) in claims {
        share.given += share.step;
    }
    Some(remainder)
}

/// Sets the step of each account to the whole microjoules that it is due. Returns their sum.
fn add_due(total: u64, all: u64, claims: &mut [Claim<'_>]) -> u64 {
    let scaled = u128::from(total) << FRACTION;
    let (mut passed, mut before, mut sum) = (0_u128, 0_u128, 0);
    for (time, share) in claims {
        passed += u128::from(*time);
        // The running sum is rounded instead of each part, so that the parts add up to `total`.
        let until = scaled * passed / u128::from(all);
        let due = u128::from(share.remainder) + (until - before);
        before = until;
        share.step = u64::try_from(due >> FRACTION).unwrap_or(u64::MAX);
        share.remainder = (due & ((1 << FRACTION) - 1)) as u64;
        sum = share.step.saturating_add(sum);
    }
    sum
}

/// If the accounts are due more than the energy of the window, defers the excess to the next window, a microjoule per account in turn.
fn withhold(mut excess: u64, claims: &mut [Claim<'_>]) {
    while excess > 0 {
        let before = excess;
        for (_, share) in claims.iter_mut().filter(|(_, share)| share.step > 0) {
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

    fn divide_by(times: &[u64], total: u64, shares: &mut [Share]) -> Option<u64> {
        let mut claims: Vec<Claim<'_>> = times.iter().copied().zip(shares).collect();
        divide(total, times.iter().sum(), &mut claims)
    }

    #[test]
    fn no_account_gets_two_microjoules_less_than_its_share_in_the_long_run() {
        let mut shares = [Share::default(); 3];
        let mut left = 0;
        for _ in 0..1_000_000 {
            left += divide_by(&[1, 2, 4], 100, &mut shares).unwrap();
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
        assert_eq!(divide_by(&[0, 0], 50, &mut shares), Some(50));
        assert_eq!(shares, [Share::default(); 2]);
    }

    #[test]
    fn an_account_that_ran_alone_gets_all() {
        let mut shares = [Share::default(); 2];
        assert_eq!(divide_by(&[9, 0], 50, &mut shares), Some(0));
        assert_eq!((shares[0].given, shares[1].given), (50, 0));
    }

    #[test]
    fn the_largest_numbers_fit() {
        let mut shares = [Share::default(); 2];
        // A megajoule over a minute on 4096 CPUs.
        let (total, all) = (1_000_000_000_000, 4096 * 60_000_000_000);
        assert!(divide_by(&[all / 3, all - all / 3], total, &mut shares).unwrap() <= 1);
        assert!(shares[0].given.abs_diff(total / 3) <= 1);
    }
}
