// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sums by a label with any number of values, in a bounded number of series: label values of small size share `__other__`. No sum
//! decreases, and all sums add up to the total.

use std::collections::{HashMap, HashSet};
use std::hash::Hash;

use jiff::{SignedDuration, Timestamp};

use super::values::{Increase, LabelledValues, OTHER, Sums, UNKNOWN, add};

/// Minimum time for which a label value keeps its series: two scrapes at an interval of 30 s.
const MIN_HOLD: SignedDuration = SignedDuration::from_secs(60);

/// Limits for the label values that have series of their own.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Maximum number of such label values in the current snapshot.
    pub(super) max_present: usize,
    /// Maximum number of all such label values, including values that are gone and still exported.
    pub(super) max_total: usize,
    /// How long a label value that is gone is still exported. `None`: until another label value needs its series.
    pub(super) linger: Option<SignedDuration>,
}

struct Entry {
    sums: Sums,
    added_at: Timestamp,
    /// When the last snapshot with this label value was taken.
    seen_at: Timestamp,
    size: u64,
}

pub(super) struct BoundedSums<K> {
    /// After a limit is lowered, surplus label values keep their series until they expire or larger label values replace them.
    pub(super) limits: Limits,
    entries: HashMap<K, Entry>,
    /// The sums of all label values without series of their own.
    pub(super) other: Sums,
    /// Number of label values merged into `other` so far.
    pub(super) merged: u64,
    /// Label values that the latest selection added.
    pub(super) added: HashSet<K>,
}

impl<K: Copy + Eq + Hash + Ord> BoundedSums<K> {
    pub(super) fn new(limits: Limits) -> Self {
        Self { limits, entries: HashMap::new(), other: Sums::new(), merged: 0, added: HashSet::new() }
    }

    /// Selects the label values that have series of their own until the next snapshot, by their sizes in this snapshot.
    pub(super) fn select(&mut self, at: Timestamp, sizes: &HashMap<K, u64>) {
        self.added.clear();
        for (key, entry) in &mut self.entries {
            if let Some(size) = sizes.get(key) {
                (entry.seen_at, entry.size) = (at, *size);
            }
        }
        self.merge_expired(at);
        let candidates = sizes.iter().filter(|(key, _)| !self.entries.contains_key(key));
        let mut candidates: Vec<(u64, K)> = candidates.map(|(key, size)| (*size, *key)).collect();
        let count = self.limits.max_present.min(candidates.len());
        if count == 0 {
            return;
        }
        candidates.select_nth_unstable_by(count - 1, |a, b| b.cmp(a));
        candidates.truncate(count);
        candidates.sort_unstable_by(|a, b| b.cmp(a));
        for (size, key) in candidates {
            if !self.make_room(size, at) {
                break;
            }
            self.added.insert(key);
            self.entries.insert(key, Entry { sums: Sums::new(), added_at: at, seen_at: at, size });
        }
    }

    /// Adds the increase of a flow to the sums of its label value.
    pub(super) fn add(&mut self, key: K, increase: &Increase) {
        // A new entry has no counters yet. Adding the zeros of an unchanged flow creates the counters that are known for this flow.
        if !increase.unchanged || self.added.contains(&key) {
            let entry = self.entries.get_mut(&key);
            add(entry.map_or(&mut self.other, |entry| &mut entry.sums), &increase.values);
        }
    }

