// SPDX-License-Identifier: MIT OR Apache-2.0
//! The samples of one metric family, in the types of the `prometheus` crate.

use mpwatch_model::metric::Kind;
use prometheus::proto::{self, Bucket, Counter, Gauge, LabelPair, MetricFamily, MetricType};

use super::values::Histogram;

pub(super) struct Samples<'a> {
    kind: Kind,
    label_names: &'a [&'static str],
    collected: Vec<proto::Metric>,
}

impl<'a> Samples<'a> {
    pub(super) fn new(kind: Kind, label_names: &'a [&'static str]) -> Self {
        Self { kind, label_names, collected: Vec::new() }
    }

    /// Adds a sample of a counter or gauge. Label values beyond the family's labels are ignored.
    pub(super) fn add<S: AsRef<str>>(&mut self, label_values: &[S], value: f64) {
        let mut sample = self.labelled(label_values);
        let value = value + 0.0; // The sum of no numbers is -0.
        if self.kind == Kind::Counter {
            let mut counter = Counter::default();
            counter.set_value(value);
            sample.set_counter(counter);
        } else {
            let mut gauge = Gauge::default();
            gauge.set_value(value);
            sample.set_gauge(gauge);
        }
        self.collected.push(sample);
    }

    fn labelled<S: AsRef<str>>(&self, label_values: &[S]) -> proto::Metric {
        let pairs = self.label_names.iter().zip(label_values).map(|(name, value)| {
            let mut pair = LabelPair::default();
            pair.set_name((*name).to_owned());
            pair.set_value(value.as_ref().to_owned());
            pair
        });
        proto::Metric::from_label(pairs.collect())
    }

    pub(super) fn add_histogram<S: AsRef<str>>(&mut self, label_values: &[S], observed: &Histogram) {
        let buckets = observed.cumulative().map(|(bound, count)| {
            let mut bucket = Bucket::default();
            bucket.set_upper_bound(bound);
            bucket.set_cumulative_count(count);
            bucket
        });
        let mut histogram = proto::Histogram::default();
        histogram.set_bucket(buckets.collect());
        histogram.set_sample_sum(observed.sum);
        histogram.set_sample_count(observed.count());
        let mut sample = self.labelled(label_values);
        sample.set_histogram(histogram);
        self.collected.push(sample);
    }

    /// The family. `None`: it has no samples, because all its values are unknown.
    pub(super) fn into_family(self, name: &str, help: &str) -> Option<MetricFamily> {
        if self.collected.is_empty() {
            return None;
        }
        let mut family = MetricFamily::default();
        family.set_name(name.to_owned());
        family.set_help(help.to_owned());
        family.set_field_type(match self.kind {
            Kind::Counter => MetricType::COUNTER,
            Kind::Gauge => MetricType::GAUGE,
            Kind::Histogram => MetricType::HISTOGRAM,
        });
        family.set_metric(self.collected);
        Some(family)
    }
}
