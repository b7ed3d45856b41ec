// SPDX-License-Identifier: MIT OR Apache-2.0
//! Frees memory of collections after a burst of connections. Collections of the standard library never shrink by themselves, so a daemon
//! would keep the memory of its largest snapshot.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, Hash};

/// Collections with a capacity of at most this many elements are not shrunk.
const MIN_CAPACITY: usize = 1_024;
/// A collection whose capacity exceeds this multiple of its length is shrunk to twice its length.
const MAX_FACTOR: usize = 4;

/// Whether a collection has far more capacity than it needs. If it grows again later, that costs little compared with the insertions.
pub fn is_excessive(capacity: usize, len: usize) -> bool {
    capacity > MIN_CAPACITY && capacity / MAX_FACTOR > len
}

/// Shrinks a map that has far more capacity than it needs.
pub fn shrink_map<K: Eq + Hash, V, S: BuildHasher>(map: &mut HashMap<K, V, S>) {
    if is_excessive(map.capacity(), map.len()) {
        map.shrink_to(map.len() * 2);
    }
}

/// Shrinks a set that has far more capacity than it needs.
pub fn shrink_set<K: Eq + Hash, S: BuildHasher>(set: &mut HashSet<K, S>) {
    if is_excessive(set.capacity(), set.len()) {
        set.shrink_to(set.len() * 2);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_map_shrinks_after_a_burst_and_not_before() {
        let mut map: HashMap<u32, u32> = (0..20_000).map(|n| (n, n)).collect();
        map.retain(|n, _| *n < 10_000);
        shrink_map(&mut map);
        assert!(map.capacity() > 20_000, "less than four times the length: {}", map.capacity());
        map.retain(|n, _| *n < 300);
        shrink_map(&mut map);
        assert!(map.len() == 300 && map.capacity() < MIN_CAPACITY, "{}", map.capacity());
        let mut set: HashSet<u32> = (0..20_000).collect();
        set.clear();
        shrink_set(&mut set);
        assert!(set.capacity() < MIN_CAPACITY);
        let mut small: HashMap<u32, u32> = HashMap::with_capacity(500);
        shrink_map(&mut small);
        assert!(small.capacity() >= 500, "a small map keeps its capacity");
    }
}
