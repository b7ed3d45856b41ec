// SPDX-License-Identifier: MIT OR Apache-2.0
//! Values in words, and facts with their labels.

use mpwatch_model::flow::subflow::Subflow;
pub(crate) use mpwatch_model::metric::count;
use mpwatch_model::metric::{self, HasEnergy, Metric, SUBFLOW, Unit};

/// A fact with its label. Without a label it continues the fact above.
pub type Fact = (&'static str, String);

/// The facts that are known.
pub(crate) fn known<const N: usize>(
    facts: [(&'static str, Option<String>); N],
) -> impl Iterator<Item = Fact> {
    facts.into_iter().filter_map(|(label, fact)| Some((label, fact?)))
}

/// A metric of the table as text. An unknown name is shown between question marks, which a test detects.
pub(crate) fn shown<T: HasEnergy>(table: &'static [Metric<T>], name: &str, subject: &T) -> String {
    metric::find(table, name).map_or_else(|| format!("?{name}?"), |metric| metric.display(subject))
}

/// A metric of a subflow, by the end of its name.
pub(crate) fn of_subflow(subflow: &Subflow, name: &str) -> String {
    shown(SUBFLOW, &format!("mpwatch_subflow_{name}"), subflow)
}

pub(crate) fn seconds(micros: u64) -> String {
    metric::display(Unit::Seconds, Some(micros as f64 / 1e6))
}

pub(crate) fn bytes(count: u64) -> String {
    metric::display(Unit::Bytes, Some(count as f64))
}

/// The text with a capital first letter.
pub fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// The value as text. A dash: unknown.
pub(crate) fn or_dash<T: ToString>(value: Option<T>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}
