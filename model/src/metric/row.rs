// SPDX-License-Identifier: MIT OR Apache-2.0
//! A row of the metric table: name, help, kind, unit, screen title, and the function that reads the value.

use super::format::display;
use super::unit::Unit;
use crate::host::energy::FlowEnergy;

crate::words! {
    /// The kind of a metric.
    pub enum Kind {
        /// Never decreases in the life of a flow.
        Counter = "counter",
        /// Increases and decreases.
        Gauge = "gauge",
        /// Numbers of observations by size; only for distributions.
        Histogram = "histogram",
    }
}

/// A subject with an energy figure.
pub trait HasEnergy {
    /// The energy of the subject. `None`: unknown.
    fn energy(&self) -> Option<&FlowEnergy>;
}

/// One row of the table.
pub struct Metric<T> {
    /// Full name, `mpwatch_<subject>_<thing>_<unit>[_total]`.
    pub name: &'static str,
    /// One sentence.
    pub help: &'static str,
    /// Kind of the metric.
    pub kind: Kind,
    /// Unit of the value.
    pub unit: Unit,
    /// Column title on screens.
    pub title: &'static str,
    /// Reads the value. `None`: unknown.
    pub read: fn(&T) -> Option<f64>,
    /// Column in CSV and SQLite, and JSON key, of a value that is computed from other values. `None`: a field with a key of its own.
    pub column: Option<&'static str>,
}

impl<T> Metric<T> {
    /// Whether the metric is exported to Prometheus. Rates are not exported, because `rate()` computes them over any period.
    pub fn is_exported(&self) -> bool {
        self.unit != Unit::BitsPerSecond
    }

    /// Name of the sum of the metric over the flows of a subject: for `peer`, `mpwatch_connection_sent_bytes_total` becomes
    /// `mpwatch_peer_sent_bytes_total`.
    pub fn name_of(&self, subject: &str) -> String {
        let thing = self.name.splitn(3, '_').nth(2).unwrap_or(self.name);
        format!("mpwatch_{subject}_{thing}")
    }
}

/// A gauge that is always 1 and whose labels identify a flow, so that other series need only its id.
pub struct InfoMetric<T> {
    /// Full name, ending in `_info`.
    pub name: &'static str,
    /// One sentence.
    pub help: &'static str,
    /// Names of the labels, in addition to the ids.
    pub labels: &'static [&'static str],
    /// Reads the values of the labels. An unknown value is empty.
    pub read: fn(&T) -> Vec<String>,
}

impl<T: HasEnergy> Metric<T> {
    /// The value with its unit. `~` marks energy that was not measured by counters of this machine.
    pub fn display(&self, subject: &T) -> String {
        let value = (self.read)(subject);
        let energy = subject.energy().filter(|_| value.is_some() && self.unit.is_energy());
        format!("{}{}", energy.map_or("", |energy| energy.source.mark()), display(self.unit, value))
    }
}

/// Declares a table of metrics. A value that is computed from other values has its column after `=>`.
macro_rules! metrics {
    ($(#[$doc:meta])* $table:ident: $subject:ty { $($name:literal $kind:ident $unit:ident $title:literal $help:literal $read:expr $(=> $column:literal)?;)* }) => {
        $(#[$doc])*
        pub static $table: &[$crate::metric::row::Metric<$subject>] = &[$($crate::metric::row::Metric {
            name: $name,
            help: $help,
            kind: $crate::metric::row::Kind::$kind,
            unit: $crate::metric::unit::Unit::$unit,
            title: $title,
            read: $read,
            column: $crate::metric::row::metrics!(@column $($column)?),
        }),*];
    };
    (@column) => { None };
    (@column $name:literal) => { Some($name) };
}
pub(crate) use metrics;

/// The row with this name. `None`: there is no such row.
pub fn find<T>(table: &'static [Metric<T>], name: &str) -> Option<&'static Metric<T>> {
    table.iter().find(|metric| metric.name == name)
}
