// SPDX-License-Identifier: MIT OR Apache-2.0
//! All metric families: name, help, labels, and how a scrape reads their samples. The exposition and METRICS.md are generated from them.

use std::fmt::Write as _;

use mpwatch_model::metric::distribution::{
    CONNECTION_DISTRIBUTIONS, Distribution, INTERFACE_DISTRIBUTIONS, SUBFLOW_DISTRIBUTIONS,
};
use mpwatch_model::metric::event_counter::{CONNECTION_EVENTS, EventCounter, SUBFLOW_EVENTS};
use mpwatch_model::metric::host::HOST_METRICS;
use mpwatch_model::metric::service::{EXPORT, SERVICE, Service};
use mpwatch_model::metric::{
    CONNECTION, CONNECTION_INFO, InfoMetric, Kind, Metric, SUBFLOW, SUBFLOW_INFO, Unit,
};
use mpwatch_model::snapshot::Snapshot;

use super::groups::event_by_listener;
use super::interfaces::{GAUGES, Gauge};
use super::samples::Samples;
use super::totals::events_by_interface;
use super::values::{LabelledValues, MetricValues, counters};

struct Scrape<'a> {
    snapshot: &'a Snapshot,
    values: &'a MetricValues,
    service: &'a Service,
}

type Read = dyn Fn(&Scrape<'_>, &mut Samples<'_>);

/// One metric family.
pub struct Family {
    /// Full name.
    pub name: String,
    /// One sentence, for `# HELP`.
    pub help: String,
    /// Counter, gauge or histogram.
    pub kind: Kind,
    /// Unit of its values.
    pub unit: Unit,
    /// Names of its labels.
    pub labels: Vec<&'static str>,
    read: Box<Read>,
}

impl Family {
    fn write(&self, scrape: &Scrape<'_>, text: &mut String) {
        let Self { name, help, kind, labels, .. } = self;
        let mut samples = Samples { name, label_names: labels, lines: String::new() };
        (self.read)(scrape, &mut samples);
        if !samples.lines.is_empty() {
            let kind = kind.as_str();
            let _ = write!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n{}", samples.lines);
        }
    }
}

/// Metric families of one subject.
pub struct Section {
    /// The subject.
    pub title: &'static str,
    /// Its families.
    pub families: Vec<Family>,
}

/// All series in the text format 0.0.4.
pub fn expose(snapshot: &Snapshot, values: &MetricValues, service: &Service) -> String {
    let scrape = Scrape { snapshot, values, service };
    let mut text = String::new();
    for family in sections().iter().flat_map(|section| &section.families) {
        family.write(&scrape, &mut text);
    }
    text
}

/// Everything that can be scraped, in the order of the exposition.
pub fn sections() -> Vec<Section> {
    let distributions =
        distributions(CONNECTION_DISTRIBUTIONS, &["le"], |values| &values.connection_histograms)
            .chain(distributions(SUBFLOW_DISTRIBUTIONS, &["le"], |values| &values.subflow_histograms));
    let events = events(CONNECTION_EVENTS, |values| &values.connection_events)
        .chain(events(SUBFLOW_EVENTS, |values| &values.subflow_events));
    let listeners = event_by_listener()
        .map(|(_, row)| events_apart(row, "listener", |values| values.listener_events.clone()));
    let connections = flows(CONNECTION, &CONNECTION_INFO, &["connection"], |values| &values.connections);
    let subflows = flows(SUBFLOW, &SUBFLOW_INFO, &["connection", "subflow"], |values| &values.subflows);
    vec![
        section("The machine", machine()),
        sums("All connections", CONNECTION, "host", "all connections", |values| &values.host),
        sums("By peer", CONNECTION, "peer", "the connections to a peer", |values| &values.peers),
        by_interface(),
        sums("By control group", CONNECTION, "cgroup", "the connections of a control group", |values| {
            &values.cgroups
        }),
        sums(
            "By namespace of Kubernetes pods (only if pods are known; `__unknown__`: connections without a pod)",
            CONNECTION,
            "pod_namespace",
            "the connections of the pods in a namespace",
            |values| &values.pod_namespaces,
        ),
        section("By listener (program and port)", listeners),
        section("Histograms over all connections and subflows", distributions),
        section("Events of all connections and subflows", events),
        section("The daemon", daemon()),
        section("Exports of the daemon", exports()),
        section("The largest connections (only with `--metrics.top-flows`)", connections),
        section("Subflows of the largest connections", subflows),
    ]
}

fn section(title: &'static str, families: impl IntoIterator<Item = Family>) -> Section {
    Section { title, families: families.into_iter().collect() }
}

