// SPDX-License-Identifier: MIT OR Apache-2.0
//! Plots over all connections of a report: energy per gigabyte by class and by number of subflows, and completion times.

use std::collections::BTreeMap;

use mpwatch_model::flow::class::FlowClass;
use mpwatch_model::flow::class_totals::{completion_times, energy};
use mpwatch_model::flow::pairing::{Flow, flows};
use mpwatch_model::kernel::lifecycle::CarriedBy;
use mpwatch_model::metric::{Unit, count};
use mpwatch_model::snapshot::Report;
use mpwatch_model::unit::Microjoules;

use super::axis::Axis;
use super::bars::{Bar, Bars};
use super::plot::{Curve, Plot};

const ENERGY: Axis =
    Axis { title: "energy per payload", unit: Unit::JoulesPerGigabyte, column: "j_per_gb", log: false };
const COMPLETION: Axis =
    Axis { title: "completion time", unit: Unit::Seconds, column: "completion_s", log: true };
const SHARE: Axis = Axis { title: "share of connections", unit: Unit::Ratio, column: "share", log: false };

/// Minimum number of values of a distribution.
const MIN_VALUES: usize = 5;
/// Maximum number of points of a distribution: a drawing does not show more.
const MAX_POINTS: usize = 200;

/// The plots. Empty: too few connections have a known energy or completion time.
pub(super) fn plots(report: &Report) -> String {
    let flows = flows(&report.connections);
    let classes = by_class(&flows);
    let subflows = by_subflows(&flows);
    let plots = [
        joules("energy-by-class", "class", "class", &classes),
        joules("energy-by-subflows", "number of subflows", "subflows", &subflows),
        completion(&classes),
    ]
    .concat();
    if plots.is_empty() { plots } else { format!("<div class=\"plots\">\n{plots}</div>\n") }
}

type Groups<'a> = Vec<(String, Vec<Flow<'a>>)>;

fn by_class<'a>(flows: &[Flow<'a>]) -> Groups<'a> {
    let pairs = FlowClass::ALL.iter().flat_map(|class| CarriedBy::ALL.map(|protocol| (*class, protocol)));
    let groups = pairs.map(|(class, protocol)| {
        let is_of_group =
            |flow: &&Flow<'a>| flow.end.flow_class == class && flow.end.carried_by() == protocol;
        let name = format!("{} {}", protocol.as_str(), class.as_str());
        (name, flows.iter().filter(is_of_group).copied().collect::<Vec<_>>())
    });
    groups.filter(|(_, flows)| !flows.is_empty()).collect()
}

fn by_subflows<'a>(flows: &[Flow<'a>]) -> Groups<'a> {
    let mut groups: BTreeMap<usize, Vec<Flow<'a>>> = BTreeMap::new();
    for flow in flows.iter().filter(|flow| flow.end.carried_by() == CarriedBy::Mptcp) {
        groups.entry(flow.end.subflows.len()).or_default().push(*flow);
    }
    groups.into_iter().map(|(number, flows)| (count(number, "subflow"), flows)).collect()
}

/// Energy per gigabyte of each group. Empty: fewer than two groups have a known value, so there is nothing to compare.
fn joules(file: &str, by: &str, column: &'static str, groups: &Groups<'_>) -> String {
    let known: Vec<_> = groups
        .iter()
        .map(|(name, flows)| (name, energy(flows)))
        .filter_map(|(name, (energy, connections))| Some((name, energy.j_per_gb?, energy, connections)))
        .collect();
    let Some((_, _, energy, _)) = known.iter().max_by_key(|(_, _, energy, _)| energy.source) else {
        return String::new();
    };
    let kind = if energy.source.is_measured() { "measured" } else { "ESTIMATED" };
    let caption = format!(
        "Energy above idle per gigabyte of payload by {by}, with its bounds; {kind} ({}). In brackets: number of connections whose energy is known",
        energy.source.as_str()
    );
    let rows = known.iter().map(|(name, value, energy, connections)| {
        let active = energy.active.map_or(0.0, Microjoules::joules);
        let scaled = |bound: Microjoules| bound.joules() * value / active;
        let interval = energy.lo.map(scaled).zip(energy.hi.map(scaled)).filter(|_| active > 0.0);
        Bar { name: (*name).clone(), value: *value, interval, count: *connections, published: None }
    });
    let rows: Vec<Bar> = rows.collect();
    if rows.len() < 2 {
        return String::new();
    }
    Bars { file: file.to_owned(), caption, axis: ENERGY, groups_are: column, counted: "connections", rows }
        .html()
}

/// The distribution of completion times of each class. Empty: too few connections were observed from opening to end.
fn completion(classes: &Groups<'_>) -> String {
    let curves =
        classes.iter().filter_map(|(name, flows)| distribution(name.clone(), &completion_times(flows)));
    let caption = "Completion times by class: share of the connections that took at most this long";
    completion_plot("completion-times", caption, "class", curves.collect())
}

pub(super) fn completion_plot(
    file: &str,
    caption: &str,
    curves_are: &'static str,
    curves: Vec<Curve>,
) -> String {
    let (file, caption) = (file.to_owned(), caption.to_owned());
    Plot { file, caption, x: COMPLETION, y: SHARE, curves_are, curves, x_to: 0.0 }.html()
}

/// The cumulative distribution of some sorted values. `None`: too few values.
pub fn distribution(name: String, sorted: &[f64]) -> Option<Curve> {
    let all = sorted.len();
    if all < MIN_VALUES {
        return None;
    }
    let every = all.div_ceil(MAX_POINTS);
    let ranks = (every..all).step_by(every).chain([all]);
    let points = ranks.filter_map(|rank| Some((*sorted.get(rank - 1)?, rank as f64 / all as f64)));
    let start = sorted.first().map(|first| (*first, 0.0));
    Some(Curve { name, points: start.into_iter().chain(points).collect(), steps: true, ..Curve::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_distribution_ends_with_all_values() {
        let sorted: Vec<f64> = (1..=1_003).map(f64::from).collect();
        let curve = distribution("all".to_owned(), &sorted).unwrap();
        assert!(curve.points.len() <= MAX_POINTS + 2);
        assert_eq!((curve.points.first(), curve.points.last()), (Some(&(1.0, 0.0)), Some(&(1_003.0, 1.0))));
        assert!(curve.points.is_sorted());
        assert!(distribution("few".to_owned(), &sorted[..4]).is_none());
    }
}
