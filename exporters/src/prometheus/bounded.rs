// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sums by a label that may have any number of values, with a fixed number of series: the largest have their own, all others
//! share `__other__`. What grows is charged to one of them when it grows, so that no sum ever goes down and all together are the whole.

use std::collections::HashMap;
use std::hash::Hash;

use jiff::{SignedDuration, Timestamp};

/// One sum for each row of a table. `None`: not known of anything that was summed.
pub(super) type Sums = Vec<Option<f64>>;

/// A label value keeps its series at least so long: two scrapes of the usual 30 s.
const HOLD: SignedDuration = SignedDuration::from_secs(60);

/// Adds what has grown.
pub(super) fn add(sums: &mut Sums, grown: &[Option<f64>]) {
    sums.resize(grown.len(), None);
    for (sum, more) in sums.iter_mut().zip(grown) {
        *sum = match (*sum, *more) {
            (Some(a), Some(b)) => Some(a + b),
            (a, b) => a.or(b),
        };
    }
}

/// How many label values have series of their own.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Of those that are there now.
    pub(super) live: usize,
    /// With those that are gone and still shown.
    pub(super) all: usize,
    /// How long one that is gone is shown. `None`: until another one wants the room.
    pub(super) linger: Option<SignedDuration>,
}

struct Slot {
    sums: Sums,
    since: Timestamp,
    alive_at: Timestamp,
    weight: u64,
}

/// The sums.
pub(super) struct Bounded<K> {
    limits: Limits,
    slots: HashMap<K, Slot>,
    other: Sums,
    merged: u64,
    /// When someone got series of its own for the last time.
    newest: Option<Timestamp>,
    /// The time of the selection that holds.
    selected: Option<Timestamp>,
}

impl<K: Copy + Eq + Hash + Ord> Bounded<K> {
    pub(super) fn new(limits: Limits) -> Self {
        Self { limits, slots: HashMap::new(), other: Sums::new(), merged: 0, newest: None, selected: None }
    }

    /// Other limits from now on; who is beyond them goes when its time comes.
    pub(super) fn limit(&mut self, limits: Limits) {
        self.limits = limits;
    }

    /// Decides who has series of its own until the next tick. `living`: who is there now, and how large each is.
    pub(super) fn select(&mut self, at: Timestamp, mut living: HashMap<K, u64>) {
        self.selected = Some(at);
        for (key, slot) in &mut self.slots {
            if let Some(weight) = living.remove(key) {
                (slot.alive_at, slot.weight) = (at, weight);
            }
        }
        self.merge_the_late(at);
        let mut challengers: Vec<(u64, K)> = living.into_iter().map(|(key, weight)| (weight, key)).collect();
        let most = self.limits.live.min(challengers.len());
        if most == 0 {
            return;
        }
        challengers.select_nth_unstable_by(most - 1, |a, b| b.cmp(a));
        challengers.truncate(most);
        challengers.sort_unstable_by(|a, b| b.cmp(a));
        for (weight, key) in challengers {
            if !self.make_room(weight, at) {
                break;
            }
            self.newest = Some(at);
            self.slots.insert(key, Slot { sums: Sums::new(), since: at, alive_at: at, weight });
        }
    }

    /// Charges what has grown.
    pub(super) fn charge(&mut self, key: K, grown: &[Option<f64>]) {
        add(self.slots.get_mut(&key).map_or(&mut self.other, |slot| &mut slot.sums), grown);
    }

    /// Of who is there and has not grown: only series that are new have to be told what is known.
    pub(super) fn keep(&mut self, key: K, grown: &[Option<f64>]) {
        if self.newest != self.selected {
            return;
        }
        if let Some(slot) = self.slots.get_mut(&key).filter(|slot| Some(slot.since) == self.selected) {
            add(&mut slot.sums, grown);
        }
    }

    pub(super) fn has(&self, key: &K) -> bool {
        self.slots.contains_key(key)
    }

    /// Everyone with series of its own.
    pub(super) fn shown(&self) -> impl Iterator<Item = (K, &Sums)> {
        self.slots.iter().map(|(key, slot)| (*key, &slot.sums))
    }

    /// Of everyone else.
    pub(super) fn other(&self) -> &Sums {
        &self.other
    }

    /// How many gave up their series so far.
    pub(super) fn merged(&self) -> u64 {
        self.merged
    }

