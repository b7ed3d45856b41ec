// SPDX-License-Identifier: MIT OR Apache-2.0
//! The payload of all flows by label value, kept up to date as flows change.

use std::collections::HashMap;
use std::hash::Hash;

use mpwatch_model::capacity::shrink_map;

/// Sums by label value, for the flows that exist.
pub(super) struct Sizes<K> {
    sizes: HashMap<K, u64>,
    flows: HashMap<K, usize>,
}

impl<K> Default for Sizes<K> {
    fn default() -> Self {
        Self { sizes: HashMap::new(), flows: HashMap::new() }
    }
}

impl<K: Copy + Eq + Hash> Sizes<K> {
    pub(super) fn add(&mut self, key: K, size: u64) {
        *self.sizes.entry(key).or_default() += size;
        *self.flows.entry(key).or_default() += 1;
    }

    /// Removes a flow that was added with this size.
    pub(super) fn remove(&mut self, key: K, size: u64) {
        let (Some(sum), Some(flows)) = (self.sizes.get_mut(&key), self.flows.get_mut(&key)) else { return };
        *sum = sum.saturating_sub(size);
        *flows -= 1;
        if *flows == 0 {
            self.sizes.remove(&key);
            self.flows.remove(&key);
            shrink_map(&mut self.sizes);
            shrink_map(&mut self.flows);
        }
    }

    pub(super) fn all(&self) -> &HashMap<K, u64> {
        &self.sizes
    }
}
