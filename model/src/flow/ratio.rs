// SPDX-License-Identifier: MIT OR Apache-2.0
//! Fairness and excess traffic of multipath flows.

use crate::unit::Bytes;

/// Jain's fairness index `[RN10]`: 1 if all n shares are equal, 1/n if only one is not zero; rounded to 1e-6. `None`: n < 2, or all are zero.
pub fn jain_index(shares: impl Iterator<Item = f64>) -> Option<f64> {
    let (mut count, mut sum, mut squares) = (0u32, 0.0, 0.0);
    for share in shares {
        count += 1;
        sum += share;
        squares += share * share;
    }
    (count >= 2 && squares > 0.0).then(|| (sum * sum / (f64::from(count) * squares) * 1e6).round() / 1e6)
}

/// Excess traffic `[UPD18]`: `1 - goodput / throughput`, the fraction of wire bytes without new payload. `None`: there were no wire bytes.
pub fn excess(payload: Bytes, wire: Bytes) -> Option<f64> {
    (wire.0 > 0).then(|| (1.0 - payload.0 as f64 / wire.0 as f64).max(0.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn known_values() {
        assert_eq!(jain_index([1.0, 1.0, 1.0].into_iter()), Some(1.0));
        assert_eq!(jain_index([5.0, 0.0].into_iter()), Some(0.5));
        assert_eq!(jain_index([5.0].into_iter()), None);
        assert_eq!(jain_index([0.0, 0.0].into_iter()), None);
        assert_eq!(excess(Bytes(75), Bytes(100)), Some(0.25));
        assert_eq!(excess(Bytes(0), Bytes(0)), None);
    }

    proptest! {
        #[test]
        fn the_index_lies_between_one_nth_and_one(shares in proptest::collection::vec(0.001f64..1e9, 2..9)) {
            let index = jain_index(shares.iter().copied()).unwrap();
            prop_assert!(index <= 1.0 && index >= 1.0 / shares.len() as f64 - 1e-6);
        }
    }
}