    /// Whether one more of this size may have series of its own, at the price of another one where there must be one.
    fn make_room(&mut self, weight: u64, at: Timestamp) -> bool {
        let held = |since: Timestamp| at.duration_since(since) >= HOLD;
        if self.slots.values().filter(|slot| slot.alive_at == at).count() >= self.limits.live {
            // A quarter larger, so that two of about one size do not take turns.
            let loses =
                |slot: &Slot| held(slot.since) && slot.weight.saturating_add(slot.weight / 4) < weight;
            let living = self.slots.iter().filter(|(_, slot)| slot.alive_at == at && loses(slot));
            let Some(key) = living.min_by_key(|(key, slot)| (slot.weight, **key)).map(|(key, _)| *key) else {
                return false;
            };
            self.merge(key);
        }
        if self.slots.len() >= self.limits.all {
            let gone = self.slots.iter().filter(|(_, slot)| slot.alive_at != at && held(slot.alive_at));
            let Some(key) = gone.min_by_key(|(key, slot)| (slot.alive_at, **key)).map(|(key, _)| *key) else {
                return false;
            };
            self.merge(key);
        }
        true
    }

    fn merge_the_late(&mut self, at: Timestamp) {
        let Some(linger) = self.limits.linger else { return };
        let late = self.slots.iter().filter(|(_, slot)| at.duration_since(slot.alive_at) > linger);
        for key in late.map(|(key, _)| *key).collect::<Vec<_>>() {
            self.merge(key);
        }
    }

    fn merge(&mut self, key: K) {
        if let Some(slot) = self.slots.remove(&key) {
            add(&mut self.other, &slot.sums);
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

    fn bounded(live: usize, all: usize) -> Bounded<u8> {
        Bounded::new(Limits { live, all, linger: Some(SignedDuration::from_mins(5)) })
    }

    fn shown(bounded: &Bounded<u8>) -> Vec<u8> {
        let mut keys: Vec<u8> = bounded.shown().map(|(key, _)| key).collect();
        keys.sort_unstable();
        keys
    }

    fn total(bounded: &Bounded<u8>) -> f64 {
        let own: f64 = bounded.shown().filter_map(|(_, sums)| sums.first().copied().flatten()).sum();
        own + bounded.other().first().copied().flatten().unwrap_or(0.0)
    }

    #[test]
    fn the_largest_have_series_and_all_together_are_the_whole() {
        let mut bounded = bounded(2, 4);
        bounded.select(at(0), HashMap::from([(1, 10), (2, 30), (3, 20)]));
        assert_eq!(shown(&bounded), [2, 3]);
        for key in 1..=3 {
            bounded.charge(key, &[Some(1.0)]);
        }
        assert_eq!((total(&bounded), bounded.other()), (3.0, &vec![Some(1.0)]));
    }

    #[test]
    fn a_larger_one_takes_the_place_only_after_a_while_and_by_a_margin() {
        let mut bounded = bounded(1, 2);
        bounded.select(at(0), HashMap::from([(1, 100)]));
        bounded.charge(1, &[Some(5.0)]);
        bounded.select(at(30), HashMap::from([(1, 100), (2, 1000)]));
        assert_eq!(shown(&bounded), [1], "held");
        bounded.select(at(60), HashMap::from([(1, 100), (2, 110)]));
        assert_eq!(shown(&bounded), [1], "not by a margin");
        bounded.select(at(61), HashMap::from([(1, 100), (2, 200)]));
        assert_eq!(shown(&bounded), [2]);
        assert_eq!((total(&bounded), bounded.merged()), (5.0, 1));
    }

    #[test]
    fn one_that_is_gone_is_shown_for_a_while() {
        let mut bounded = bounded(1, 2);
        bounded.select(at(0), HashMap::from([(1, 100)]));
        bounded.charge(1, &[Some(5.0)]);
        bounded.select(at(300), HashMap::new());
        assert_eq!(shown(&bounded), [1]);
        bounded.select(at(301), HashMap::new());
        assert_eq!((shown(&bounded), total(&bounded)), (vec![], 5.0));
    }

    #[test]
    fn who_stands_still_shows_in_series_that_are_new() {
        let mut bounded = bounded(1, 2);
        bounded.select(at(0), HashMap::from([(1, 100), (2, 10)]));
        bounded.charge(1, &[Some(5.0)]);
        bounded.charge(2, &[Some(3.0)]);
        bounded.select(at(61), HashMap::from([(1, 100), (2, 1000)]));
        bounded.keep(1, &[Some(0.0)]);
        bounded.keep(2, &[Some(0.0)]);
        let of_second = bounded.shown().next().map(|(_, sums)| sums.clone());
        assert_eq!((shown(&bounded), total(&bounded), of_second), (vec![2], 8.0, Some(vec![Some(0.0)])));
    }

    #[test]
    fn the_number_of_series_stays_bounded_however_many_come_and_go() {
        let mut bounded = bounded(3, 5);
        for second in 0..400 {
            let key = u8::try_from(second % 200).unwrap();
            bounded.select(at(second), HashMap::from([(key, 1000), (key.wrapping_add(1), 500)]));
            bounded.charge(key, &[Some(1.0)]);
            assert!(shown(&bounded).len() <= 5);
        }
        assert_eq!(total(&bounded).to_bits(), 400_f64.to_bits());
    }
}
