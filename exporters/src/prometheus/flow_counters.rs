// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares the counters of all flows of one kind between snapshots: increases, first occurrences of events, observations of histograms.

use std::collections::HashMap;
use std::hash::Hash;

use mpwatch_model::capacity::is_excessive;
use mpwatch_model::metric::Metric;
use mpwatch_model::metric::distribution::Distribution;
use mpwatch_model::metric::event_counter::EventCounter;

use super::histogram::Histogram;
use super::sums::{Increase, counters};

/// A flow. Its latest values are in separate arrays at the same index, because large snapshots are bound by memory access.
struct FlowEntry<K> {
    key: K,
    /// The last snapshot that contained it.
    snapshot: u64,
    /// Index of the flow that followed it in that snapshot.
    next: usize,
    /// Which of the events were counted, one bit each.
    counted: u8,
}

/// The counters, events and distributions of all flows of one kind.
pub(super) struct FlowCounters<K, T: 'static> {
    counters: Vec<&'static Metric<T>>,
    events: &'static [EventCounter<T>],
    distributions: &'static [Distribution<T>],
    flows: Vec<FlowEntry<K>>,
    /// For each flow, one value for each counter. `NaN`: unknown.
    values: Vec<f64>,
    /// For each flow, one number for each distribution: how many observations it has had.
    observations: Vec<u64>,
    indices: HashMap<K, usize>,
    unused: Vec<usize>,
    /// Number of the current snapshot.
    snapshot: u64,
    /// Index of the flow updated last in this snapshot.
    previous: Option<usize>,
    /// Flows updated in this snapshot.
    updated: usize,
    increase: Increase,
    /// For each event counter, a count for each value of its label.
    pub(super) event_counts: Vec<Vec<u64>>,
    /// One for each distribution.
    pub(super) histograms: Vec<Histogram>,
}

impl<K: Copy + Eq + Hash, T> FlowCounters<K, T> {
    pub(super) fn new(
        table: &'static [Metric<T>],
        events: &'static [EventCounter<T>],
        distributions: &'static [Distribution<T>],
    ) -> Self {
        Self {
            counters: counters(table).collect(),
            events,
            distributions,
            flows: Vec::new(),
            values: Vec::new(),
            observations: Vec::new(),
            indices: HashMap::new(),
            unused: Vec::new(),
            snapshot: 0,
            previous: None,
            updated: 0,
            increase: Increase::default(),
            event_counts: events.iter().map(|event| vec![0; event.values.len()]).collect(),
            histograms: distributions.iter().map(|row| Histogram::new(row.bounds)).collect(),
        }
    }

    /// Takes a flow's values and returns their increase. `from_start`: its first totals count; those of an older flow were counted before.
    pub(super) fn update(&mut self, key: K, flow: &T, from_start: bool) -> &Increase {
        let (index, is_new) = self.find(key);
        self.flows[index].snapshot = self.snapshot;
        self.updated += 1;
        if is_new {
            self.start(index, flow, from_start);
        }
        self.compute_increase(index, flow, is_new);
        self.count_events(index, flow);
        self.observe(index, flow);
        &self.increase
    }

    /// The index of a flow, and whether it is new. Consecutive snapshots mostly have the same flows in the same order.
    fn find(&mut self, key: K) -> (usize, bool) {
        let expected = self.previous.map_or(0, |previous| self.flows[previous].next);
        // The entry of a flow that was not in the previous snapshot is unused, or another flow's.
        let is_expected = self
            .flows
            .get(expected)
            .is_some_and(|flow| flow.key == key && flow.snapshot + 1 >= self.snapshot);
        let known = if is_expected { Some(expected) } else { self.indices.get(&key).copied() };
        let index = known.unwrap_or_else(|| self.insert(key));
        if let Some(previous) = self.previous.replace(index) {
            self.flows[previous].next = index;
        }
        (index, known.is_none())
    }

