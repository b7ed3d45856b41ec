// SPDX-License-Identifier: MIT OR Apache-2.0
//! What has grown of each flow since the snapshot before, and what has happened to it for the first time.

use std::collections::HashMap;
use std::hash::Hash;

use mpwatch_model::metric::distribution::Distribution;
use mpwatch_model::metric::event_counter::EventCounter;
use mpwatch_model::metric::{Kind, Metric};

use super::bounded::Sums;

/// A flow that is followed. What was last seen of it lies in arrays beside, in the order of the slots: a tick that goes through
/// hundreds of thousands of flows mostly waits for memory.
struct Slot<K> {
    key: K,
    /// The last snapshot that had it.
    tick: u64,
    /// Where the flow is that came after it in the last snapshot.
    next: usize,
    /// Which of the happenings are counted, by place.
    counted: u8,
}

/// Follows all flows of one kind.
pub(super) struct Growth<K, T: 'static> {
    rows: Vec<&'static Metric<T>>,
    happenings: &'static [EventCounter<T>],
    distributions: &'static [Distribution<T>],
    slots: Vec<Slot<K>>,
    /// For each slot one of each row; not a number: not known.
    values: Vec<f64>,
    /// For each slot one of each distribution: the observations that are over.
    observations: Vec<u64>,
    index: HashMap<K, usize>,
    free: Vec<usize>,
    tick: u64,
    /// Where the flow is that was looked at last. `None`: none yet in this snapshot.
    last: Option<usize>,
    looked: usize,
    /// For each event_counter, how often in each way.
    pub(super) counts: Vec<Vec<u64>>,
    /// For each distribution, what was observed.
    pub(super) observed: Vec<Observed>,
    /// Since the last snapshot, of the flow that was looked at last.
    pub(super) grown: Sums,
    /// Nothing of that has grown, and nothing is known that was not.
    pub(super) is_still: bool,
}

/// A histogram.
#[derive(Clone, Debug)]
pub(super) struct Observed {
    bounds: &'static [f64],
    /// In each bucket alone, and at the end those above all of them.
    counts: Vec<u64>,
    pub(super) sum: f64,
}

impl Observed {
    fn new(bounds: &'static [f64]) -> Self {
        Self { bounds, counts: vec![0; bounds.len() + 1], sum: 0.0 }
    }

    fn add(&mut self, value: f64) {
        self.counts[self.bounds.partition_point(|bound| *bound < value)] += 1;
        self.sum += value;
    }

    /// Upper bounds, and how many are at most that large.
    pub(super) fn cumulative(&self) -> impl Iterator<Item = (f64, u64)> {
        self.bounds.iter().zip(&self.counts).scan(0, |below, (bound, count)| {
            *below += count;
            Some((*bound, *below))
        })
    }

    pub(super) fn count(&self) -> u64 {
        self.counts.iter().sum()
    }
}

