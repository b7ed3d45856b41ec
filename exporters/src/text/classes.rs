// SPDX-License-Identifier: MIT OR Apache-2.0
//! Completion times of queries, short and long flows, MPTCP beside plain TCP `[UPD18]` `[RN10]`.

use mpwatch_model::connection::Connection;
use mpwatch_model::energy::FlowEnergy;
use mpwatch_model::flow_class::FlowClass;
use mpwatch_model::lifecycle::CarriedBy;
use mpwatch_model::metric::{self, Unit};
use mpwatch_model::snapshot::Report;
use mpwatch_model::unit::Bytes;

use super::grid::Align::{Left, Right};
use super::grid::{Column, Grid};
use super::words::{bytes, mean, or_dash};

/// Heading of the table.
pub(crate) const TITLE: &str = "flow classes";
/// The limits of the classes, the flows that its times are from, and what overhead is.
pub(crate) fn notes() -> Vec<String> {
    vec![
        FlowClass::legend(),
        "completion times: connections that were seen from their opening to their end".to_owned(),
        "goodput: observed payload over the life of a connection, each byte once".to_owned(),
        "overhead: estimated share of the wire bytes that was not new payload".to_owned(),
    ]
}

/// The connections of one protocol and class, summed up.
struct ClassTotals {
    protocol: CarriedBy,
    class: FlowClass,
    flows: usize,
    /// Completion times, ascending.
    times: Vec<f64>,
    payload: Bytes,
    /// Mean of their goodputs, bit/s.
    goodput: Option<f64>,
    overhead: Option<f64>,
    jain: Option<f64>,
    /// Of the connections whose energy is known, with the ratio to their payload.
    energy: FlowEnergy,
}

const COLUMNS: &[Column<ClassTotals>] = &[
    ("class", Left, |c| format!("{} {}", c.protocol.as_str(), c.class.as_str())),
    ("flows", Right, |c| c.flows.to_string()),
    ("completed", Right, |c| c.times.len().to_string()),
    ("median", Right, |c| metric::display(Unit::Seconds, quantile(&c.times, 0.5))),
    ("p99", Right, |c| metric::display(Unit::Seconds, quantile(&c.times, 0.99))),
    ("slowest", Right, |c| metric::display(Unit::Seconds, quantile(&c.times, 1.0))),
    ("payload", Right, |c| bytes(c.payload.0)),
    ("mean goodput", Right, |c| metric::display(Unit::BitsPerSecond, c.goodput)),
    ("mean overhead", Right, |c| metric::display(Unit::Ratio, c.overhead)),
    ("mean Jain", Right, |c| or_dash(c.jain.map(|index| format!("{index:.3}")))),
    ("J/GB", Right, |c| {
        let mark = if c.energy.j_per_gb.is_some() { c.energy.source.mark() } else { "" };
        format!("{mark}{}", metric::compact(Unit::JoulesPerGigabyte, c.energy.j_per_gb))
    }),
];

/// A row for each protocol and class that has connections. `None`: there are none.
pub(crate) fn table(report: &Report) -> Option<Grid> {
    let classes = [FlowClass::Query, FlowClass::Short, FlowClass::Long];
    let pairs = classes.into_iter().flat_map(|class| CarriedBy::ALL.map(|protocol| (class, protocol)));
    let rows: Vec<ClassTotals> = pairs.filter_map(|(class, protocol)| sum(report, class, protocol)).collect();
    Grid::of(COLUMNS, &rows)
}

fn sum(report: &Report, class: FlowClass, protocol: CarriedBy) -> Option<ClassTotals> {
    let is_one = |one: &&Connection| one.flow_class == class && one.carried_by() == protocol;
    let flows: Vec<&Connection> = report.connections.iter().filter(is_one).collect();
    let completed = flows.iter().filter(|flow| flow.seen_open && !flow.is_open());
    let mut times: Vec<f64> = completed.map(|flow| flow.age_s).collect();
    times.sort_by(f64::total_cmp);
    let payload_of = |flows: &[&Connection]| flows.iter().map(|flow| flow.payload()).sum::<Bytes>();
    let has_energy = |flow: &&Connection| flow.energy.is_some_and(|energy| energy.active.is_some());
    let known: Vec<&Connection> = flows.iter().copied().filter(has_energy).collect();
    let energy = FlowEnergy::sum(known.iter().filter_map(|flow| flow.energy.as_ref()));
    (!flows.is_empty()).then(|| ClassTotals {
        protocol,
        class,
        flows: flows.len(),
        times,
        payload: payload_of(&flows),
        overhead: mean(&flows.iter().filter_map(|flow| flow.excess_ratio()).collect::<Vec<_>>()),
        jain: mean(&flows.iter().filter_map(|flow| flow.jain_index).collect::<Vec<_>>()),
        goodput: mean(&flows.iter().filter_map(|flow| goodput(flow)).collect::<Vec<_>>()),
        energy: energy.over(known.iter().map(|flow| flow.observed_payload()).sum()),
    })
}

fn goodput(flow: &Connection) -> Option<f64> {
    flow.observed?.goodput().map(|rate| rate.0 as f64)
}

/// The smallest value that at least this share of the sorted values does not exceed. `None`: there are none.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "between zero and the number of values"
)]
fn quantile(sorted: &[f64], q: f64) -> Option<f64> {
    let rank = (sorted.len() as f64 * q).ceil() as usize;
    sorted.get(rank.max(1) - 1).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_values_that_occurred() {
        let values: Vec<f64> = (1..=200).map(f64::from).collect();
        assert_eq!([0.5, 0.99, 1.0].map(|q| quantile(&values, q)), [Some(100.0), Some(198.0), Some(200.0)]);
        assert_eq!((quantile(&[7.0], 0.5), quantile(&[], 0.5)), (Some(7.0), None));
    }
}
