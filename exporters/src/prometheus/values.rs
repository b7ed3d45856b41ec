// SPDX-License-Identifier: MIT OR Apache-2.0
//! Values that are computed once per snapshot, for all scrapes until the next.

use super::histogram::Histogram;
use super::sums::Sums;

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
