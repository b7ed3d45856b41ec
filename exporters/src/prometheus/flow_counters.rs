// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares the counters of all flows of one kind between snapshots: increases, first occurrences of events, observations of histograms.

use std::hash::Hash;

use mpwatch_model::metric::Metric;
use mpwatch_model::metric::distribution::Distribution;
use mpwatch_model::metric::event_counter::EventCounter;

use super::flow_arena::FlowArena;
use super::histogram::Histogram;
use super::sums::{Increase, counters};

/// A flow that the current snapshot lists.
#[derive(Clone, Copy)]
pub(super) struct Listed {
    index: usize,
    is_new: bool,
}

/// The counters, events and distributions of all flows of one kind, and facts about each that are needed also while it is idle.
pub(super) struct FlowCounters<K, T: 'static, F> {
    counters: Vec<&'static Metric<T>>,
    events: &'static [EventCounter<T>],
    distributions: Vec<&'static Distribution<T>>,
    flows: FlowArena<K, F>,
    /// Number of the current snapshot.
    snapshot: u64,
    /// The flows that this snapshot lists, and the flows that the previous snapshot listed.
    listed: Vec<Listed>,
    listed_before: Vec<Listed>,
    increase: Increase,
    /// For each event counter, a count for each value of its label.
    pub(super) event_counts: Vec<Vec<u64>>,
    /// One for each distribution.
    pub(super) histograms: Vec<Histogram>,
}

impl<K: Copy + Eq + Hash, T, F: Copy> FlowCounters<K, T, F> {
    pub(super) fn new(
        table: &'static [Metric<T>],
        events: &'static [EventCounter<T>],
        distributions: impl IntoIterator<Item = &'static Distribution<T>>,
    ) -> Self {
        let distributions: Vec<_> = distributions.into_iter().collect();
        let counters: Vec<_> = counters(table).collect();
        Self {
            flows: FlowArena::new(counters.len(), distributions.len()),
            counters,
            events,
            snapshot: 0,
            listed: Vec::new(),
            listed_before: Vec::new(),
            increase: Increase::default(),
            event_counts: events.iter().map(|event| vec![0; event.values.len()]).collect(),
            histograms: distributions.iter().map(|row| Histogram::new(row.bounds)).collect(),
            distributions,
        }
    }

    /// Notes that the current snapshot lists a flow, with its facts. Returns its facts before. `None`: it is new.
    pub(super) fn list(&mut self, key: K, facts: F) -> Option<F> {
        let (index, is_new) = self.find(key);
        self.flows.entry_mut(index).snapshot = self.snapshot;
        self.listed.push(Listed { index, is_new });
        self.flows.set_facts(index, facts)
    }

    /// Forgets the flows that the previous snapshot listed, and this one does not, unless they are idle. They stay in all sums. `each` gets
    /// their facts.
    pub(super) fn forget_gone(&mut self, is_idle: impl Fn(&K) -> bool, mut each: impl FnMut(F)) {
        for Listed { index, .. } in std::mem::take(&mut self.listed_before) {
            let flow = self.flows.entry_mut(index);
            if flow.snapshot != self.snapshot && !is_idle(&flow.key) {
                self.flows.remove(index).into_iter().for_each(&mut each);
            }
        }
    }

    /// Records the values of the flow that was listed as number `place`, and returns their increase. `from_start`: its first totals count;
    /// the totals of an older flow were counted before.
    pub(super) fn update(&mut self, place: usize, flow: &T, from_start: bool) -> &Increase {
        let Listed { index, is_new } = self.listed[place];
        if is_new {
            self.start(index, flow, from_start);
        }
        self.compute_increase(index, flow, is_new);
        self.count_events(index, flow);
        self.observe(index, flow);
        &self.increase
    }

    /// The facts of all flows, idle ones included.
    pub(super) fn facts(&self) -> impl Iterator<Item = (K, &F)> {
        self.flows.flows().map(|(_, flow, facts)| (flow.key, facts))
    }

    /// The facts of the idle flows, with an increase of zero for each counter that is known.
    pub(super) fn idle(&self) -> impl Iterator<Item = (&F, Increase)> {
        let idle = self.flows.flows().filter(|(_, flow, _)| flow.snapshot != self.snapshot);
        idle.map(|(index, _, facts)| (facts, self.zeros(index)))
    }

