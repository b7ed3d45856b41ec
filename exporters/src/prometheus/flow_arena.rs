// SPDX-License-Identifier: MIT OR Apache-2.0
//! Flows by index, each with its latest values. Values are in arrays of their own at the same index, because large snapshots are bound by
//! memory access; this type alone keeps the arrays aligned, reuses entries and gives memory back.

use std::collections::HashMap;
use std::hash::Hash;

use mpwatch_model::capacity::is_excessive;

/// A flow.
#[derive(Clone, Copy)]
pub(super) struct FlowEntry<K> {
    pub(super) key: K,
    /// The last snapshot that listed it.
    pub(super) snapshot: u64,
    /// Index of the flow that followed it in that snapshot.
    pub(super) next: usize,
    /// The events that were counted, one bit each.
    pub(super) counted: u8,
}

/// Flows by index and by key.
pub(super) struct FlowArena<K, F> {
    /// Number of counters and of distributions per flow.
    counters: usize,
    distributions: usize,
    entries: Vec<FlowEntry<K>>,
    /// `NaN`: unknown.
    values: Vec<f64>,
    /// Number of observations so far.
    observations: Vec<u64>,
    /// `None`: the entry is unused.
    facts: Vec<Option<F>>,
    indices: HashMap<K, usize>,
    unused: Vec<usize>,
}

impl<K: Copy + Eq + Hash, F: Copy> FlowArena<K, F> {
    pub(super) fn new(counters: usize, distributions: usize) -> Self {
        Self {
            counters,
            distributions,
            entries: Vec::new(),
            values: Vec::new(),
            observations: Vec::new(),
            facts: Vec::new(),
            indices: HashMap::new(),
            unused: Vec::new(),
        }
    }

    pub(super) fn index_of(&self, key: &K) -> Option<usize> {
        self.indices.get(key).copied()
    }

    /// The entry at an index, which may be unused.
    pub(super) fn entry(&self, index: usize) -> Option<&FlowEntry<K>> {
        self.entries.get(index)
    }

    pub(super) fn entry_mut(&mut self, index: usize) -> &mut FlowEntry<K> {
        &mut self.entries[index]
    }

    /// A value for each counter.
    pub(super) fn values(&self, index: usize) -> &[f64] {
        &self.values[index * self.counters..][..self.counters]
    }

    pub(super) fn values_mut(&mut self, index: usize) -> &mut [f64] {
        &mut self.values[index * self.counters..][..self.counters]
    }

    /// A number of observations for each distribution.
    pub(super) fn observations_mut(&mut self, index: usize) -> &mut [u64] {
        &mut self.observations[index * self.distributions..][..self.distributions]
    }

    /// Returns the facts before. `None`: the flow is new.
    pub(super) fn set_facts(&mut self, index: usize, facts: F) -> Option<F> {
        self.facts[index].replace(facts)
    }

    /// All flows with their index and facts.
    pub(super) fn flows(&self) -> impl Iterator<Item = (usize, &FlowEntry<K>, &F)> {
        let flows = self.entries.iter().zip(&self.facts).enumerate();
        flows.filter_map(|(index, (entry, facts))| Some((index, entry, facts.as_ref()?)))
    }

    /// Adds a flow that a snapshot lists. Until its values are set, the entry holds the values of its previous flow.
    pub(super) fn insert(&mut self, key: K, snapshot: u64) -> usize {
        let entry = FlowEntry { key, snapshot, next: 0, counted: 0 };
        let index = if let Some(index) = self.unused.pop() {
            self.entries[index] = entry;
            index
        } else {
            self.entries.push(entry);
            self.values.resize(self.entries.len() * self.counters, f64::NAN);
            self.observations.resize(self.entries.len() * self.distributions, 0);
            self.facts.push(None);
            self.entries.len() - 1
        };
        self.indices.insert(key, index);
        index
    }

    /// Removes a flow and returns its facts.
    pub(super) fn remove(&mut self, index: usize) -> Option<F> {
        self.indices.remove(&self.entries[index].key);
        self.unused.push(index);
        self.facts[index].take()
    }

    /// Gives back the memory of a burst: moves the flows to the beginning. Returns their indices before, sorted. `None`: nothing has moved.
    pub(super) fn compact(&mut self) -> Option<Vec<usize>> {
        if !is_excessive(self.entries.len(), self.indices.len()) {
            return None;
        }
        let mut kept: Vec<usize> = self.indices.drain().map(|(_, index)| index).collect();
        kept.sort_unstable();
        // The order of the next snapshot is learned again.
        let entries = kept.iter().map(|old| FlowEntry { next: 0, ..self.entries[*old] }).collect();
        let values = kept.iter().flat_map(|old| self.values(*old)).copied().collect();
        let (width, observations) = (self.distributions, &self.observations);
        let observations =
            kept.iter().flat_map(|old| &observations[old * width..][..width]).copied().collect();
        self.facts = kept.iter().map(|old| self.facts[*old]).collect();
        (self.entries, self.values, self.observations) = (entries, values, observations);
        self.indices = self.entries.iter().enumerate().map(|(new, entry)| (entry.key, new)).collect();
        self.unused = Vec::new();
        Some(kept)
    }

    /// Number of flows, and of entries with the unused ones.
    #[cfg(test)]
    pub(super) fn size(&self) -> (usize, usize) {
        (self.indices.len(), self.entries.len())
    }

    /// Number of values that fit without an allocation.
    #[cfg(test)]
    pub(super) fn capacity(&self) -> usize {
        self.values.capacity()
    }
}
