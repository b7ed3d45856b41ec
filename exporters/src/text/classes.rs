// SPDX-License-Identifier: MIT OR Apache-2.0
//! Completion times of queries, short and long flows, MPTCP beside plain TCP `[UPD18]` `[RN10]`.

use mpwatch_model::connection::Connection;
use mpwatch_model::energy::FlowEnergy;
use mpwatch_model::flow_class::FlowClass;
use mpwatch_model::lifecycle::CarriedBy;
use mpwatch_model::metric::{self, Unit};
use mpwatch_model::pairing::{Flow, flows};
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
    let flows = flows(&report.connections);
    let rows: Vec<ClassTotals> = pairs.filter_map(|(class, protocol)| sum(&flows, class, protocol)).collect();
    Grid::of(COLUMNS, &rows)
}

fn sum(report: &[Flow<'_>], class: FlowClass, protocol: CarriedBy) -> Option<ClassTotals> {
    let is_one = |flow: &&Flow<'_>| flow.end.flow_class == class && flow.end.carried_by() == protocol;
    let flows: Vec<Flow<'_>> = report.iter().filter(is_one).copied().collect();
    let mean_of = |read: fn(&Connection) -> Option<f64>| {
        mean(&flows.iter().filter_map(|flow| read(flow.end)).collect::<Vec<_>>())
    };
    (!flows.is_empty()).then(|| ClassTotals {
        protocol,
        class,
        flows: flows.len(),
        times: completion_times(&flows),
        payload: flows.iter().map(|flow| flow.end.payload()).sum(),
        overhead: mean_of(Connection::excess_ratio),
        jain: mean_of(|end| end.jain_index),
        goodput: mean_of(|end| end.observed?.goodput().map(|rate| rate.0 as f64)),
        energy: energy(&flows).0,
    })
}

/// How long those connections lasted that were seen from their opening to their end, seconds, ascending.
pub(crate) fn completion_times(flows: &[Flow<'_>]) -> Vec<f64> {
    let completed = flows.iter().filter(|flow| flow.end.seen_open && !flow.end.is_open());
    let mut times: Vec<f64> = completed.map(|flow| flow.end.age_s).collect();
    times.sort_by(f64::total_cmp);
    times
}

/// Energy of the connections whose energy is known, at all of their ends, with its ratio to their payload; and how many these are.
pub(crate) fn energy(flows: &[Flow<'_>]) -> (FlowEnergy, usize) {
    let energy = |flow: &Flow<'_>| flow.energy().filter(|energy| energy.active.is_some());
    let known = flows.iter().filter_map(|flow| Some((flow.observed_payload(), energy(flow)?)));
    let (payloads, energies): (Vec<Bytes>, Vec<FlowEnergy>) = known.unzip();
    (FlowEnergy::sum(&energies).over(payloads.into_iter().sum()), energies.len())
}

/// The smallest value that at least this share of the sorted values does not exceed. `None`: there are none.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "between zero and the number of values"
)]
pub(crate) fn quantile(sorted: &[f64], q: f64) -> Option<f64> {
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
