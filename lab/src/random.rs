// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reproducible pseudo-random numbers (SplitMix64, public domain algorithm by S. Vigna): a seed gives the
//! same losses and lifetimes on every machine. Not for cryptography.

/// A pseudo-random sequence that depends only on its seed.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Starts the sequence of a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// The next random number, uniform in 0..limit; 0 if `limit` is 0.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.bits() % limit.max(1)
    }

    /// The next random number, uniform in 0..1.
    pub fn unit(&mut self) -> f64 {
        to_unit(self.bits())
    }
}

/// A random number, uniform in 0..1, that depends only on `seed` and `position`.
pub(crate) fn unit_at(seed: u64, position: u64) -> f64 {
    to_unit(mix(seed ^ mix(position.wrapping_add(0x9e37_79b9_7f4a_7c15))))
}

fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

fn to_unit(bits: u64) -> f64 {
    (bits >> 11) as f64 / (1_u64 << 53) as f64
}