    /// An increase of zero for each known counter of a flow. `None`: there is no such flow.
    pub(super) fn unchanged(&self, key: &K) -> Option<Increase> {
        Some(self.zeros(self.flows.index_of(key)?))
    }

    fn zeros(&self, index: usize) -> Increase {
        let values = self.flows.values(index).iter().map(|last| (!last.is_nan()).then_some(0.0)).collect();
        Increase { values, unchanged: true, observed: Vec::new() }
    }

    /// The index of a flow, and whether it is new. Consecutive snapshots mostly have the same flows in the same order.
    fn find(&mut self, key: K) -> (usize, bool) {
        let previous = self.listed.last().map(|listed| listed.index);
        let expected = previous.map_or(0, |previous| self.flows.entry(previous).map_or(0, |flow| flow.next));
        // The entry of a flow that the previous snapshot did not list may be unused.
        let is_expected = self
            .flows
            .entry(expected)
            .is_some_and(|flow| flow.key == key && flow.snapshot + 1 >= self.snapshot);
        let known = if is_expected { Some(expected) } else { self.flows.index_of(&key) };
        let index = known.unwrap_or_else(|| self.flows.insert(key, self.snapshot));
        if let Some(previous) = previous {
            self.flows.entry_mut(previous).next = index;
        }
        (index, known.is_none())
    }

    fn start(&mut self, index: usize, flow: &T, from_start: bool) {
        for (row, value) in self.counters.iter().zip(self.flows.values_mut(index)) {
            let starts_at_zero = from_start || row.unit.starts_with_tracing();
            *value = (row.read)(flow).map_or(f64::NAN, |now| if starts_at_zero { 0.0 } else { now });
        }
        self.flows.observations_mut(index).fill(0);
    }

