// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares two sets of connections by flow class: completion time, goodput, energy, CPU time, retransmissions, RTT. Formatted by
//! [`crate::text::comparison`], [`crate::html::comparison`] and [`crate::json`].

use mpwatch_model::flow::class::FlowClass;
use mpwatch_model::flow::pairing::{Flow, flows};
use mpwatch_model::snapshot::Report;
use mpwatch_model::statistics::{Shift, median};
use serde::Serialize;

mod quantities;
mod units;

pub use quantities::Quantity;
use quantities::{JOULES_PER_GB, QUANTITIES};
pub use units::{Difference, Independent};
use units::{Values, difference};

/// One of the two sets.
#[derive(Clone, Copy)]
pub struct Side<'a> {
    /// Its name in sentences.
    pub name: &'a str,
    /// Its data.
    pub report: &'a Report,
}

/// The comparison of two sets of connections.
#[derive(Debug, Serialize)]
pub struct Comparison {
    /// Name of the first set.
    pub a: String,
    /// Name of the second set. Differences are from the first set to the second.
    pub b: String,
    /// A row for each flow class and quantity that is known in at least one set.
    pub rows: Vec<Row>,
}

/// A quantity of a flow class.
#[derive(Debug, Serialize)]
pub struct Row {
    /// Flow class.
    pub class: FlowClass,
    /// The quantity.
    #[serde(flatten)]
    pub quantity: &'static Quantity,
    /// Connections of the class in the first set.
    pub a_connections: usize,
    /// Connections of the class in the second set.
    pub b_connections: usize,
    /// The values in the first set.
    pub a: Sample,
    /// The values in the second set.
    pub b: Sample,
    /// The difference from the first set to the second. `null`: too few values for an interval, or joules of different sources.
    pub difference: Option<Difference>,
    /// The sources of the joules of both sets if they differ, so that a difference would be meaningless. `null`: they are equal.
    pub sources: Option<[String; 2]>,
}

/// The values of a quantity.
#[derive(Debug, Serialize)]
pub struct Sample {
    /// Number of connections for which the quantity is known.
    pub count: usize,
    /// Median of the known values. `null`: the quantity is unknown for all connections.
    pub median: Option<f64>,
}

impl Comparison {
    /// Compares two sets. A connection whose two ends are in a set counts once.
    pub fn new(a: Side<'_>, b: Side<'_>) -> Self {
        let all = [a, b].map(|side| flows(&side.report.connections));
        let rows = FlowClass::ALL.iter().flat_map(|&class| {
            let [of_a, of_b] = [&all[0], &all[1]].map(|flows| of_class(flows, class));
            let sides = [(a.report, of_a.as_slice()), (b.report, of_b.as_slice())];
            QUANTITIES
                .iter()
                .filter_map(|quantity| Row::from_flows(class, quantity, sides))
                .collect::<Vec<_>>()
        });
        Self { a: a.name.to_owned(), b: b.name.to_owned(), rows: rows.collect() }
    }

    pub(crate) fn classes(&self) -> impl Iterator<Item = &[Row]> {
        self.rows.chunk_by(|a, b| a.class == b.class)
    }
}

impl Row {
    /// The row as a sentence.
    pub fn verdict(&self) -> String {
        let name = self.quantity.name;
        if let Some([a, b]) = &self.sources {
            return format!(
                "{name}: not compared: the joules of A are from `{a}`, the joules of B from `{b}`"
            );
        }
        let Some(difference) = self.difference else {
            let few = self.a.count.min(self.b.count);
            let side = if self.a.count <= self.b.count { "A" } else { "B" };
            return format!("{name}: too few connections to compare: {few} in {side}");
        };
        let Shift { estimate, low, high } = difference.shift;
        if !difference.shift.is_shown() {
            return format!(
                "{name}: no difference shown: the interval ({}) contains 0",
                self.interval(difference)
            );
        }
        let (smaller, larger) = self.quantity.words();
        let (word, near, far) = if high < 0.0 { (smaller, high, low) } else { (larger, low, high) };
        let [estimate, near, far] = [estimate, near, far].map(|value| self.amount(difference, value.abs()));
        format!("{name}: B is {estimate} ({}) {word}, {}", range(&near, &far), self.judgement().as_str())
    }

