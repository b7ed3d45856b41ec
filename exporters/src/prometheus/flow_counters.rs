// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares the counters of all flows of one kind between snapshots: increases, first occurrences of events, observations of histograms.

use std::hash::Hash;

use mpwatch_model::capacity::is_excessive;
use mpwatch_model::metric::Metric;
use mpwatch_model::metric::distribution::Distribution;
use mpwatch_model::metric::event_counter::EventCounter;
use rustc_hash::FxHashMap;
use slab::Slab;

use super::values::{Increase, Sums, counters, observe};

struct Flow<K, F> {
    key: K,
    facts: F,
    /// Number of the last snapshot that listed the flow.
    snapshot: u64,
    /// The events that were counted, one bit each.
    counted: u8,
    /// The latest value of each counter; `NaN`: unknown. Empty until the first update.
    values: Box<[f64]>,
    /// For each distribution, the number of observations so far.
    observations: Box<[u64]>,
}

/// The counters, events and distributions of all flows of one kind, with facts about each flow that are kept while it is idle.
pub(super) struct FlowCounters<K, T: 'static, F> {
    counters: Vec<&'static Metric<T>>,
    events: &'static [EventCounter<T>],
    distributions: Vec<&'static Distribution<T>>,
    flows: Slab<Flow<K, F>>,
    indices: FxHashMap<K, usize>,
    snapshot: u64,
    /// Indices of the flows that this snapshot lists, and of the flows that the previous snapshot listed.
    listed: Vec<usize>,
    listed_before: Vec<usize>,
    increase: Increase,
    /// For each event counter, a count for each value of its label.
    pub(super) event_counts: Vec<Vec<u64>>,
    /// The sums of a histogram for each distribution.
    pub(super) histograms: Vec<Sums>,
}

impl<K: Copy + Eq + Hash, T, F: Copy> FlowCounters<K, T, F> {
    pub(super) fn new(
        table: &'static [Metric<T>],
        events: &'static [EventCounter<T>],
        distributions: impl IntoIterator<Item = &'static Distribution<T>>,
    ) -> Self {
        let distributions: Vec<_> = distributions.into_iter().collect();
        Self {
            counters: counters(table).collect(),
            events,
            flows: Slab::new(),
            indices: FxHashMap::default(),
            snapshot: 0,
            listed: Vec::new(),
            listed_before: Vec::new(),
            increase: Increase::default(),
            event_counts: events.iter().map(|event| vec![0; event.values.len()]).collect(),
            histograms: vec![Sums::new(); distributions.len()],
            distributions,
        }
    }

    /// Records that the current snapshot lists a flow. Returns its previous facts. `None`: the flow is new.
    pub(super) fn list(&mut self, key: K, facts: F) -> Option<F> {
        let snapshot = self.snapshot;
        let known = self.indices.get(&key).copied();
        let index = known.unwrap_or_else(|| {
            let (values, observations) = (Box::default(), vec![0; self.distributions.len()].into());
            let index = self.flows.insert(Flow { key, facts, snapshot, counted: 0, values, observations });
            self.indices.insert(key, index);
            index
        });
        self.listed.push(index);
        let flow = &mut self.flows[index];
        flow.snapshot = snapshot;
        known.map(|_| std::mem::replace(&mut flow.facts, facts))
    }

    /// Forgets the flows that are neither in this snapshot nor idle. All sums still include them. Passes their facts to `each`.
    pub(super) fn forget_gone(&mut self, is_idle: impl Fn(&K) -> bool, mut each: impl FnMut(F)) {
        for index in std::mem::take(&mut self.listed_before) {
            let Some(Flow { key, snapshot, .. }) = self.flows.get(index) else { continue };
            if *snapshot != self.snapshot && !is_idle(key) {
                self.indices.remove(key);
                each(self.flows.remove(index).facts);
            }
        }
    }

