// SPDX-License-Identifier: MIT OR Apache-2.0
//! Fairness between long flows and its cost `[RN10]`: Jain's index, slowest flow, retransmissions, timeouts, windows too small for fast retransmit.

use mpwatch_model::flow::class::FlowClass;
use mpwatch_model::flow::connection::Connection;
use mpwatch_model::flow::ratio::jain_index;
use mpwatch_model::flow::subflow::retransmitted_ratio;
use mpwatch_model::kernel::lifecycle::CarriedBy;
use mpwatch_model::metric::{self, Unit};
use mpwatch_model::snapshot::Report;
use mpwatch_model::statistics::mean;

use super::grid::Align::{Left, Right};
use super::grid::{Column, Grid, Overview};
use super::words::or_dash;

/// Fast retransmit needs three duplicate ACKs. With a smaller window, TCP must wait for a timeout.
const MIN_FAST_RETRANSMIT_WINDOW: u32 = 4;

/// The long flows of one protocol together.
struct LongFlows {
    protocol: CarriedBy,
    jain: f64,
    /// Mean rate of each flow, bit/s.
    rates: Vec<f64>,
    /// Retransmitted share of the bytes that each flow sent.
    losses: Vec<f64>,
    /// Retransmission timeouts of all subflows for which they are known. `None`: they are unknown for all.
    timeouts: Option<u64>,
    small_windows: usize,
}

const COLUMNS: &[Column<LongFlows>] = &[
    ("", Left, |f| f.protocol.as_str().to_owned()),
    ("flows", Right, |f| f.rates.len().to_string()),
    ("Jain's index", Right, |f| format!("{:.3}", f.jain)),
    ("mean rate", Right, |f| metric::display(Unit::BitsPerSecond, mean(&f.rates))),
    ("slowest", Right, |f| metric::display(Unit::BitsPerSecond, f.rates.iter().copied().reduce(f64::min))),
    ("retransmitted", Right, |f| metric::display(Unit::Ratio, mean(&f.losses))),
    ("worst", Right, |f| metric::display(Unit::Ratio, f.losses.iter().copied().reduce(f64::max))),
    ("timeouts", Right, |f| or_dash(f.timeouts)),
    ("windows < 4", Right, |f| f.small_windows.to_string()),
];

/// A row for each protocol with at least two long flows. `None`: there is none.
pub(crate) fn overview(report: &Report) -> Option<Overview> {
    let rows: Vec<LongFlows> =
        CarriedBy::ALL.into_iter().filter_map(|protocol| sum(report, protocol)).collect();
    let notes = vec![
        format!("flows of {} that sent more than they received; Jain's index of their mean rates", FlowClass::Long.range()),
        "retransmitted: share of the sent bytes, mean over the flows; worst: the highest share of a flow; windows < 4: subflows with a cwnd below 4 segments".to_owned(),
    ];
    Some(Overview { title: "fairness between long flows", notes, grid: Grid::from_rows(COLUMNS, &rows)? })
}

fn sum(report: &Report, protocol: CarriedBy) -> Option<LongFlows> {
    let is_long = |flow: &&Connection| flow.carried_by() == protocol && flow.flow_class == FlowClass::Long;
    let known = report.connections.iter().filter(is_long).filter_map(|flow| Some((flow, rate(flow)?)));
    let (flows, rates): (Vec<&Connection>, Vec<f64>) = known.unzip();
    let subflows = || flows.iter().flat_map(|flow| &flow.subflows);
    Some(LongFlows {
        protocol,
        jain: jain_index(rates.iter().copied())?,
        losses: flows.iter().filter_map(|flow| retransmitted_ratio(&flow.subflows)).collect(),
        timeouts: subflows().filter_map(|subflow| subflow.timeouts).map(u64::from).reduce(|a, b| a + b),
        small_windows: subflows()
            .filter(|subflow| subflow.cwnd_segments < MIN_FAST_RETRANSMIT_WINDOW)
            .count(),
        rates,
    })
}

/// Mean rate of a flow that mostly sends, bit/s. `None`: unknown, or the flow mostly receives; its sender may be listed too.
fn rate(flow: &Connection) -> Option<f64> {
    let (sent, received) = (flow.bytes_sent?, flow.bytes_received.unwrap_or_default());
    let observed = flow.observed.map(|observed| (observed.bytes_sent, observed.duration.seconds()));
    let (carried, seconds) = observed.unwrap_or((sent, flow.age_s));
    (sent > received && seconds > 0.0).then(|| carried.0 as f64 * 8.0 / seconds)
}

#[cfg(test)]
mod tests {
    use mpwatch_fixtures as fixture;
    use mpwatch_model::flow::observed::Observed;
    use mpwatch_model::unit::{Bytes, Nanos};

    use super::*;

    fn flow(token: u32, bytes: u64) -> Connection {
        let mut flow = fixture::connection(token, 2);
        (flow.flow_class, flow.age_s, flow.bytes_sent) = (FlowClass::Long, 80.0, Some(Bytes(bytes)));
        // Only the last 8 s of the flow were observed.
        let bytes = Bytes(bytes);
        let duration = Nanos(8_000_000_000);
        flow.observed = Some(Observed { bytes, bytes_sent: bytes, duration, ..Observed::default() });
        flow
    }

    #[test]
    fn flows_of_different_rates_have_a_lower_index() {
        let mut starved = flow(2, 1_000_000);
        starved.subflows[1].cwnd_segments = 3;
        let receiver = { Connection { bytes_received: Some(Bytes(9_000_000)), ..flow(3, 10) } };
        let grid = overview(&fixture::report(vec![flow(1, 3_000_000), starved, receiver])).unwrap().grid;
        let [row] = &grid.rows[..] else { panic!("one protocol") };
        // (3 + 1)^2 / (2 * (9 + 1)); a receiver has no rate of its own.
        assert_eq!(row[..5], ["mptcp", "2", "0.800", "2.00 Mbit/s", "1.00 Mbit/s"]);
        assert_eq!(row[8], "1");
    }

    #[test]
    fn a_single_flow_has_no_fairness_index() {
        assert!(overview(&fixture::report(vec![flow(1, 3_000_000)])).is_none());
        assert!(overview(&fixture::report(Vec::new())).is_none());
    }
}
