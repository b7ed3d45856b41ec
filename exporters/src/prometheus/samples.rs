// SPDX-License-Identifier: MIT OR Apache-2.0
//! The samples of one metric family in the text format 0.0.4.

use std::fmt::Write as _;

use super::values::Histogram;

/// The lines of a family. Empty: all its values are unknown.
pub(super) struct Samples<'a> {
    pub(super) name: &'a str,
    pub(super) label_names: &'a [&'static str],
    pub(super) lines: String,
}

impl Samples<'_> {
    /// Adds a sample of a counter or gauge. Label values beyond the family's labels are ignored.
    pub(super) fn add<S: AsRef<str>>(&mut self, label_values: &[S], value: f64) {
        self.write("", label_values.iter().map(AsRef::as_ref), value);
    }

    /// Adds the samples of a histogram, whose last label is `le`.
    pub(super) fn add_histogram(&mut self, label_values: &[&str], histogram: &Histogram) {
        let count = histogram.count();
        let buckets = histogram.cumulative().map(|(bound, count)| (bound.to_string(), count));
        for (bound, count) in buckets.chain([("+Inf".to_owned(), count)]) {
            self.write("_bucket", label_values.iter().copied().chain([&*bound]), count as f64);
        }
        self.write("_sum", label_values.iter().copied(), histogram.sum);
        self.write("_count", label_values.iter().copied(), count as f64);
    }

    fn write<'v>(&mut self, suffix: &str, label_values: impl Iterator<Item = &'v str>, value: f64) {
        let _ = write!(self.lines, "{}{suffix}", self.name);
        let mut separator = '{';
        for (name, value) in self.label_names.iter().zip(label_values) {
            let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            let _ = write!(self.lines, "{separator}{name}=\"{value}\"");
            separator = ',';
        }
        let end = if separator == ',' { "}" } else { "" };
        let value = value + 0.0; // The sum of no numbers is -0.
        let _ = writeln!(self.lines, "{end} {value}");
    }
}