    /// Records the values of the flow that was listed as number `place`. Returns its facts and the increase of its counters. `from_start`: the
    /// flow began while mpwatch ran, so its first totals are an increase.
    pub(super) fn update(&mut self, place: usize, flow: &T, from_start: bool) -> (F, &Increase) {
        let known = &mut self.flows[self.listed[place]];
        let is_new = known.values.is_empty();
        if is_new {
            let first = |row: &&Metric<T>| {
                let starts_at_zero = from_start || row.unit.starts_with_tracing();
                (row.read)(flow).map_or(f64::NAN, |now| if starts_at_zero { 0.0 } else { now })
            };
            known.values = self.counters.iter().map(first).collect();
        }
        let Increase { values, unchanged, observed, events } = &mut self.increase;
        values.clear();
        *unchanged = !is_new;
        for (row, last) in self.counters.iter().zip(&mut known.values) {
            let Some(now) = (row.read)(flow) else {
                values.push(None);
                continue;
            };
            // A counter that becomes known later counts from zero. After a decrease, a counter adds nothing until it exceeds its earlier maximum.
            let was_known = !last.is_nan();
            let increase = (now - if was_known { *last } else { 0.0 }).max(0.0);
            *unchanged &= was_known && increase <= 0.0;
            *last = if was_known { last.max(now) } else { now };
            values.push(Some(increase));
        }
        events.clear();
        for (number, (event, counts)) in self.events.iter().zip(&mut self.event_counts).enumerate() {
            if known.counted & (1 << number) == 0
                && let Some(label) = (event.kind)(flow)
                && let Some(place) = event.values.iter().position(|value| *value == label)
            {
                known.counted |= 1 << number;
                counts[place] += 1;
                events.push((number, place));
            }
        }
        observed.clear();
        let rows = self.distributions.iter().zip(&mut known.observations).zip(&mut self.histograms);
        for ((row, counted), histogram) in rows {
            let observations = (row.observations)(flow);
            let value = (row.value)(flow).filter(|_| observations > *counted);
            *counted = observations.max(*counted);
            if let Some(value) = value {
                observe(histogram, row.bounds, value);
            }
            observed.push(value);
        }
        (known.facts, &self.increase)
    }

    /// The facts of all flows, including idle flows.
    pub(super) fn facts(&self) -> impl Iterator<Item = (K, &F)> {
        self.flows.iter().map(|(_, flow)| (flow.key, &flow.facts))
    }

    /// The facts of the idle flows, with an increase of zero for each counter that is known.
    pub(super) fn idle(&self) -> impl Iterator<Item = (&F, Increase)> {
        let idle = self.flows.iter().filter(|(_, flow)| flow.snapshot != self.snapshot);
        idle.map(|(_, flow)| (&flow.facts, zeros(flow)))
    }

    /// An increase of zero for each known counter of a flow. `None`: there is no such flow.
    pub(super) fn unchanged(&self, key: &K) -> Option<Increase> {
        self.indices.get(key).map(|index| zeros(&self.flows[*index]))
    }

    /// Ends a snapshot. Frees memory that a burst of flows needed.
    pub(super) fn end_snapshot(&mut self) {
        if is_excessive(self.flows.capacity(), self.flows.len()) {
            let mut moved = FxHashMap::default();
            self.flows.compact(|flow, from, to| {
                self.indices.insert(flow.key, to);
                moved.insert(from, to);
                true
            });
            self.indices.shrink_to_fit();
            self.listed.iter_mut().for_each(|index| *index = moved.get(index).copied().unwrap_or(*index));
        }
        self.listed_before = std::mem::take(&mut self.listed);
        self.snapshot += 1;
    }
}

