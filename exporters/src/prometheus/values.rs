// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sums of counters over flows, and histograms. They are computed once per snapshot, for all scrapes until the next snapshot.

use mpwatch_model::metric::{Kind, Metric};

/// Label value of the sums of all label values without series of their own.
pub(super) const OTHER: &str = "__other__";
/// Label value of flows for which the label is unknown.
pub(super) const UNKNOWN: &str = "__unknown__";

/// Values of several metrics with the same label values.
#[derive(Clone, Debug)]
pub(super) struct LabelledValues {
    pub(super) labels: Vec<String>,
    pub(super) values: Sums,
}

impl LabelledValues {
    /// A list with these values as its only entry, without labels.
    pub(super) fn only(values: &Sums) -> Vec<Self> {
        vec![Self { labels: Vec::new(), values: values.clone() }]
    }
}

/// Values after a snapshot: sums over flows, and values of single flows.
#[derive(Clone, Debug, Default)]
pub struct MetricValues {
    pub(super) host: Vec<LabelledValues>,
    pub(super) peers: Vec<LabelledValues>,
    pub(super) interfaces: Vec<LabelledValues>,
    pub(super) interface_gauges: Vec<LabelledValues>,
    /// For each distribution, the sums of the histogram of each interface.
    pub(super) interface_histograms: Vec<Vec<LabelledValues>>,
    /// For each counter of events by interface, a count for each interface and value of its label.
    pub(super) interface_events: Vec<Vec<LabelledValues>>,
    /// A count for each listener and value of the label of its event counter.
    pub(super) listener_events: Vec<LabelledValues>,
    pub(super) cgroups: Vec<LabelledValues>,
    /// Sums of connections by the namespace of their pods. Empty: no pod is known.
    pub(super) pod_namespaces: Vec<LabelledValues>,
    /// For each counter of connection events, a count for each value of its label.
    pub(super) connection_events: Vec<Vec<u64>>,
    pub(super) subflow_events: Vec<Vec<u64>>,
    /// For each distribution, the sums of its only histogram.
    pub(super) connection_histograms: Vec<Vec<LabelledValues>>,
    pub(super) subflow_histograms: Vec<Vec<LabelledValues>>,
    /// The largest connections, labelled with their ids and identity: the info metric, then the exported metrics in the order of the table.
    pub(super) connections: Vec<LabelledValues>,
    /// The largest subflows of the largest connections, in the same form.
    pub(super) subflows: Vec<LabelledValues>,
    /// Label values merged into `__other__` so far.
    pub merged: u64,
}

/// One value for each counter of a table. `None`: unknown for every flow that was added.
pub(super) type Sums = Vec<Option<f64>>;

/// The increase of the counters of one flow since the previous snapshot.
#[derive(Default)]
pub(super) struct Increase {
    /// One value for each counter of the table. `None`: the counter is unknown.
    pub(super) values: Sums,
    /// Whether no counter increased or became known.
    pub(super) unchanged: bool,
    /// One value for each distribution. `None`: no new observation.
    pub(super) observed: Vec<Option<f64>>,
    /// The events that happened: number of the event counter, and place of the label value.
    pub(super) events: Vec<(usize, usize)>,
}

impl Increase {
    /// A count for each value of the label of an event counter. `None`: the event did not happen.
    pub(super) fn counts_of(&self, event: usize) -> Option<Self> {
        let (_, place) = self.events.iter().find(|(number, _)| *number == event)?;
        let mut values = vec![Some(0.0); *place];
        values.push(Some(1.0));
        Some(Self { values, ..Self::default() })
    }
}

pub(super) fn counters<T>(table: &'static [Metric<T>]) -> impl Iterator<Item = &'static Metric<T>> {
    table.iter().filter(|metric| metric.kind == Kind::Counter)
}

/// Adds an increase or other sums. An unknown value adds nothing.
pub(super) fn add(sums: &mut Sums, increase: &[Option<f64>]) {
    // An entry without any observation has no sums yet.
    sums.resize(sums.len().max(increase.len()), None);
    for (sum, value) in sums.iter_mut().zip(increase) {
        *sum = sum.zip(*value).map(|(a, b)| a + b).or(*sum).or(*value);
    }
}

/// Adds an observation to the sums of a histogram: a count for each bucket, of which the last has no bound, then the sum of the values.
pub(super) fn observe(sums: &mut Sums, bounds: &[f64], value: f64) {
    sums.resize(bounds.len() + 2, Some(0.0));
    let bucket = bounds.partition_point(|bound| *bound < value);
    for (place, by) in [(bucket, 1.0), (bounds.len() + 1, value)] {
        sums[place] = sums[place].map(|sum| sum + by);
    }
}