fn family(
    name: &str,
    help: &str,
    (kind, unit): (Kind, Unit),
    labels: &[&'static str],
    read: impl Fn(&Scrape<'_>, &mut Samples<'_>) + 'static,
) -> Family {
    let (name, help, labels) = (name.to_owned(), help.to_owned(), labels.to_vec());
    Family { name, help, kind, unit, labels, read: Box::new(read) }
}

fn machine() -> impl Iterator<Item = Family> {
    HOST_METRICS.iter().map(|row| {
        family(row.name, row.help, (row.kind, row.unit), row.labels, |scrape, samples| {
            (row.read)(scrape.snapshot, &mut |labels, value| samples.add(labels, value));
        })
    })
}

fn daemon() -> impl Iterator<Item = Family> {
    SERVICE.iter().map(|row| {
        family(row.name, row.help, (row.kind, row.unit), &[], |scrape, samples| {
            if let Some(value) = (row.read)(scrape.service) {
                samples.add::<&str>(&[], value);
            }
        })
    })
}

fn exports() -> impl Iterator<Item = Family> {
    EXPORT.iter().map(|row| {
        family(row.name, row.help, (row.kind, row.unit), &["target"], |scrape, samples| {
            for export in &scrape.service.exports {
                if let Some(value) = (row.read)(export) {
                    samples.add(&[export.target], value);
                }
            }
        })
    })
}

/// The counters of a table, summed over the host or by the label `subject`.
fn sums<T>(
    title: &'static str,
    table: &'static [Metric<T>],
    subject: &'static str,
    summed: &str,
    values: fn(&MetricValues) -> &[LabelledValues],
) -> Section {
    let labels = if subject == "host" { &[][..] } else { &[subject] };
    let sum = |(index, row): (usize, &Metric<T>)| {
        let help = format!("{} Sum over {summed} since the daemon started.", row.help);
        family(&row.name_of(subject), &help, (row.kind, row.unit), labels, read_value(index, values))
    };
    section(title, counters(table).enumerate().map(sum))
}

fn by_interface() -> Section {
    let mut section = sums("By interface", SUBFLOW, "interface", "the subflows of an interface", |values| {
        &values.interfaces
    });
    let gauge = |(index, (name, help, kind)): (usize, Gauge)| {
        family(name, help, kind, &["interface"], read_value(index, |values| &values.interface_gauges))
    };
    section.families.extend(GAUGES.into_iter().enumerate().map(gauge));
    let labels = &["interface", "le"];
    section
        .families
        .extend(distributions(INTERFACE_DISTRIBUTIONS, labels, |values| &values.interface_histograms));
    let events = events_by_interface().enumerate().map(|(index, (_, row))| {
        let counts =
            move |values: &MetricValues| values.interface_events.get(index).cloned().unwrap_or_default();
        events_apart(row, "interface", counts)
    });
    section.families.extend(events);
    section
}

fn read_value(
    index: usize,
    values: fn(&MetricValues) -> &[LabelledValues],
) -> impl Fn(&Scrape<'_>, &mut Samples<'_>) {
    move |scrape, samples| {
        for labelled in values(scrape.values) {
            if let Some(value) = labelled.values.get(index).copied().flatten() {
                samples.add(&labelled.labels, value);
            }
        }
    }
}

fn events<T>(
    table: &'static [EventCounter<T>],
    counts: fn(&MetricValues) -> &[Vec<u64>],
) -> impl Iterator<Item = Family> {
    table.iter().enumerate().map(move |(index, row)| {
        family(row.name, row.help, (Kind::Counter, Unit::Count), &[row.label], move |scrape, samples| {
            let counts = counts(scrape.values).get(index).into_iter().flatten();
            row.values.iter().zip(counts).for_each(|(value, count)| samples.add(&[value], *count as f64));
        })
    })
}

/// The counter of an event by interface or listener (`label`), from zero for each of them.
fn events_apart<T>(
    row: &'static EventCounter<T>,
    label: &'static str,
    counts: impl Fn(&MetricValues) -> Vec<LabelledValues> + 'static,
) -> Family {
    let (name, kind) = (row.apart.unwrap_or(row.name), (Kind::Counter, Unit::Count));
    family(name, row.help, kind, &[label, row.label], move |scrape, samples| {
        for LabelledValues { labels, values } in counts(scrape.values) {
            for (place, value) in row.values.iter().enumerate() {
                let count = values.get(place).copied().flatten().unwrap_or(0.0);
                samples.add(&[labels.first().map_or("", String::as_str), value], count);
            }
        }
    })
}

fn distributions<T>(
    table: &'static [Distribution<T>],
    labels: &'static [&'static str],
    histograms: fn(&MetricValues) -> &[Vec<LabelledValues>],
) -> impl Iterator<Item = Family> {
    table.iter().enumerate().map(move |(index, row)| {
        family(row.name, row.help, (Kind::Histogram, row.unit), labels, move |scrape, samples| {
            // An empty histogram of energy would suggest that energy is measured.
            let is_known = |sums: &&LabelledValues| row.unit != Unit::Joules || !sums.values.is_empty();
            let all = histograms(scrape.values).get(index).into_iter().flatten();
            for LabelledValues { labels, values } in all.filter(is_known) {
                samples.add_histogram(labels, row.bounds, values);
            }
        })
    })
}

/// Series of single flows: identity and metrics.
fn flows<T>(
    table: &'static [Metric<T>],
    info: &InfoMetric<T>,
    ids: &[&'static str],
    values: fn(&MetricValues) -> &[LabelledValues],
) -> impl Iterator<Item = Family> {
    let labels = [ids, info.labels].concat();
    let identity = family(info.name, info.help, (Kind::Gauge, Unit::Count), &labels, read_value(0, values));
    let exported = table.iter().filter(|row| row.is_exported());
    let metrics = (1..).zip(exported).map(move |(index, row)| {
        family(row.name, row.help, (row.kind, row.unit), ids, read_value(index, values))
    });
    std::iter::once(identity).chain(metrics)
}