    pub(super) fn contains(&self, key: &K) -> bool {
        self.entries.contains_key(key)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (K, &Sums)> {
        self.entries.iter().map(|(key, entry)| (*key, &entry.sums))
    }

    /// The sums of all label values with series of their own, in order, and last `other`.
    pub(super) fn labelled(&self, label: impl Fn(K) -> Option<String>) -> Vec<LabelledValues> {
        self.labelled_with(label, |_, sums| sums.clone(), self.other.clone())
    }

    /// Values for all label values with series of their own, in order, and last `other`.
    pub(super) fn labelled_with(
        &self,
        label: impl Fn(K) -> Option<String>,
        values: impl Fn(K, &Sums) -> Sums,
        other: Sums,
    ) -> Vec<LabelledValues> {
        let labelled = |label: String, values: Sums| LabelledValues { labels: vec![label], values };
        let own = self
            .iter()
            .map(|(key, sums)| labelled(label(key).unwrap_or_else(|| UNKNOWN.to_owned()), values(key, sums)));
        let mut all: Vec<LabelledValues> = own.collect();
        all.sort_by(|a, b| a.labels.cmp(&b.labels));
        all.push(labelled(OTHER.to_owned(), other));
        all
    }

    /// Makes room for a new label value of this size by merging a smaller label value, or one that is gone. Returns whether there is room.
    fn make_room(&mut self, size: u64, at: Timestamp) -> bool {
        let is_held = |since: Timestamp| at.duration_since(since) < MIN_HOLD;
        if self.entries.values().filter(|entry| entry.seen_at == at).count() >= self.limits.max_present {
            // A margin of a quarter, so that two label values of similar size do not alternate.
            let is_smaller = |entry: &Entry| entry.size.saturating_add(entry.size / 4) < size;
            let replaceable =
                |entry: &Entry| entry.seen_at == at && !is_held(entry.added_at) && is_smaller(entry);
            if !self.merge_least(replaceable, |entry| entry.size) {
                return false;
            }
        }
        self.entries.len() < self.limits.max_total
            || self.merge_least(|entry| entry.seen_at != at && !is_held(entry.seen_at), |entry| entry.seen_at)
    }

    /// Merges the candidate with the smallest rank. Returns whether there was one.
    fn merge_least<R: Ord>(
        &mut self,
        is_candidate: impl Fn(&Entry) -> bool,
        rank: impl Fn(&Entry) -> R,
    ) -> bool {
        let candidates = self.entries.iter().filter(|(_, entry)| is_candidate(entry));
        let least = candidates.min_by_key(|(key, entry)| (rank(entry), **key)).map(|(key, _)| *key);
        least.inspect(|key| self.merge(*key)).is_some()
    }

    fn merge_expired(&mut self, at: Timestamp) {
        let Some(linger) = self.limits.linger else { return };
        let expired = self.entries.iter().filter(|(_, entry)| at.duration_since(entry.seen_at) > linger);
        for key in expired.map(|(key, _)| *key).collect::<Vec<_>>() {
            self.merge(key);
        }
    }

    fn merge(&mut self, key: K) {
        if let Some(entry) = self.entries.remove(&key) {
            add(&mut self.other, &entry.sums);
            self.merged += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_000_000 + second).unwrap()
    }

    fn bounded(max_present: usize, max_total: usize) -> BoundedSums<u8> {
        BoundedSums::new(Limits { max_present, max_total, linger: Some(SignedDuration::from_mins(5)) })
    }

    fn by(value: f64) -> Increase {
        Increase { values: vec![Some(value)], unchanged: value == 0.0, ..Increase::default() }
    }

    fn keys(bounded: &BoundedSums<u8>) -> Vec<u8> {
        let mut keys: Vec<u8> = bounded.iter().map(|(key, _)| key).collect();
        keys.sort_unstable();
        keys
    }

    fn total(bounded: &BoundedSums<u8>) -> f64 {
        let sum: f64 = bounded.iter().filter_map(|(_, sums)| sums.first().copied().flatten()).sum();
        sum + bounded.other.first().copied().flatten().unwrap_or(0.0)
    }

    #[test]
    fn the_largest_have_series_and_all_series_sum_to_the_total() {
        let mut bounded = bounded(2, 4);
        bounded.select(at(0), &HashMap::from([(1, 10), (2, 30), (3, 20)]));
        assert_eq!(keys(&bounded), [2, 3]);
        for key in 1..=3 {
            bounded.add(key, &by(1.0));
        }
        assert_eq!((total(&bounded), bounded.other.clone()), (3.0, vec![Some(1.0)]));
    }

    #[test]
    fn a_larger_label_value_replaces_a_smaller_one_after_the_minimum_time_and_by_a_margin() {
        let mut bounded = bounded(1, 2);
        bounded.select(at(0), &HashMap::from([(1, 100)]));
        bounded.add(1, &by(5.0));
        bounded.select(at(30), &HashMap::from([(1, 100), (2, 1000)]));
        assert_eq!(keys(&bounded), [1], "too early for a replacement");
        bounded.select(at(60), &HashMap::from([(1, 100), (2, 110)]));
        assert_eq!(keys(&bounded), [1], "the new value is not larger by the margin");
        bounded.select(at(61), &HashMap::from([(1, 100), (2, 200)]));
        assert_eq!(keys(&bounded), [2]);
        assert_eq!((total(&bounded), bounded.merged), (5.0, 1));
    }

    #[test]
    fn a_label_value_that_is_gone_is_exported_until_it_expires() {
        let mut bounded = bounded(2, 4);
        // Nothing is added to label value 2.
        bounded.select(at(0), &HashMap::from([(1, 100), (2, 50)]));
        bounded.add(1, &by(5.0));
        bounded.add(3, &by(2.0));
        bounded.select(at(300), &HashMap::new());
        assert_eq!(keys(&bounded), [1, 2]);
        bounded.select(at(301), &HashMap::new());
        assert_eq!((keys(&bounded), total(&bounded)), (vec![], 7.0));
    }

    #[test]
    fn unchanged_counters_appear_in_new_series() {
        let mut bounded = bounded(1, 2);
        bounded.select(at(0), &HashMap::from([(1, 100), (2, 10)]));
        bounded.add(1, &by(5.0));
        bounded.add(2, &by(3.0));
        bounded.select(at(61), &HashMap::from([(1, 100), (2, 1000)]));
        bounded.add(1, &by(0.0));
        bounded.add(2, &by(0.0));
        let values_of_second = bounded.iter().next().map(|(_, sums)| sums.clone());
        assert_eq!(
            (keys(&bounded), total(&bounded), values_of_second),
            (vec![2], 8.0, Some(vec![Some(0.0)]))
        );
    }

    #[test]
    fn the_number_of_series_stays_bounded_under_churn() {
        let mut bounded = bounded(3, 5);
        for second in 0..400 {
            let key = u8::try_from(second % 200).unwrap();
            bounded.select(at(second), &HashMap::from([(key, 1000), (key.wrapping_add(1), 500)]));
            bounded.add(key, &by(1.0));
            assert!(keys(&bounded).len() <= 5);
        }
        assert_eq!(total(&bounded).to_bits(), 400_f64.to_bits());
    }
}