fn zeros<K, F>(flow: &Flow<K, F>) -> Increase {
    let values = flow.values.iter().map(|last| (!last.is_nan()).then_some(0.0)).collect();
    Increase { values, unchanged: true, ..Increase::default() }
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

    /// Lists these flows in a snapshot and ends it. Returns the increases of the flows.
    fn snapshot<'a>(
        counters: &mut FlowCounters<ConnectionId, Connection, ()>,
        flows: impl IntoIterator<Item = &'a Connection>,
    ) -> Vec<Increase> {
        let flows: Vec<&Connection> = flows.into_iter().collect();
        for flow in &flows {
            counters.list(flow.id, ());
        }
        counters.forget_gone(|_| false, |()| ());
        let update = |(place, flow): (usize, &&Connection)| {
            let ((), Increase { values, unchanged, .. }) = counters.update(place, flow, true);
            Increase { values: values.clone(), unchanged: *unchanged, ..Increase::default() }
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
            let increases = snapshot(&mut counters, &flows);
            let found: Vec<_> = increases.iter().map(|increase| increase.values[0]).collect();
            assert_eq!(found, expected, "{numbers:?} in snapshot {turn}");
            assert!(increases.iter().all(|increase| !increase.unchanged));
            assert_eq!(counters.flows.len(), numbers.len());
        }
        snapshot(&mut counters, []);
        let flow = fixture::connection(8, 1);
        let increase = snapshot(&mut counters, [&flow])[0].values[0];
        assert_eq!(increase, flow.bytes_sent.map(|bytes| bytes.0 as f64), "a forgotten flow counts as new");
        assert!(counters.flows.capacity() <= 8, "entries are not reused");
    }

    #[test]
    fn after_a_burst_the_memory_is_given_back_and_flows_go_on_from_their_values() {
        let mut counters = flow_counters();
        let mut flows: Vec<Connection> = (1..=4_000).map(|number| fixture::connection(number, 1)).collect();
        snapshot(&mut counters, &flows);
        // The remaining flows are not the first in the list.
        flows.retain(|flow| flow.id.token.0 % 40 == 7);
        let expected = flows.len();
        for turn in 1..4 {
            for flow in &mut flows {
                flow.bytes_sent = flow.bytes_sent.map(|bytes| bytes + Bytes(turn));
            }
            let increases = snapshot(&mut counters, flows.iter().rev());
            let is_right = |increase: &Increase| increase.values[0] == Some(turn as f64);
            assert!(increases.iter().all(is_right), "turn {turn}");
            assert_eq!(counters.flows.len(), expected);
            assert!(counters.flows.capacity() < 1_000 && counters.indices.capacity() < 1_000);
        }
        assert!(expected > 50);
    }

    #[test]
    fn an_idle_flow_is_not_listed_and_goes_on_from_its_values() {
        let mut counters = flow_counters();
        let mut flow = fixture::connection(1, 1);
        snapshot(&mut counters, [&flow]);
        for _ in 0..3 {
            counters.forget_gone(|id| *id == flow.id, |()| ());
            assert_eq!(counters.facts().count(), 1);
            assert_eq!(counters.idle().count(), 1);
            counters.end_snapshot();
        }
        flow.bytes_sent = flow.bytes_sent.map(|bytes| bytes + Bytes(5));
        assert_eq!(snapshot(&mut counters, [&flow])[0].values[0], Some(5.0));
        snapshot(&mut counters, []);
        assert_eq!(counters.facts().count(), 0);
    }

    #[test]
    fn an_unchanged_flow_is_reported_as_unchanged() {
        let mut counters = flow_counters();
        let mut flow = fixture::connection(1, 1);
        let mut is_unchanged = |flow: &Connection| snapshot(&mut counters, [flow])[0].unchanged;
        flow.cpu = None;
        assert_eq!([is_unchanged(&flow), is_unchanged(&flow)], [false, true]);
        flow.cpu = Some(CpuTimes::default());
        assert!(!is_unchanged(&flow), "a counter became known");
        flow.bytes_sent = flow.bytes_sent.map(|bytes| bytes + Bytes(1));
        assert_eq!([is_unchanged(&flow), is_unchanged(&flow)], [false, true]);
    }
}