    /// Compares a quantity of the flows. `None`: it is unknown for all of them.
    fn from_flows(
        class: FlowClass,
        quantity: &'static Quantity,
        sides: [(&Report, &[Flow<'_>]); 2],
    ) -> Option<Self> {
        let values = |(report, flows): (&Report, &[Flow<'_>])| {
            let read = |flow: &Flow<'_>| Some((flow.end.opened_at, (quantity.read)(*flow)?));
            Values::new(
                flows.iter().filter_map(read).filter(|(_, value)| value.is_finite()).collect(),
                report,
            )
        };
        let [a, b] = sides.map(values);
        let [of_a, of_b] = [&a, &b].map(|values| {
            let all = values.all();
            Sample { count: all.len(), median: median(&all) }
        });
        let has_joules = quantity.unit == JOULES_PER_GB && of_a.count > 0 && of_b.count > 0;
        let sources =
            has_joules.then(|| sides.map(|(_, flows)| sources(flows))).filter(|[of_a, of_b]| of_a != of_b);
        (of_a.count + of_b.count > 0).then(|| Self {
            class,
            quantity,
            a_connections: sides[0].1.len(),
            b_connections: sides[1].1.len(),
            a: of_a,
            b: of_b,
            difference: difference(&a, &b).filter(|_| sources.is_none()),
            sources,
        })
    }

    /// Whether the second set is better: undecided if the interval contains 0, or if there is no interval.
    pub(crate) fn judgement(&self) -> Judgement {
        match self.difference.filter(|difference| difference.shift.is_shown()) {
            None => Judgement::Undecided,
            Some(found) if (found.shift.high < 0.0) == self.quantity.lower_is_better => Judgement::Better,
            Some(_) => Judgement::Worse,
        }
    }

    /// The estimate with its sign.
    pub(crate) fn estimate(&self, difference: Difference) -> String {
        self.signed(difference, difference.shift.estimate)
    }

    /// The interval with signs.
    pub(crate) fn interval(&self, difference: Difference) -> String {
        let [low, high] =
            [difference.shift.low, difference.shift.high].map(|end| self.signed(difference, end));
        range(&low, &high)
    }

    fn signed(&self, difference: Difference, value: f64) -> String {
        let sign = match value {
            value if value > 0.0 => "+",
            value if value < 0.0 => "-",
            _ => "",
        };
        format!("{sign}{}", self.amount(difference, value.abs()))
    }

    fn amount(&self, difference: Difference, value: f64) -> String {
        match difference.relative {
            true if value < 0.0995 => format!("{:.1} %", value * 100.0),
            true => format!("{:.0} %", value * 100.0),
            false if self.quantity.unit == "ratio" => format!("{:.2} percentage points", value * 100.0),
            false => self.quantity.show(value),
        }
    }
}

mpwatch_model::words! {
    /// Whether the second set is better. The words are classes of the style sheet.
    pub(crate) enum Judgement {
        Better = "better",
        Worse = "worse",
        /// The interval contains 0, or there is none.
        Undecided = "undecided",
    }
}

fn sources(flows: &[Flow<'_>]) -> String {
    let mut names: Vec<&str> = flows.iter().filter_map(|flow| Some(flow.energy()?.source.as_str())).collect();
    names.sort_unstable();
    names.dedup();
    names.join(", ")
}

pub(crate) fn of_class<'a>(flows: &[Flow<'a>], class: FlowClass) -> Vec<Flow<'a>> {
    flows.iter().filter(|flow| flow.end.flow_class == class).copied().collect()
}

/// Formats a range. If both ends have the same unit, writes it once.
fn range(from: &str, to: &str) -> String {
    match (from.split_once(' '), to.split_once(' ')) {
        (Some((number, unit)), Some((_, same))) if unit == same => format!("{number} to {to}"),
        _ => format!("{from} to {to}"),
    }
}

#[cfg(test)]
mod tests {
    use mpwatch_fixtures as fixture;
    use mpwatch_model::flow::connection::Connection;
    use mpwatch_model::host::energy::EnergySource;

    use super::*;

    /// Connections with completion times of `seconds` plus 1, 2, 3, ... percent.
    fn report(seconds: f64, number: u32) -> Report {
        let flow = |token: u32| Connection {
            age_s: seconds * (1.0 + f64::from(token) / 100.0),
            ..fixture::closed(token)
        };
        fixture::report((1..=number).map(flow).collect())
    }

    fn compare(a: &Report, b: &Report) -> Comparison {
        Comparison::new(Side { name: "A", report: a }, Side { name: "B", report: b })
    }

    fn row<'a>(found: &'a Comparison, name: &str) -> &'a Row {
        found.rows.iter().find(|row| row.quantity.name == name).unwrap()
    }

