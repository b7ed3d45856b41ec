// SPDX-License-Identifier: MIT OR Apache-2.0
//! Fairness between long flows, and what it cost them in loss `[RN10]`: Jain's index and the slowest flow judge an allocation; rates of
//! loss, timeouts and windows too small for fast retransmit judge its price.

use mpwatch_model::connection::Connection;
use mpwatch_model::flow_class::FlowClass;
use mpwatch_model::lifecycle::Protocol;
use mpwatch_model::metric::{self, Unit};
use mpwatch_model::ratio::jain_index;
use mpwatch_model::snapshot::Report;
use mpwatch_model::subflow::Subflow;

use super::grid::{Grid, Side};

/// What stands above the table.
pub(crate) const TITLE: &str = "fairness between long flows";
/// And what it is taken over.
pub(crate) const NOTE: &str = "mean rates of those that send, each over its own life; sent again: part of what left, of the mean and of the worst flow";

/// Fast retransmit takes three duplicate acknowledgements: a window below this has to wait for a timeout.
const SMALL_WINDOW: u32 = 4;

const COLUMNS: &[(&str, Side)] = &[
    ("", Side::Left),
    ("flows", Side::Right),
    ("Jain's index", Side::Right),
    ("mean rate", Side::Right),
    ("slowest", Side::Right),
    ("sent again", Side::Right),
    ("worst", Side::Right),
    ("timeouts", Side::Right),
    ("windows < 4", Side::Right),
];

/// A line for each protocol that has long flows. `None`: none has two that could be compared.
pub(crate) fn table(report: &Report) -> Option<Grid<'static>> {
    let rows: Vec<Vec<String>> =
        [Protocol::Mptcp, Protocol::Tcp].into_iter().filter_map(|protocol| row(report, protocol)).collect();
    (!rows.is_empty()).then_some(Grid { columns: COLUMNS, rows })
}

/// Bits a second over its life, of a flow that mostly sends: the same bytes arrive somewhere, and may be seen there too.
fn rate(flow: &Connection) -> Option<f64> {
    let (sent, received) = (flow.bytes_sent?, flow.bytes_received.unwrap_or_default());
    (sent > received && flow.age_s > 0.0).then(|| sent.0 as f64 * 8.0 / flow.age_s)
}

fn sent_again(flow: &Connection) -> Option<f64> {
    let again = flow.bytes_retransmitted.0;
    let left = flow.subflows.iter().map(|subflow| subflow.bytes_sent.0).sum::<u64>();
    (left > 0).then(|| again as f64 / left as f64)
}

fn row(report: &Report, protocol: Protocol) -> Option<Vec<String>> {
    let is_one = |flow: &&Connection| flow.protocol == protocol && flow.flow_class == FlowClass::Long;
    let flows: Vec<(&Connection, f64)> =
        report.connections.iter().filter(is_one).filter_map(|flow| Some((flow, rate(flow)?))).collect();
    let index = jain_index(flows.iter().map(|(_, rate)| *rate))?;
    let number = flows.len() as f64;
    let mean = flows.iter().map(|(_, rate)| rate).sum::<f64>() / number;
    let slowest = flows.iter().map(|(_, rate)| *rate).fold(f64::INFINITY, f64::min);
    let losses: Vec<f64> = flows.iter().filter_map(|(flow, _)| sent_again(flow)).collect();
    let mean_loss = (!losses.is_empty()).then(|| losses.iter().sum::<f64>() / losses.len() as f64);
    let subflows = || flows.iter().flat_map(|(flow, _)| &flow.subflows);
    Some(vec![
        protocol.as_str().to_owned(),
        flows.len().to_string(),
        format!("{index:.3}"),
        metric::display(Unit::BitsPerSecond, Some(mean)),
        metric::display(Unit::BitsPerSecond, Some(slowest)),
        metric::display(Unit::Ratio, mean_loss),
        metric::display(Unit::Ratio, losses.into_iter().reduce(f64::max)),
        timeouts(subflows()).map_or_else(|| "-".to_owned(), |number| number.to_string()),
        subflows().filter(|subflow| subflow.cwnd_segments < SMALL_WINDOW).count().to_string(),
    ])
}

/// Of those of which it is known. `None`: of none.
fn timeouts<'a>(subflows: impl Iterator<Item = &'a Subflow>) -> Option<u64> {
    subflows.filter_map(|subflow| subflow.timeouts).map(u64::from).reduce(|a, b| a + b)
}

#[cfg(test)]
mod tests {
    use mpwatch_model::fixture;
    use mpwatch_model::unit::Bytes;

    use super::*;

    fn flow(token: u32, bytes: u64) -> Connection {
        let mut flow = fixture::connection(token, 2);
        (flow.flow_class, flow.age_s, flow.bytes_sent) = (FlowClass::Long, 8.0, Some(Bytes(bytes)));
        flow
    }

    #[test]
    fn flows_of_unlike_rates_are_less_than_fair() {
        let mut starved = flow(2, 1_000_000);
        starved.subflows[1].cwnd_segments = 3;
        let receiver = { Connection { bytes_received: Some(Bytes(9_000_000)), ..flow(3, 10) } };
        let grid = table(&fixture::report(vec![flow(1, 3_000_000), starved, receiver])).unwrap();
        let [row] = &grid.rows[..] else { panic!("one protocol") };
        // (3 + 1)^2 / (2 * (9 + 1)); a receiver has no rate of its own.
        assert_eq!(row[..5], ["mptcp", "2", "0.800", "2.00 Mbit/s", "1.00 Mbit/s"]);
        assert_eq!(row[8], "1");
    }

    #[test]
    fn one_flow_is_compared_with_nothing() {
        assert!(table(&fixture::report(vec![flow(1, 3_000_000)])).is_none());
        assert!(table(&fixture::report(Vec::new())).is_none());
    }
}
