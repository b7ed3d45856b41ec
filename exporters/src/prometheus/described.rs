// SPDX-License-Identifier: MIT OR Apache-2.0
//! What can be scraped, as METRICS.md tells it. A test compares it with what is scraped.

use mpwatch_model::metric::distribution::{CONNECTION_DISTRIBUTIONS, Distribution, SUBFLOW_DISTRIBUTIONS};
use mpwatch_model::metric::event_counter::{CONNECTION_EVENTS, EventCounter, SUBFLOW_EVENTS};
use mpwatch_model::metric::host::HOST_METRICS;
use mpwatch_model::metric::{
    CONNECTION, CONNECTION_INFO, InfoMetric, Kind, Metric, SUBFLOW, SUBFLOW_INFO, Unit,
};
use mpwatch_model::service::SERVICE;

use super::growth::counters;
use super::{OF_CGROUP, OF_HOST, OF_INTERFACE, OF_PEER};

/// One metric.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Described {
    /// Full name.
    pub name: String,
    /// What it means.
    pub help: String,
    /// How it moves.
    pub kind: Kind,
    /// Unit of its values.
    pub unit: Unit,
    /// Names of its labels.
    pub labels: Vec<&'static str>,
}

/// Metrics of one subject.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Section {
    /// Of what.
    pub title: &'static str,
    /// Its metrics.
    pub metrics: Vec<Described>,
}

/// Everything that can be scraped, by subject.
pub fn described() -> Vec<Section> {
    let machine = HOST_METRICS.iter().map(|row| Described {
        name: row.name.to_owned(),
        help: row.help.to_owned(),
        kind: row.kind,
        unit: row.unit,
        labels: row.labels.to_vec(),
    });
    let mut host = sums(CONNECTION, "host", OF_HOST, &[]);
    host.extend(happenings(CONNECTION_EVENTS));
    host.extend(happenings(SUBFLOW_EVENTS));
    host.extend(distributions(CONNECTION_DISTRIBUTIONS));
    host.extend(distributions(SUBFLOW_DISTRIBUTIONS));
    let service = SERVICE.iter().map(|row| one(row, &[]));
    vec![
        Section { title: "The machine", metrics: machine.collect() },
        Section { title: "All connections", metrics: host },
        Section { title: "By interface", metrics: sums(SUBFLOW, "interface", OF_INTERFACE, &["interface"]) },
        Section { title: "By peer", metrics: sums(CONNECTION, "peer", OF_PEER, &["peer"]) },
        Section { title: "By control group", metrics: sums(CONNECTION, "cgroup", OF_CGROUP, &["cgroup"]) },
        Section { title: "The daemon", metrics: service.collect() },
        Section {
            title: "The largest connections (only with `--metrics.top-flows`)",
            metrics: flows(CONNECTION, &CONNECTION_INFO, &["connection"]),
        },
        Section {
            title: "Their subflows",
            metrics: flows(SUBFLOW, &SUBFLOW_INFO, &["connection", "subflow"]),
        },
    ]
}

fn one<T>(row: &Metric<T>, labels: &[&'static str]) -> Described {
    let (name, help) = (row.name.to_owned(), row.help.to_owned());
    Described { name, help, kind: row.kind, unit: row.unit, labels: labels.to_vec() }
}

fn sums<T>(table: &'static [Metric<T>], subject: &str, of: &str, labels: &[&'static str]) -> Vec<Described> {
    let sum = |row: &'static Metric<T>| Described {
        name: row.name_of(subject),
        help: format!("{} {of}", row.help),
        ..one(row, labels)
    };
    counters(table).map(sum).collect()
}

fn happenings<T>(table: &[EventCounter<T>]) -> impl Iterator<Item = Described> {
    table.iter().map(|row| Described {
        name: row.name.to_owned(),
        help: row.help.to_owned(),
        kind: Kind::Counter,
        unit: Unit::Count,
        labels: vec![row.label],
    })
}

fn distributions<T>(table: &[Distribution<T>]) -> impl Iterator<Item = Described> {
    table.iter().map(|row| Described {
        name: row.name.to_owned(),
        help: row.help.to_owned(),
        kind: Kind::Histogram,
        unit: row.unit,
        labels: vec!["le"],
    })
}

fn flows<T>(table: &'static [Metric<T>], identity: &InfoMetric<T>, ids: &[&'static str]) -> Vec<Described> {
    let who = Described {
        name: identity.name.to_owned(),
        help: identity.help.to_owned(),
        kind: Kind::Gauge,
        unit: Unit::Count,
        labels: ids.iter().chain(identity.labels).copied().collect(),
    };
    let rows = table.iter().filter(|row| row.is_exported()).map(|row| one(row, ids));
    std::iter::once(who).chain(rows).collect()
}
