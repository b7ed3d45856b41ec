// SPDX-License-Identifier: MIT OR Apache-2.0
//! Series of the largest connections and their subflows, if configured. A closed flow is exported with final values for five more minutes.

use std::collections::HashMap;
use std::hash::Hash;

use jiff::{SignedDuration, Timestamp};
use mpwatch_model::metric::{InfoMetric, Kind, Metric};

use super::bounded::{BoundedSums, Limits};
use super::values::{Increase, LabelledValues, OTHER, Sums};

const LINGER: SignedDuration = SignedDuration::from_mins(5);

/// The flows of one kind with series of their own.
pub(super) struct LargestFlows<K, T: 'static> {
    pub(super) counters: BoundedSums<K>,
    table: &'static [Metric<T>],
    info: &'static InfoMetric<T>,
    /// The labels of the info metric of each flow, and its gauges in the order of the table.
    details: HashMap<K, (Vec<String>, Sums)>,
}

fn limits(max_flows: usize) -> Limits {
    Limits { max_present: max_flows, max_total: max_flows.saturating_mul(2), linger: Some(LINGER) }
}

impl<K: Copy + Eq + Hash + Ord, T> LargestFlows<K, T> {
    pub(super) fn new(max_flows: usize, table: &'static [Metric<T>], info: &'static InfoMetric<T>) -> Self {
        Self { counters: BoundedSums::new(limits(max_flows)), table, info, details: HashMap::new() }
    }

    pub(super) fn set_limit(&mut self, max_flows: usize) {
        self.counters.limits = limits(max_flows);
    }

    pub(super) fn select(&mut self, at: Timestamp, sizes: &HashMap<K, u64>) {
        self.counters.select(at, sizes);
        let counters = &self.counters;
        self.details.retain(|key, _| counters.contains(key));
    }

    pub(super) fn add(&mut self, key: K, flow: &T, increase: &Increase) {
        self.counters.add(key, increase);
        if self.counters.contains(&key) {
            let gauges = self.table.iter().filter(|row| row.kind == Kind::Gauge && row.is_exported());
            let gauges = gauges.map(|row| (row.read)(flow)).collect();
            self.details.insert(key, ((self.info.read)(flow), gauges));
        }
    }

    /// The values of each flow, then of all other flows together. `ids`: the labels that identify a flow.
    pub(super) fn values<const N: usize>(&self, ids: impl Fn(&K) -> [String; N]) -> Vec<LabelledValues> {
        let flows = self.counters.iter().filter_map(|(key, counters)| {
            let (identity, gauges) = self.details.get(&key)?;
            let labels = [&ids(&key)[..], identity].concat();
            Some(LabelledValues { labels, values: self.in_table_order(Some(1.0), counters, gauges) })
        });
        let other = LabelledValues {
            labels: vec![OTHER.to_owned(); N],
            values: self.in_table_order(None, &self.counters.other, &[]),
        };
        flows.chain([other]).collect()
    }

    fn in_table_order(&self, info: Option<f64>, counters: &[Option<f64>], gauges: &[Option<f64>]) -> Sums {
        let (mut counters, mut gauges) = (counters.iter(), gauges.iter());
        let exported = self.table.iter().filter(|row| row.is_exported());
        let value = |row: &Metric<T>| {
            let values = if row.kind == Kind::Counter { &mut counters } else { &mut gauges };
            values.next().copied().flatten()
        };
        std::iter::once(info).chain(exported.map(value)).collect()
    }
}