    fn insert(&mut self, key: K) -> usize {
        let entry = FlowEntry { key, snapshot: self.snapshot, next: 0, counted: 0 };
        let index = if let Some(index) = self.unused.pop() {
            self.flows[index] = entry;
            index
        } else {
            self.flows.push(entry);
            self.values.resize(self.flows.len() * self.counters.len(), f64::NAN);
            self.observations.resize(self.flows.len() * self.distributions.len(), 0);
            self.flows.len() - 1
        };
        self.indices.insert(key, index);
        index
    }

    fn start(&mut self, index: usize, flow: &T, from_start: bool) {
        let first = index * self.counters.len();
        for (row, value) in self.counters.iter().zip(&mut self.values[first..]) {
            let starts_at_zero = from_start || row.unit.starts_with_tracing();
            *value = (row.read)(flow).map_or(f64::NAN, |now| if starts_at_zero { 0.0 } else { now });
        }
        let first = index * self.distributions.len();
        self.observations[first..first + self.distributions.len()].fill(0);
    }

    fn compute_increase(&mut self, index: usize, flow: &T, is_new: bool) {
        let Increase { values, unchanged } = &mut self.increase;
        values.clear();
        *unchanged = !is_new;
        let first = index * self.counters.len();
        for (row, last) in self.counters.iter().zip(&mut self.values[first..]) {
            let Some(now) = (row.read)(flow) else {
                values.push(None);
                continue;
            };
            // A counter that becomes known later starts at zero. One that decreases adds nothing until it exceeds its maximum.
            let was_known = !last.is_nan();
            let increase = (now - if was_known { *last } else { 0.0 }).max(0.0);
            *unchanged &= was_known && increase <= 0.0;
            *last = if was_known { last.max(now) } else { now };
            values.push(Some(increase));
        }
    }

    fn count_events(&mut self, index: usize, flow: &T) {
        let counted = &mut self.flows[index].counted;
        for (number, event) in self.events.iter().enumerate() {
            if *counted & (1 << number) != 0 {
                continue;
            }
            let label = (event.of)(flow);
            if let Some(label) = label.and_then(|label| event.values.iter().position(|one| *one == label)) {
                *counted |= 1 << number;
                self.event_counts[number][label] += 1;
            }
        }
    }

    fn observe(&mut self, index: usize, flow: &T) {
        let first = index * self.distributions.len();
        let seen = &mut self.observations[first..];
        for ((row, seen), histogram) in self.distributions.iter().zip(seen).zip(&mut self.histograms) {
            let observations = (row.observations)(flow);
            if observations > *seen {
                *seen = observations;
                if let Some(value) = (row.of)(flow) {
                    histogram.observe(value);
                }
            }
        }
    }

    /// Ends a snapshot: forgets the flows that it did not contain. They stay in all sums.
    pub(super) fn end_snapshot(&mut self) {
        if self.updated < self.indices.len() {
            self.indices.retain(|_, index| {
                let is_present = self.flows[*index].snapshot == self.snapshot;
                if !is_present {
                    self.unused.push(*index);
                }
                is_present
            });
        }
        if is_excessive(self.flows.len(), self.indices.len()) {
            self.compact();
        }
        (self.previous, self.updated) = (None, 0);
        self.snapshot += 1;
    }

    /// Gives back the memory of a burst: moves the flows of the current snapshot to the beginning.
    fn compact(&mut self) {
        let mut kept: Vec<(K, usize)> = self.indices.drain().collect();
        kept.sort_unstable_by_key(|(_, index)| *index);
        let columns = [self.counters.len(), self.distributions.len()];
        let range = |index: usize, column: usize| index * columns[column]..(index + 1) * columns[column];
        let indices = || kept.iter().map(|(_, index)| *index);
        // The order of the next snapshot is learned again.
        self.flows = indices().map(|old| FlowEntry { next: 0, ..self.flows[old] }).collect();
        self.values = indices().flat_map(|old| &self.values[range(old, 0)]).copied().collect();
        self.observations = indices().flat_map(|old| &self.observations[range(old, 1)]).copied().collect();
        self.indices = kept.iter().enumerate().map(|(new, (key, _))| (*key, new)).collect();
        self.unused = Vec::new();
    }
}

