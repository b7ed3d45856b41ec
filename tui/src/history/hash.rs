// SPDX-License-Identifier: MIT OR Apache-2.0
//! A fast hash for ids.

use std::hash::{BuildHasherDefault, Hasher};

/// Ids are numbers of the kernel, so that hash collisions are no attack; tens of thousands are looked up in each snapshot.
pub(super) type FastHash = BuildHasherDefault<FastHasher>;

/// Multiplies and rotates.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FastHasher(u64);

impl Hasher for FastHasher {
    fn finish(&self) -> u64 {
        self.0 ^ (self.0 >> 32)
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u32(&mut self, number: u32) {
        self.write_u64(u64::from(number));
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = (self.0.rotate_left(5) ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}
