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

/// Values after a snapshot: sums over flows, and values of single flows.
#[derive(Clone, Debug, Default)]
pub struct MetricValues {
    pub(super) host: Vec<LabelledValues>,
    pub(super) peers: Vec<LabelledValues>,
    pub(super) interfaces: Vec<LabelledValues>,
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
    /// The largest subflows of the largest connections, with the same values.
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
}

pub(super) fn counters<T>(table: &'static [Metric<T>]) -> impl Iterator<Item = &'static Metric<T>> {
    table.iter().filter(|metric| metric.kind == Kind::Counter)
}

/// Adds an increase or other sums. An unknown value adds nothing.
pub(super) fn add(sums: &mut Sums, increase: &[Option<f64>]) {
    sums.resize(increase.len(), None);
    for (sum, value) in sums.iter_mut().zip(increase) {
        *sum = match (*sum, *value) {
            (Some(a), Some(b)) => Some(a + b),
            (a, b) => a.or(b),
        };
    }
}

/// Counts of observations by value, and their sum.
#[derive(Clone, Debug)]
pub(super) struct Histogram {
    /// Upper bounds of the buckets, ascending.
    bounds: &'static [f64],
    /// Observations in each bucket; the last count is of observations above all bounds.
    counts: Vec<u64>,
    pub(super) sum: f64,
}

impl Histogram {
    pub(super) fn new(bounds: &'static [f64]) -> Self {
        Self { bounds, counts: vec![0; bounds.len() + 1], sum: 0.0 }
    }

    /// The sums that one observation adds: a count for each bucket, then the value.
    pub(super) fn observation(bounds: &'static [f64], value: f64) -> Increase {
        let bucket = bounds.partition_point(|bound| *bound < value);
        let counts = (0..=bounds.len()).map(|nth| Some(f64::from(u8::from(nth == bucket))));
        Increase { values: counts.chain([Some(value)]).collect(), unchanged: false, observed: Vec::new() }
    }

    /// The histogram of sums of observations.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "counts are whole")]
    pub(super) fn of_sums(bounds: &'static [f64], sums: &Sums) -> Self {
        let number = |nth: usize| sums.get(nth).copied().flatten().unwrap_or(0.0);
        let counts = (0..=bounds.len()).map(|nth| number(nth) as u64).collect();
        Self { bounds, counts, sum: number(bounds.len() + 1) }
    }

    pub(super) fn observe(&mut self, value: f64) {
        self.counts[self.bounds.partition_point(|bound| *bound < value)] += 1;
        self.sum += value;
    }

    /// Each upper bound with the number of observations up to it.
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
