// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counters of a metric table, and their sums over flows.

use mpwatch_model::metric::{Kind, Metric};

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
