// SPDX-License-Identifier: MIT OR Apache-2.0
//! The text that Prometheus scrapes. Every family follows from a row of the model's tables; the number of series is bounded
//! by the machine's parts and by fixed limits, never by the number of flows.

mod bounded;
mod described;
mod growth;
mod top;
mod totals;

use mpwatch_model::metric::distribution::{CONNECTION_DISTRIBUTIONS, Distribution, SUBFLOW_DISTRIBUTIONS};
use mpwatch_model::metric::event_counter::{CONNECTION_EVENTS, EventCounter, SUBFLOW_EVENTS};
use mpwatch_model::metric::host::HOST_METRICS;
use mpwatch_model::metric::{
    CONNECTION, CONNECTION_INFO, InfoMetric, Kind, Metric, SUBFLOW, SUBFLOW_INFO, Unit,
};
use mpwatch_model::service::{SERVICE, Service};
use mpwatch_model::snapshot::Snapshot;
use prometheus::TextEncoder;
use prometheus::proto::{
    Bucket, Counter, Gauge, Histogram, LabelPair, Metric as Sample, MetricFamily, MetricType,
};

use bounded::Sums;
use growth::{Observed, counters};
use top::Shown;
use totals::OTHER;

pub use described::{Described, Section, described};
pub use totals::{Figures, Settings, Totals};

/// What follows a row's help where all flows are summed.
const OF_HOST: &str = "Sum over all connections since the daemon started.";
const OF_PEER: &str = "Sum over the connections with a peer since the daemon started.";
const OF_CGROUP: &str = "Sum over the connections of a control group since the daemon started.";
const OF_INTERFACE: &str = "Sum over the subflows by an interface since the daemon started.";

/// All series, in the text format 0.0.4.
pub fn expose(
    snapshot: &Snapshot,
    figures: &Figures,
    service: &Service,
) -> Result<String, prometheus::Error> {
    let mut families = machine(snapshot);
    families.extend(sums(CONNECTION, "host", OF_HOST, &[], [(&[][..], &figures.host)]));
    let peers = figures.peers.iter().map(|(label, sums)| (std::slice::from_ref(label), sums));
    families.extend(sums(CONNECTION, "peer", OF_PEER, &["peer"], peers));
    let interfaces = figures.interfaces.iter().map(|(label, sums)| (std::slice::from_ref(label), sums));
    families.extend(sums(SUBFLOW, "interface", OF_INTERFACE, &["interface"], interfaces));
    let cgroups = figures.cgroups.iter().map(|(label, sums)| (std::slice::from_ref(label), sums));
    families.extend(sums(CONNECTION, "cgroup", OF_CGROUP, &["cgroup"], cgroups));
    families.extend(distributions(CONNECTION_DISTRIBUTIONS, &figures.of_connections));
    families.extend(distributions(SUBFLOW_DISTRIBUTIONS, &figures.of_subflows));
    families.extend(happenings(CONNECTION_EVENTS, &figures.happened_to_connections));
    families.extend(happenings(SUBFLOW_EVENTS, &figures.happened_to_subflows));
    families.extend(SERVICE.iter().filter_map(|row| {
        let mut family = Draft::new(row.name, row.help, row.kind);
        if let Some(value) = (row.read)(service) {
            family.add(&[], &[] as &[&str], value);
        }
        family.finish()
    }));
    if let Some((connections, subflows)) = &figures.flows {
        families.extend(flows(CONNECTION, &CONNECTION_INFO, &["connection"], connections));
        families.extend(flows(SUBFLOW, &SUBFLOW_INFO, &["connection", "subflow"], subflows));
    }
    TextEncoder::new().encode_to_string(&families)
}

fn machine(snapshot: &Snapshot) -> Vec<MetricFamily> {
    let read = |row: &mpwatch_model::metric::host::MetricFamily| {
        let mut family = Draft::new(row.name, row.help, row.kind);
        (row.read)(snapshot, &mut |labels, value| family.add(row.labels, labels, value));
        family.finish()
    };
    HOST_METRICS.iter().filter_map(read).collect()
}

/// The counters of a table, summed over its flows.
fn sums<'a, T>(
    table: &'static [Metric<T>],
    subject: &str,
    of: &str,
    labels: &[&str],
    groups: impl IntoIterator<Item = (&'a [String], &'a Sums)>,
) -> Vec<MetricFamily> {
    let groups: Vec<_> = groups.into_iter().collect();
    let family = |(place, row): (usize, &Metric<T>)| {
        let mut family = Draft::new(&row.name_of(subject), &format!("{} {of}", row.help), Kind::Counter);
        for (values, sums) in &groups {
            if let Some(value) = sums.get(place).copied().flatten() {
                family.add(labels, values, value);
            }
        }
        family.finish()
    };
    counters(table).enumerate().filter_map(family).collect()
}

