// SPDX-License-Identifier: MIT OR Apache-2.0
//! RTT histogram, filled by `rtt_bucket()` in BPF: 8 buckets per octave, 16 us to 16.8 s. The error of a quantile is at most one bucket (12.5 %).

use serde::{Deserialize, Serialize};

use crate::unit::Micros;

/// Number of buckets; equal to `MPW_RTT_BUCKETS` of the ABI header (the decoder asserts this).
pub const BUCKETS: usize = 160;
/// Binary logarithm of the number of buckets per octave.
pub const SUB_BUCKET_BITS: u32 = 3;
/// Binary logarithm of the start of the first bucket in microseconds: 16 us.
pub const LOWEST_OCTAVE: u32 = 4;
/// The longest RTT, in microseconds. Longer RTTs are counted as this value.
pub const HIGHEST: u32 = (1 << 24) - 1;

/// Counts of RTT samples by size.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RttHistogram {
    /// Buckets with samples, in order, and their counts. Most buckets are empty, and every subflow has a histogram.
    occupied: Vec<(u8, u32)>,
}

impl std::fmt::Debug for RttHistogram {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_map()
            .entries(self.occupied().map(|(bucket, count)| (Self::lower_edge(bucket), count)))
            .finish()
    }
}

impl RttHistogram {
    /// Builds a histogram from the counts of the BPF programs.
    pub fn from_counts(counts: [u32; BUCKETS]) -> Self {
        let mut occupied = Vec::with_capacity(counts.iter().filter(|count| **count > 0).count());
        occupied.extend((0_u8..).zip(counts).filter(|(_, count)| *count > 0));
        Self { occupied }
    }

    /// The bucket of an RTT. Values below 16 us belong to the first bucket, values above 16.8 s to the last.
    pub fn bucket(rtt: u32) -> usize {
        let clamped = rtt.clamp(1 << LOWEST_OCTAVE, HIGHEST);
        let octave = clamped.ilog2();
        let sub_bucket = (clamped >> (octave - SUB_BUCKET_BITS)) & ((1 << SUB_BUCKET_BITS) - 1);
        (((octave - LOWEST_OCTAVE) << SUB_BUCKET_BITS) + sub_bucket) as usize
    }

    /// The smallest RTT of a bucket, in microseconds.
    fn lower_edge(bucket: usize) -> u64 {
        let octave = (bucket >> SUB_BUCKET_BITS) as u64 + u64::from(LOWEST_OCTAVE);
        let sub_bucket = (bucket & ((1 << SUB_BUCKET_BITS) - 1)) as u64;
        (1 << octave) + (sub_bucket << (octave - u64::from(SUB_BUCKET_BITS)))
    }

    /// Adds one sample.
    pub fn record(&mut self, rtt: u32) {
        let Ok(bucket) = u8::try_from(Self::bucket(rtt)) else { return };
        match self.occupied.binary_search_by_key(&bucket, |(bucket, _)| *bucket) {
            Ok(index) => self.occupied[index].1 = self.occupied[index].1.saturating_add(1),
            Err(index) => self.occupied.insert(index, (bucket, 1)),
        }
    }

    /// Number of samples.
    pub fn samples(&self) -> u64 {
        self.occupied.iter().map(|&(_, count)| u64::from(count)).sum()
    }

    /// The RTT below which the fraction `q` of the samples lies, interpolated within its bucket. `None`: there are no samples.
    pub fn quantile(&self, q: f64) -> Option<Micros> {
        let total = self.samples();
        if total == 0 {
            return None;
        }
        let rank = q.clamp(0.0, 1.0) * total as f64;
        let mut below = 0.0;
        for (bucket, count) in self.occupied() {
            let upto = below + f64::from(count);
            if upto >= rank {
                let (low, high) = (Self::lower_edge(bucket) as f64, Self::lower_edge(bucket + 1) as f64);
                let within = (rank - below) / f64::from(count);
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "between two bucket edges"
                )]
                return Some(Micros((low + (high - low) * within) as u64));
            }
            below = upto;
        }
        None
    }

    fn occupied(&self) -> impl Iterator<Item = (usize, u32)> + '_ {
        self.occupied.iter().map(|&(bucket, count)| (usize::from(bucket), count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_bucket_holds_its_rtt(rtt in 16u32..HIGHEST) {
            let bucket = RttHistogram::bucket(rtt);
            prop_assert!(RttHistogram::lower_edge(bucket) <= u64::from(rtt));
            prop_assert!(RttHistogram::lower_edge(bucket + 1) > u64::from(rtt));
        }

        #[test]
        fn a_quantile_is_within_one_bucket_of_the_sorted_truth(mut samples in proptest::collection::vec(16u32..5_000_000, 1..200), q in 0.0f64..1.0) {
            let mut histogram = RttHistogram::default();
            for &sample in &samples {
                histogram.record(sample);
            }
            samples.sort_unstable();
            let got = histogram.quantile(q).unwrap().0 as f64;
            // The sample at the quantile's rank: the first sample whose position is at least `rank`.
            let rank = q * samples.len() as f64;
            let at_rank = samples.iter().zip(1u32..).find(|&(_, upto)| f64::from(upto) >= rank);
            let truth = f64::from(*at_rank.unwrap().0);
            prop_assert!((got / truth - 1.0).abs() <= 0.13, "{got} for {truth}");
        }

        #[test]
        fn serialisation_keeps_every_count(samples in proptest::collection::vec(any::<u32>(), 0..50)) {
            let mut histogram = RttHistogram::default();
            for sample in samples {
                histogram.record(sample);
            }
            let text = serde_json::to_string(&histogram).unwrap();
            prop_assert_eq!(serde_json::from_str::<RttHistogram>(&text).unwrap(), histogram);
        }
    }

    #[test]
    fn extremes_go_to_the_outer_buckets() {
        assert_eq!(RttHistogram::bucket(0), 0);
        assert_eq!(RttHistogram::bucket(u32::MAX), BUCKETS - 1);
        assert_eq!(RttHistogram::default().quantile(0.5), None);
    }
}