#[cfg(test)]
mod tests {
    use mpwatch_fixtures as fixture;
    use mpwatch_model::connection::Connection;
    use mpwatch_model::cpu::CpuTimes;
    use mpwatch_model::id::ConnectionId;
    use mpwatch_model::metric::CONNECTION;
    use mpwatch_model::unit::Bytes;

    use super::*;

    fn flow_counters() -> FlowCounters<ConnectionId, Connection> {
        FlowCounters::new(CONNECTION, &[], &[])
    }

    #[test]
    fn each_flow_is_compared_with_itself_in_any_order() {
        let mut counters = flow_counters();
        // The flows of each snapshot: some end, new ones reuse their entries, and the order changes.
        let snapshots: [&[u32]; 5] = [&[1, 2, 3, 4], &[1, 3, 4, 5], &[5, 4, 3, 6, 7], &[6, 7, 8, 3], &[8]];
        let mut sent: HashMap<u32, u64> = HashMap::new();
        for (turn, numbers) in (1..).zip(snapshots) {
            sent.retain(|number, _| numbers.contains(number));
            for &number in numbers {
                let mut flow = fixture::connection(number, 1);
                let before = sent.get(&number).copied().unwrap_or_default();
                let now = before + u64::from(number) * turn;
                flow.bytes_sent = Some(Bytes(now));
                let increase = counters.update(flow.id, &flow, true);
                assert_eq!(increase.values[0], Some((now - before) as f64), "{number} in snapshot {turn}");
                assert!(!increase.unchanged);
                sent.insert(number, now);
            }
            counters.end_snapshot();
            assert_eq!(counters.indices.len(), numbers.len());
        }
        counters.end_snapshot();
        let flow = fixture::connection(8, 1);
        let increase = counters.update(flow.id, &flow, true).values[0];
        assert_eq!(increase, flow.bytes_sent.map(|bytes| bytes.0 as f64), "it was forgotten: a new flow");
        assert!(counters.flows.len() <= 6, "{} entries: they are not reused", counters.flows.len());
    }

    #[test]
    fn after_a_burst_the_memory_is_given_back_and_flows_go_on_from_their_values() {
        let mut counters = flow_counters();
        let mut flows: Vec<Connection> = (1..=4_000).map(|number| fixture::connection(number, 1)).collect();
        for flow in &flows {
            counters.update(flow.id, flow, true);
        }
        counters.end_snapshot();
        // Those that stay are not the first ones.
        flows.retain(|flow| flow.id.token.0 % 40 == 7);
        let expected = flows.len();
        for turn in 1..4 {
            for flow in flows.iter_mut().rev() {
                flow.bytes_sent = flow.bytes_sent.map(|bytes| bytes + Bytes(turn));
                let increase = counters.update(flow.id, flow, true);
                assert_eq!(increase.values[0], Some(turn as f64), "turn {turn}");
            }
            counters.end_snapshot();
            assert_eq!((counters.flows.len(), counters.indices.len()), (expected, expected));
            assert!(counters.values.capacity() < 1_000 * counters.counters.len());
        }
        assert!(expected > 50);
    }

    #[test]
    fn an_unchanged_flow_is_reported_as_unchanged() {
        let mut counters = flow_counters();
        let mut flow = fixture::connection(1, 1);
        let mut is_unchanged = |flow: &Connection| {
            let unchanged = counters.update(flow.id, flow, true).unchanged;
            counters.end_snapshot();
            unchanged
        };
        flow.cpu = None;
        assert_eq!([is_unchanged(&flow), is_unchanged(&flow)], [false, true]);
        flow.cpu = Some(CpuTimes::default());
        assert!(!is_unchanged(&flow), "a counter became known");
        flow.bytes_sent = flow.bytes_sent.map(|bytes| bytes + Bytes(1));
        assert_eq!([is_unchanged(&flow), is_unchanged(&flow)], [false, true]);
    }
}