/// The rows that are counters.
pub(super) fn counters<T>(table: &'static [Metric<T>]) -> impl Iterator<Item = &'static Metric<T>> {
    table.iter().filter(|metric| metric.kind == Kind::Counter)
}

impl<K: Copy + Eq + Hash, T> Growth<K, T> {
    pub(super) fn new(
        table: &'static [Metric<T>],
        happenings: &'static [EventCounter<T>],
        distributions: &'static [Distribution<T>],
    ) -> Self {
        Self {
            distributions,
            observed: distributions.iter().map(|one| Observed::new(one.bounds)).collect(),
            rows: counters(table).collect(),
            happenings,
            slots: Vec::new(),
            values: Vec::new(),
            observations: Vec::new(),
            index: HashMap::new(),
            free: Vec::new(),
            tick: 0,
            last: None,
            looked: 0,
            counts: happenings.iter().map(|event_counter| vec![0; event_counter.values.len()]).collect(),
            grown: Sums::new(),
            is_still: false,
        }
    }

    /// Looks at one flow. `from_birth`: all that it has carried is new. Of one that is older than the agent only what
    /// comes from now on is, or a restart would count it twice.
    pub(super) fn look(&mut self, key: K, flow: &T, from_birth: bool) {
        let (slot, is_new) = self.find(key);
        self.slots[slot].tick = self.tick;
        self.looked += 1;
        if is_new {
            self.begin(slot, flow, from_birth);
        }
        self.grow(slot, flow, is_new);
        self.count(slot, flow);
        let first = slot * self.distributions.len();
        let over = &mut self.observations[first..first + self.distributions.len()];
        for ((one, over), observed) in self.distributions.iter().zip(over).zip(&mut self.observed) {
            let observations = (one.observations)(flow);
            if observations > *over {
                *over = observations;
                if let Some(value) = (one.of)(flow) {
                    observed.add(value);
                }
            }
        }
    }

    /// The slot of a flow, and whether it is a new one. Snapshots mostly have the same flows in the same order.
    fn find(&mut self, key: K) -> (usize, bool) {
        let hint = self.last.map_or(0, |last| self.slots[last].next);
        // One that was not in the snapshot before is gone, and its slot free or another's.
        let is_there = self.slots.get(hint).is_some_and(|slot| slot.key == key && slot.tick + 1 >= self.tick);
        let known = if is_there { Some(hint) } else { self.index.get(&key).copied() };
        let slot = known.unwrap_or_else(|| self.room(key));
        if let Some(last) = self.last.replace(slot) {
            self.slots[last].next = slot;
        }
        (slot, known.is_none())
    }

    fn room(&mut self, key: K) -> usize {
        let fresh = Slot { key, tick: self.tick, next: 0, counted: 0 };
        let slot = if let Some(slot) = self.free.pop() {
            self.slots[slot] = fresh;
            slot
        } else {
            self.slots.push(fresh);
            self.values.resize(self.slots.len() * self.rows.len(), f64::NAN);
            self.observations.resize(self.slots.len() * self.distributions.len(), 0);
            self.slots.len() - 1
        };
        self.index.insert(key, slot);
        slot
    }

    fn begin(&mut self, slot: usize, flow: &T, from_birth: bool) {
        let first = slot * self.rows.len();
        for (row, value) in self.rows.iter().zip(&mut self.values[first..]) {
            let begins_at_zero = from_birth || row.unit.starts_with_tracing();
            *value = (row.read)(flow).map_or(f64::NAN, |now| if begins_at_zero { 0.0 } else { now });
        }
        let first = slot * self.distributions.len();
        self.observations[first..first + self.distributions.len()].fill(0);
    }

    fn grow(&mut self, slot: usize, flow: &T, is_new: bool) {
        self.grown.clear();
        self.is_still = !is_new;
        let first = slot * self.rows.len();
        for (row, last) in self.rows.iter().zip(&mut self.values[first..]) {
            let Some(now) = (row.read)(flow) else {
                self.grown.push(None);
                continue;
            };
            // A value that was not known at first begins at zero; one that goes down waits until it is higher again.
            let was_known = !last.is_nan();
            let grown = (now - if was_known { *last } else { 0.0 }).max(0.0);
            self.is_still &= was_known && grown <= 0.0;
            *last = if was_known { last.max(now) } else { now };
            self.grown.push(Some(grown));
        }
    }

    fn count(&mut self, slot: usize, flow: &T) {
        let counted = &mut self.slots[slot].counted;
        for (place, event_counter) in self.happenings.iter().enumerate() {
            if *counted & (1 << place) != 0 {
                continue;
            }
            let value = (event_counter.of)(flow);
            if let Some(way) =
                value.and_then(|value| event_counter.values.iter().position(|one| *one == value))
            {
                *counted |= 1 << place;
                self.counts[place][way] += 1;
            }
        }
    }

    /// Ends a snapshot: who was not looked at is gone, and stays in all sums.
    pub(super) fn end(&mut self) {
        let tick = self.tick;
        if self.looked < self.index.len() {
            let (slots, free) = (&self.slots, &mut self.free);
            self.index.retain(|_, slot| {
                let is_here = slots[*slot].tick == tick;
                if !is_here {
                    free.push(*slot);
                }
                is_here
            });
        }
        (self.last, self.looked) = (None, 0);
        self.tick += 1;
    }
}

#[cfg(test)]
mod tests {
    use mpwatch_model::fixture;
    use mpwatch_model::id::ConnectionId;
    use mpwatch_model::metric::CONNECTION;
    use mpwatch_model::unit::Bytes;

    use super::*;

    fn followed() -> Growth<ConnectionId, mpwatch_model::connection::Connection> {
        Growth::new(CONNECTION, &[], &[])
    }

    #[test]
    fn each_flow_is_compared_with_itself_whatever_the_order() {
        let mut growth = followed();
        // Numbers of flows in each snapshot: some go, others take their places, and the order changes.
        let snapshots: [&[u32]; 5] = [&[1, 2, 3, 4], &[1, 3, 4, 5], &[5, 4, 3, 6, 7], &[6, 7, 8, 3], &[8]];
        let mut sent: HashMap<u32, u64> = HashMap::new();
        for (turn, numbers) in (1..).zip(snapshots) {
            sent.retain(|number, _| numbers.contains(number));
            for &number in numbers {
                let mut flow = fixture::connection(number, 1);
                let before = sent.get(&number).copied().unwrap_or_default();
                let now = before + u64::from(number) * turn;
                flow.bytes_sent = Some(Bytes(now));
                growth.look(flow.id, &flow, true);
                assert_eq!(growth.grown[0], Some((now - before) as f64), "{number} in snapshot {turn}");
                assert!(!growth.is_still);
                sent.insert(number, now);
            }
            growth.end();
            assert_eq!(growth.index.len(), numbers.len());
        }
        growth.end();
        let one = fixture::connection(8, 1);
        growth.look(one.id, &one, true);
        assert_eq!(growth.grown[0], one.bytes_sent.map(|bytes| bytes.0 as f64), "it was gone: another one");
        assert!(growth.slots.len() <= 6, "slots are used again: {}", growth.slots.len());
    }

    #[test]
    fn what_stands_still_is_told() {
        let mut growth = followed();
        let mut flow = fixture::connection(1, 1);
        let mut look = |flow: &_| {
            growth.look(fixture::connection(1, 1).id, flow, true);
            growth.end();
            growth.is_still
        };
        flow.cpu = None;
        assert_eq!([look(&flow), look(&flow)], [false, true]);
        flow.cpu = Some(mpwatch_model::cpu::CpuTimes::default());
        assert!(!look(&flow), "it is known now");
        flow.bytes_sent = flow.bytes_sent.map(|bytes| bytes + Bytes(1));
        assert_eq!([look(&flow), look(&flow)], [false, true]);
    }
}
