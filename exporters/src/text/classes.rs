// SPDX-License-Identifier: MIT OR Apache-2.0
//! Flow classes: what users of queries, short and long flows have waited for, MPTCP beside plain TCP `[UPD18]` `[RN10]`.

use mpwatch_model::connection::Connection;
use mpwatch_model::energy::FlowEnergy;
use mpwatch_model::flow_class::FlowClass;
use mpwatch_model::lifecycle::Protocol;
use mpwatch_model::metric::{self, Unit};
use mpwatch_model::snapshot::Report;
use mpwatch_model::unit::Bytes;

use super::bytes;
use super::grid::{Grid, Side};

/// What stands above the table.
pub(crate) const TITLE: &str = "flow classes";
/// And what its times are.
pub(crate) const NOTE: &str = "completion times of those that were seen from their opening to their end";

const COLUMNS: &[(&str, Side)] = &[
    ("class", Side::Left),
    ("flows", Side::Right),
    ("completed", Side::Right),
    ("median", Side::Right),
    ("p99", Side::Right),
    ("slowest", Side::Right),
    ("payload", Side::Right),
    ("mean excess", Side::Right),
    ("mean Jain", Side::Right),
    ("J/GB", Side::Right),
];

/// A line for each protocol and class that has connections. `None`: there are none.
pub(crate) fn table(report: &Report) -> Option<Grid<'static>> {
    let mut rows = Vec::new();
    for class in [FlowClass::Query, FlowClass::Short, FlowClass::Long] {
        for protocol in [Protocol::Mptcp, Protocol::Tcp] {
            let of_it = |one: &&Connection| one.flow_class == class && one.protocol == protocol;
            let flows: Vec<&Connection> = report.connections.iter().filter(of_it).collect();
            if !flows.is_empty() {
                rows.push(row(format!("{} {}", protocol.as_str(), class.as_str()), &flows));
            }
        }
    }
    (!rows.is_empty()).then_some(Grid { columns: COLUMNS, rows })
}

fn row(name: String, flows: &[&Connection]) -> Vec<String> {
    let mut times: Vec<f64> =
        flows.iter().filter(|flow| flow.seen_open && !flow.is_open()).map(|flow| flow.age_s).collect();
    times.sort_by(f64::total_cmp);
    let time = |q: f64| metric::display(Unit::Seconds, quantile(&times, q));
    let payload =
        |flow: &&Connection| flow.bytes_sent.unwrap_or_default() + flow.bytes_received.unwrap_or_default();
    let all: Bytes = flows.iter().map(payload).sum();
    let excess = mean(flows.iter().filter_map(|flow| flow.excess_ratio()));
    let jain = mean(flows.iter().filter_map(|flow| flow.jain_index));
    vec![
        name,
        flows.len().to_string(),
        times.len().to_string(),
        time(0.5),
        time(0.99),
        time(1.0),
        bytes(all.0),
        metric::display(Unit::Ratio, excess),
        jain.map_or_else(|| "-".to_owned(), |index| format!("{index:.3}")),
        joules_per_gigabyte(flows),
    ]
}

/// Over the connections whose energy is known; begins with `~` where a part of it is an estimate.
fn joules_per_gigabyte(flows: &[&Connection]) -> String {
    let known: Vec<(FlowEnergy, Bytes)> = flows
        .iter()
        .filter_map(|flow| {
            let energy = flow.energy.filter(|energy| energy.active.is_some())?;
            Some((energy, flow.bytes_sent.unwrap_or_default() + flow.bytes_received.unwrap_or_default()))
        })
        .collect();
    let energy = FlowEnergy::sum(known.iter().map(|(energy, _)| energy))
        .over(known.iter().map(|(_, bytes)| *bytes).sum());
    let mark = if energy.j_per_gb.is_some() && !energy.source.is_measured() { "~" } else { "" };
    format!("{mark}{}", metric::compact(Unit::JoulesPerGigabyte, energy.j_per_gb))
}

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (count, sum) = values.fold((0_u32, 0.0), |(count, sum), value| (count + 1, sum + value));
    (count > 0).then(|| sum / f64::from(count))
}

/// The smallest value that is not exceeded by this part of all; of sorted values. `None`: there are none.
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
