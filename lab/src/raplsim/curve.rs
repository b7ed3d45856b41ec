// SPDX-License-Identifier: MIT OR Apache-2.0
//! Power of a real machine as a function of load. Recorded curves are not linear.

/// A recorded power curve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordedCurve {
    /// The machine and the kind of load.
    pub name: &'static str,
    /// CPUs (hardware threads) of the machine.
    pub cpus: u32,
    /// Pairs of load in permille and power in milliwatts, by increasing load.
    pub samples: &'static [(u32, u32)],
}

impl RecordedCurve {
    /// Power at a load of `numerator / denominator` of all CPUs, as an exact fraction `(p, q)`: `p / q` milliwatts. Linear
    /// between the samples, constant before the first and after the last.
    pub fn power(&self, numerator: u64, denominator: u64) -> (i128, i128) {
        let (n, d) = (i128::from(numerator) * 1000, i128::from(denominator));
        let at = |sample: &(u32, u32)| (i128::from(sample.0), i128::from(sample.1));
        let above = self.samples.partition_point(|sample| at(sample).0 * d <= n);
        match (above.checked_sub(1).and_then(|below| self.samples.get(below)), self.samples.get(above)) {
            (Some(below), Some(above)) => {
                let ((l0, p0), (l1, p1)) = (at(below), at(above));
                (p0 * (l1 - l0) * d + (p1 - p0) * (n - l0 * d), (l1 - l0) * d)
            }
            (Some(only), None) | (None, Some(only)) => (at(only).1, 1),
            (None, None) => (0, 1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn power_is_linear_between_samples_and_constant_outside() {
        let curve = RecordedCurve { name: "", cpus: 1, samples: &[(100, 10_000), (300, 20_000)] };
        assert_eq!(curve.power(1, 5), (15_000 * 1000, 1000));
        assert_eq!(curve.power(0, 5), (10_000, 1));
        assert_eq!(curve.power(5, 5), (20_000, 1));
    }
}
