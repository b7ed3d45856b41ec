// SPDX-License-Identifier: MIT OR Apache-2.0
//! The samples of one metric family in the text format 0.0.4.

use std::fmt::Write as _;

use mpwatch_model::kernel::endpoint::escaped;

use super::values::Sums;

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
    pub(super) fn add_histogram(&mut self, label_values: &[String], bounds: &[f64], sums: &Sums) {
        let sum = |place: usize| sums.get(place).copied().flatten().unwrap_or(0.0);
        let labels = || label_values.iter().map(AsRef::as_ref);
        let mut count = 0.0;
        for (place, bound) in bounds.iter().map(f64::to_string).chain(["+Inf".to_owned()]).enumerate() {
            count += sum(place);
            self.write("_bucket", labels().chain([&*bound]), count);
        }
        self.write("_sum", labels(), sum(bounds.len() + 1));
        self.write("_count", labels(), count);
    }

    fn write<'v>(&mut self, suffix: &str, label_values: impl Iterator<Item = &'v str>, value: f64) {
        let _ = write!(self.lines, "{}{suffix}", self.name);
        let mut separator = '{';
        for (name, value) in self.label_names.iter().zip(label_values) {
            let value = escaped(value).replace('\\', "\\\\").replace('"', "\\\"");
            let _ = write!(self.lines, "{separator}{name}=\"{value}\"");
            separator = ',';
        }
        let end = if separator == ',' { "}" } else { "" };
        let value = value + 0.0; // The sum of no numbers is -0.
        let _ = writeln!(self.lines, "{end} {value}");
    }
}
