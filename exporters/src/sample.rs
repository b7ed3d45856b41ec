// SPDX-License-Identifier: MIT OR Apache-2.0
//! Threshold sampling: a connection is kept with a probability in proportion to its payload, and its weight is the inverse of the
//! probability, so sums of weighted values are unbiased estimates of the sums over all connections. A hash of the pair of tokens decides, so
//! both ends decide alike without communication.
//!
//! N. Duffield, C. Lund, M. Thorup: Learn more, sample less: control of volume and variance in network measurement. IEEE Transactions on
//! Information Theory 51(5), 2005.

/// The smallest connections are kept with the probability 1 / `MAX_WEIGHT`. This bounds the weight, and so the variance of counts.
const MAX_WEIGHT: u64 = 1_000;

/// The weight of a connection. `None`: it is not kept. `pair`: the number that both ends have in common. `threshold`, `payload`: bytes. A
/// connection whose payload reaches the threshold is always kept.
pub fn weight(threshold: u64, pair: u64, payload: u64) -> Option<f64> {
    let threshold = threshold.max(1);
    let payload = payload.max(threshold.div_ceil(MAX_WEIGHT));
    if payload >= threshold {
        return Some(1.0);
    }
    let is_kept = u128::from(mixed(pair)) * u128::from(threshold) < u128::from(payload) << 64;
    is_kept.then(|| threshold as f64 / payload as f64)
}

/// The finalizer of SplitMix64. Its results are uniform over 64 bits even if users choose the tokens.
pub fn mixed(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use mpwatch_model::flow::end::pair;

    use super::*;

    const THRESHOLD: u64 = 10 << 20;

    /// Connections: the tokens of both ends, and the payload in bytes, whose distribution has a heavy tail.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "random numbers")]
    fn connections(seed: u64, count: u64) -> impl Iterator<Item = (u32, u32, u64)> {
        (0..count).map(move |number| {
            let random = mixed(seed << 32 | number);
            // This number must not depend on the hash that decides.
            let uniform = (mixed(!mixed(random)) >> 11) as f64 / (1_u64 << 53) as f64;
            // Pareto with exponent 1.1 from 100 kB on, at most 10 GB.
            let payload = (1e5 / (1.0 - uniform).powf(1.0 / 1.1)).min(1e10);
            ((random >> 32) as u32, random as u32, payload as u64)
        })
    }

    /// An estimated sum with the variance that Poisson sampling gives it, and the true sum.
    #[derive(Default)]
    struct Estimate {
        sum: f64,
        variance: f64,
        truth: f64,
    }

    impl Estimate {
        fn add(&mut self, value: f64, weight: Option<f64>) {
            self.truth += value;
            if let Some(weight) = weight {
                self.sum += value * weight;
                self.variance += value * value * weight * (weight - 1.0);
            }
        }

        /// Whether the interval of 95 % contains the truth.
        fn contains_truth(&self) -> bool {
            (self.sum - self.truth).abs() <= 1.96 * self.variance.sqrt()
        }
    }

    #[test]
    fn both_ends_keep_the_same_connections_and_totals_are_within_their_confidence_interval() {
        const RUNS: u64 = 200;
        let mut covered = [0; 3];
        for seed in 0..RUNS {
            let (mut kept, mut estimates) = (0, [(); 3].map(|()| Estimate::default()));
            for (token, remote_token, payload) in connections(seed, 5_000) {
                let of_end = |token: u32, remote: u32| {
                    let (one, other) = (format!("{token:08x}"), format!("{remote:08x}"));
                    weight(THRESHOLD, pair(Some(&one), Some(&other)).unwrap(), payload)
                };
                let weight = of_end(token, remote_token);
                assert_eq!(weight, of_end(remote_token, token));
                kept += u64::from(weight.is_some());
                // Bytes, connections, and energy: a fixed part and a part in proportion to the payload.
                let values = [payload as f64, 1.0, 50.0 + payload as f64 * 1e-3];
                estimates.iter_mut().zip(values).for_each(|(estimate, value)| estimate.add(value, weight));
            }
            assert!(kept < 300, "{kept} of 5000 connections were kept");
            covered
                .iter_mut()
                .zip(&estimates)
                .for_each(|(count, estimate)| *count += u64::from(estimate.contains_truth()));
        }
        // 95 % of 200 runs are 190 with a standard error of 3.1; the sums are not quite normally distributed.
        assert!(
            covered.iter().all(|count| *count >= 175),
            "{covered:?} of {RUNS} intervals contain the truth"
        );
    }

    #[test]
    fn weights_are_bounded_and_large_connections_are_always_kept() {
        assert_eq!(weight(THRESHOLD, 1, THRESHOLD), Some(1.0));
        assert_eq!(weight(0, 1, 0), Some(1.0));
        let weights: Vec<f64> = (0..100_000).filter_map(|pair| weight(THRESHOLD, pair, 0)).collect();
        assert!((60..150).contains(&weights.len()), "{} of 100000", weights.len());
        assert!(weights.iter().all(|weight| (990.0..=1_000.0).contains(weight)));
    }
}