fn happenings<T>(table: &[EventCounter<T>], counts: &[Vec<u64>]) -> Vec<MetricFamily> {
    let family = |(row, counts): (&EventCounter<T>, &Vec<u64>)| {
        let mut family = Draft::new(row.name, row.help, Kind::Counter);
        for (value, count) in row.values.iter().zip(counts) {
            family.add(&[row.label], &[value], *count as f64);
        }
        family.finish()
    };
    table.iter().zip(counts).filter_map(family).collect()
}

fn distributions<T>(table: &[Distribution<T>], observed: &[Observed]) -> Vec<MetricFamily> {
    let family = |(row, observed): (&Distribution<T>, &Observed)| {
        let mut family = Draft::new(row.name, row.help, Kind::Histogram);
        // Before the first joule it is not known whether there will be any.
        if row.unit != Unit::Joules || observed.count() > 0 {
            family.add_observed(observed);
        }
        family.finish()
    };
    table.iter().zip(observed).filter_map(family).collect()
}

/// Series of single flows.
fn flows<T>(
    table: &'static [Metric<T>],
    identity: &InfoMetric<T>,
    ids: &[&str],
    shown: &Shown,
) -> Vec<MetricFamily> {
    let mut who = Draft::new(identity.name, identity.help, Kind::Gauge);
    let labels: Vec<&str> = ids.iter().chain(identity.labels).copied().collect();
    for (own, face, _, _) in &shown.flows {
        who.add(&labels, &[&own[..], &face[..]].concat(), 1.0);
    }
    let mut families: Vec<_> = who.finish().into_iter().collect();
    let (mut counters, mut gauges) = (0, 0);
    for row in table.iter().filter(|row| row.is_exported()) {
        let is_counter = row.kind == Kind::Counter;
        let place = if is_counter { &mut counters } else { &mut gauges };
        let mut family = Draft::new(row.name, row.help, row.kind);
        for (own, _, sums, values) in &shown.flows {
            let read = if is_counter { sums } else { values };
            if let Some(value) = read.get(*place).copied().flatten() {
                family.add(ids, own, value);
            }
        }
        if let Some(value) = shown.other.get(*place).copied().flatten().filter(|_| is_counter) {
            family.add(ids, &vec![OTHER; ids.len()], value);
        }
        *place += 1;
        families.extend(family.finish());
    }
    families
}

/// A family while it is put together.
struct Draft {
    family: MetricFamily,
    kind: Kind,
    samples: Vec<Sample>,
}

impl Draft {
    fn new(name: &str, help: &str, kind: Kind) -> Self {
        let mut family = MetricFamily::default();
        family.set_name(name.to_owned());
        family.set_help(help.to_owned());
        family.set_field_type(match kind {
            Kind::Counter => MetricType::COUNTER,
            Kind::Gauge => MetricType::GAUGE,
            Kind::Histogram => MetricType::HISTOGRAM,
        });
        Self { family, kind, samples: Vec::new() }
    }

    fn add(&mut self, labels: &[&str], values: &[impl AsRef<str>], value: f64) {
        let pair = |(name, value): (&&str, &_)| {
            let mut pair = LabelPair::default();
            pair.set_name((*name).to_owned());
            pair.set_value(AsRef::<str>::as_ref(value).to_owned());
            pair
        };
        let mut sample = Sample::from_label(labels.iter().zip(values).map(pair).collect());
        match self.kind {
            Kind::Counter => {
                let mut counter = Counter::default();
                counter.set_value(value);
                sample.set_counter(counter);
            }
            // A histogram is more than one value: see add_observed.
            Kind::Gauge | Kind::Histogram => {
                let mut gauge = Gauge::default();
                gauge.set_value(value);
                sample.set_gauge(gauge);
            }
        }
        self.samples.push(sample);
    }

    fn add_observed(&mut self, observed: &Observed) {
        let bucket = |(bound, count)| {
            let mut bucket = Bucket::default();
            bucket.set_upper_bound(bound);
            bucket.set_cumulative_count(count);
            bucket
        };
        let mut histogram = Histogram::default();
        histogram.set_bucket(observed.cumulative().map(bucket).collect());
        histogram.set_sample_sum(observed.sum);
        histogram.set_sample_count(observed.count());
        let mut sample = Sample::default();
        sample.set_histogram(histogram);
        self.samples.push(sample);
    }

    /// `None`: nothing is known, so there is no family either.
    fn finish(mut self) -> Option<MetricFamily> {
        self.family.set_metric(self.samples);
        (!self.family.get_metric().is_empty()).then_some(self.family)
    }
}