    #[test]
    fn a_difference_has_a_sentence() {
        let found = compare(&report(12.0, 20), &report(9.0, 20));
        let sentence = row(&found, "completion time").verdict();
        assert!(
            sentence.starts_with("completion time: B is 25 % (") && sentence.ends_with(") shorter, better"),
            "{sentence}"
        );
        let swapped = compare(&report(9.0, 20), &report(12.0, 20));
        let sentence = row(&swapped, "completion time").verdict();
        assert!(
            sentence.starts_with("completion time: B is 33 % (") && sentence.ends_with(") longer, worse"),
            "{sentence}"
        );
    }

    #[test]
    fn equal_sets_show_no_difference() {
        let one = report(12.0, 20);
        let found = compare(&one, &one);
        assert_eq!(found.rows.len(), QUANTITIES.len());
        for row in &found.rows {
            let shift = row.difference.unwrap().shift;
            assert!(shift.low <= 0.0 && shift.high >= 0.0);
            assert!(row.verdict().contains("no difference shown"), "{}", row.verdict());
        }
    }

    #[test]
    fn few_connections_are_not_compared() {
        let found = compare(&report(12.0, 20), &report(9.0, 2));
        let row = row(&found, "goodput");
        assert_eq!(row.verdict(), "goodput: too few connections to compare: 2 in B");
        assert!(row.b.median.is_some() && row.difference.is_none());
    }

    #[test]
    fn joules_of_different_sources_are_not_compared() {
        let estimated = |mut report: Report| {
            for energy in report.connections.iter_mut().filter_map(|connection| connection.energy.as_mut()) {
                energy.source = EnergySource::Model;
            }
            report
        };
        let found = compare(&report(12.0, 8), &estimated(report(9.0, 8)));
        let energy = row(&found, "energy per payload");
        assert!(energy.difference.is_none() && energy.a.median.is_some());
        let sentence = energy.verdict();
        assert!(
            sentence.starts_with("energy per payload: not compared: ") && sentence.ends_with("`model`"),
            "{sentence}"
        );
        assert!(row(&found, "CPU time per payload").difference.is_some());
    }

    #[test]
    fn zeros_are_compared_by_difference() {
        let lossless = |mut report: Report| {
            for subflow in report.connections.iter_mut().flat_map(|connection| &mut connection.subflows) {
                subflow.bytes_retransmitted.0 = 0;
            }
            report
        };
        let found = compare(&report(12.0, 8), &lossless(report(12.0, 8)));
        let sentence = row(&found, "retransmitted").verdict();
        assert_eq!(
            sentence,
            "retransmitted: B is 0.31 percentage points (0.31 to 0.31 percentage points) lower, better"
        );
    }

    #[test]
    fn json_has_units_and_intervals() {
        let found = compare(&report(12.0, 8), &report(9.0, 8));
        let json = serde_json::to_value(&found).unwrap();
        let first = &json["rows"][0];
        assert_eq!(
            (&first["quantity"], &first["unit"], &first["class"]),
            (&"completion time".into(), &"s".into(), &"long".into())
        );
        assert_eq!((&first["difference"]["relative"], &first["a"]["count"]), (&true.into(), &8.into()));
        assert!(first["difference"]["high"].as_f64().unwrap() < 0.0);
    }
}