    fn compute_increase(&mut self, index: usize, flow: &T, is_new: bool) {
        let Increase { values, unchanged, .. } = &mut self.increase;
        values.clear();
        *unchanged = !is_new;
        for (row, last) in self.counters.iter().zip(self.flows.values_mut(index)) {
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
        let counted = &mut self.flows.entry_mut(index).counted;
        for (number, event) in self.events.iter().enumerate() {
            if *counted & (1 << number) != 0 {
                continue;
            }
            let label = (event.kind)(flow);
            if let Some(label) = label.and_then(|label| event.values.iter().position(|value| *value == label))
            {
                *counted |= 1 << number;
                self.event_counts[number][label] += 1;
            }
        }
    }

    fn observe(&mut self, index: usize, flow: &T) {
        let counted = self.flows.observations_mut(index);
        self.increase.observed.clear();
        for ((row, counted), histogram) in self.distributions.iter().zip(counted).zip(&mut self.histograms) {
            let observations = (row.observations)(flow);
            let value = (row.value)(flow).filter(|_| observations > *counted);
            *counted = observations.max(*counted);
            if let Some(value) = value {
                histogram.observe(value);
            }
            self.increase.observed.push(value);
        }
    }

    /// Ends a snapshot.
    pub(super) fn end_snapshot(&mut self) {
        if let Some(kept) = self.flows.compact() {
            let moved = |Listed { index, is_new }: &Listed| {
                Some(Listed { index: kept.binary_search(index).ok()?, is_new: *is_new })
            };
            self.listed = self.listed.iter().filter_map(moved).collect();
        }
        std::mem::swap(&mut self.listed, &mut self.listed_before);
        self.listed.clear();
        self.snapshot += 1;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use mpwatch_fixtures as fixture;
    use mpwatch_model::flow::connection::Connection;
    use mpwatch_model::id::ConnectionId;
    use mpwatch_model::kernel::cpu::CpuTimes;
    use mpwatch_model::metric::CONNECTION;
    use mpwatch_model::unit::Bytes;

    use super::*;

    fn flow_counters() -> FlowCounters<ConnectionId, Connection, ()> {
        FlowCounters::new(CONNECTION, &[], &[])
    }

    /// Ends a snapshot after a list of these flows, and returns their increases.
    fn take<'a>(
        counters: &mut FlowCounters<ConnectionId, Connection, ()>,
        flows: impl IntoIterator<Item = &'a Connection>,
    ) -> Vec<Increase> {
        let flows: Vec<&Connection> = flows.into_iter().collect();
        for flow in &flows {
            counters.list(flow.id, ());
        }
        counters.forget_gone(|_| false, |()| ());
        let update = |(place, flow): (usize, &&Connection)| {
            let Increase { values, unchanged, .. } = counters.update(place, flow, true);
            Increase { values: values.clone(), unchanged: *unchanged, observed: Vec::new() }
        };
        let increases = flows.iter().enumerate().map(update).collect();
        counters.end_snapshot();
        increases
    }

    #[test]
    fn each_flow_is_compared_with_itself_in_any_order() {
        let mut counters = flow_counters();
        // The flows of each snapshot: some end, new ones reuse their entries, and the order changes.
        let snapshots: [&[u32]; 5] = [&[1, 2, 3, 4], &[1, 3, 4, 5], &[5, 4, 3, 6, 7], &[6, 7, 8, 3], &[8]];
        let mut sent: HashMap<u32, u64> = HashMap::new();
        for (turn, numbers) in (1..).zip(snapshots) {
            sent.retain(|number, _| numbers.contains(number));
            let (mut flows, mut expected) = (Vec::new(), Vec::new());
            for &number in numbers {
                let mut flow = fixture::connection(number, 1);
                let before = sent.get(&number).copied().unwrap_or_default();
                let now = before + u64::from(number) * turn;
                flow.bytes_sent = Some(Bytes(now));
                flows.push(flow);
                expected.push(Some((now - before) as f64));
                sent.insert(number, now);
            }
            let increases = take(&mut counters, &flows);
            let found: Vec<_> = increases.iter().map(|increase| increase.values[0]).collect();
            assert_eq!(found, expected, "{numbers:?} in snapshot {turn}");
            assert!(increases.iter().all(|increase| !increase.unchanged));
            assert_eq!(counters.flows.size().0, numbers.len());
        }
        take(&mut counters, []);
        let flow = fixture::connection(8, 1);
        let increase = take(&mut counters, [&flow])[0].values[0];
        assert_eq!(increase, flow.bytes_sent.map(|bytes| bytes.0 as f64), "it was forgotten: a new flow");
        let (_, entries) = counters.flows.size();
        assert!(entries <= 6, "{entries} entries: they are not reused");
    }

    #[test]
    fn after_a_burst_the_memory_is_given_back_and_flows_go_on_from_their_values() {
        let mut counters = flow_counters();
        let mut flows: Vec<Connection> = (1..=4_000).map(|number| fixture::connection(number, 1)).collect();
        take(&mut counters, &flows);
        // The flows that stay are not the first in the list.
        flows.retain(|flow| flow.id.token.0 % 40 == 7);
        let expected = flows.len();
        for turn in 1..4 {
            for flow in &mut flows {
                flow.bytes_sent = flow.bytes_sent.map(|bytes| bytes + Bytes(turn));
            }
            let increases = take(&mut counters, flows.iter().rev());
            let is_right = |increase: &Increase| increase.values[0] == Some(turn as f64);
            assert!(increases.iter().all(is_right), "turn {turn}");
            assert_eq!(counters.flows.size(), (expected, expected));
            assert!(counters.flows.capacity() < 1_000 * counters.counters.len());
        }
        assert!(expected > 50);
    }

    #[test]
    fn an_idle_flow_is_not_listed_and_goes_on_from_its_values() {
        let mut counters = flow_counters();
        let mut flow = fixture::connection(1, 1);
        take(&mut counters, [&flow]);
        for _ in 0..3 {
            counters.forget_gone(|id| *id == flow.id, |()| ());
            assert_eq!(counters.facts().count(), 1);
            assert_eq!(counters.idle().count(), 1);
            counters.end_snapshot();
        }
        flow.bytes_sent = flow.bytes_sent.map(|bytes| bytes + Bytes(5));
        assert_eq!(take(&mut counters, [&flow])[0].values[0], Some(5.0));
        take(&mut counters, []);
        assert_eq!(counters.facts().count(), 0);
    }

    #[test]
    fn an_unchanged_flow_is_reported_as_unchanged() {
        let mut counters = flow_counters();
        let mut flow = fixture::connection(1, 1);
        let mut is_unchanged = |flow: &Connection| take(&mut counters, [flow])[0].unchanged;
        flow.cpu = None;
        assert_eq!([is_unchanged(&flow), is_unchanged(&flow)], [false, true]);
        flow.cpu = Some(CpuTimes::default());
        assert!(!is_unchanged(&flow), "a counter became known");
        flow.bytes_sent = flow.bytes_sent.map(|bytes| bytes + Bytes(1));
        assert_eq!([is_unchanged(&flow), is_unchanged(&flow)], [false, true]);
    }
}
