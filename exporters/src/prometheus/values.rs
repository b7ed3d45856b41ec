// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counters of a metric table and their sums over flows, which are computed once per snapshot, for all scrapes until the next.

use mpwatch_model::metric::{Kind, Metric};

use super::histogram::Histogram;

/// Label value of everything without series of its own.
pub(super) const OTHER: &str = "__other__";
/// Label value of flows for which the label is unknown.
pub(super) const UNKNOWN: &str = "__unknown__";

/// Values of several metrics with the same label values.
#[derive(Clone, Debug)]
pub(super) struct LabelledValues {
    pub(super) labels: Vec<String>,
    pub(super) values: Sums,
}

/// Values of all metrics that are sums over flows, or of single flows, after a snapshot.
#[derive(Clone, Debug, Default)]
pub struct MetricValues {
    pub(super) host: Vec<LabelledValues>,
    pub(super) peers: Vec<LabelledValues>,
    pub(super) interfaces: Vec<LabelledValues>,
    /// The gauges of each interface.
    pub(super) interface_gauges: Vec<LabelledValues>,
    /// For each distribution by interface, a histogram for each interface.
    pub(super) interface_histograms: Vec<Vec<(String, Histogram)>>,
    pub(super) cgroups: Vec<LabelledValues>,
    /// By the namespace of their pods. Empty: no pod is known.
    pub(super) pod_namespaces: Vec<LabelledValues>,
    /// For each counter of connection events, a count for each value of its label.
    pub(super) connection_events: Vec<Vec<u64>>,
    pub(super) subflow_events: Vec<Vec<u64>>,
    pub(super) connection_histograms: Vec<Histogram>,
    pub(super) subflow_histograms: Vec<Histogram>,
    /// The largest connections, labelled with their ids and identity: the info metric, then the exported metrics in the order of the table.
    pub(super) connections: Vec<LabelledValues>,
    /// The largest subflows of the largest connections, likewise.
    pub(super) subflows: Vec<LabelledValues>,
    /// Label values merged into `__other__` so far.
    pub merged: u64,
}

/// One value for each counter of a table. `None`: unknown for every flow that was added.
pub(super) type Sums = Vec<Option<f64>>;

/// How much the counters of one flow increased since the previous snapshot.
#[derive(Default)]
pub(super) struct Increase {
    /// One value for each counter of the table. `None`: the counter is unknown.
    pub(super) values: Sums,
    /// Whether no counter increased or became known.
    pub(super) unchanged: bool,
    /// One value for each distribution. `None`: no new observation.
    pub(super) observed: Vec<Option<f64>>,
}

/// The counters of a table.
pub(super) fn counters<T>(table: &'static [Metric<T>]) -> impl Iterator<Item = &'static Metric<T>> {
    table.iter().filter(|metric| metric.kind == Kind::Counter)
}

/// Adds an increase, or other sums.
pub(super) fn add(sums: &mut Sums, increase: &[Option<f64>]) {
    sums.resize(increase.len(), None);
    for (sum, value) in sums.iter_mut().zip(increase) {
        *sum = match (*sum, *value) {
            (Some(a), Some(b)) => Some(a + b),
            (a, b) => a.or(b),
        };
    }
}
